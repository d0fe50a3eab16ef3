"""`python -m tests.train.slowly …`: `python -m train …` with steps slow enough to be killed."""

import sys

from tests.train import poisons
from train.__main__ import main

if __name__ == "__main__":
    poisons.slow_steps("1.0")
    sys.exit(main())
