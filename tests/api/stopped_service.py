"""`python -m api` with a fake child, to be sent signals.

python -m tests.api.stopped_service FOLDER PORT SLOTS
"""

import logging
import sys
from dataclasses import replace
from pathlib import Path

from api.__main__ import serve
from tests.api.conftest import QUICK, fake_child, settings_in


def main() -> int:
    folder, port, slots = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    settings = settings_in(Path(folder), api_port=int(port))
    how = fake_child(settings)
    return serve(settings, how, replace(QUICK, slots=int(slots), deadline=60.0))


if __name__ == "__main__":
    sys.exit(main())
