"""`python -m tests.extras.studio.jobs.queue_program [settings]`: `train queue --once` with the fake
training, for tests that kill it."""

import logging
import sys

from extras.studio.jobs import trainer
from tests.extras.studio.jobs import FAKE
from train.settings import load

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    sys.exit(trainer.run(load(sys.argv[1:], {}, None)[0], once=True, module=FAKE))
