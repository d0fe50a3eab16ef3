"""`python -m api` with a fake child, as a target for signals.

python -m tests.api.stopped_service FOLDER PORT SLOTS [QUEUE DEADLINE]
"""

import logging
import sys
from dataclasses import replace
from pathlib import Path

from api.__main__ import serve
from tests.api.conftest import QUICK, fake_child, settings_in


def main() -> int:
    folder, port, slots, queue, deadline = (*sys.argv[1:], "8", "60")[:5]
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    settings = settings_in(Path(folder), api_port=int(port))
    how = fake_child(settings)
    limits = replace(QUICK, slots=int(slots), queue=int(queue), deadline=float(deadline))
    return serve(settings, how, limits)


if __name__ == "__main__":
    sys.exit(main())
