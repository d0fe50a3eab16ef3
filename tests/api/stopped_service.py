"""`python -m api` with a fake child, as a target for signals.

python -m tests.api.stopped_service FOLDER PORT SLOTS [QUEUE DEADLINE [KEY]]
"""

import logging
import sys
from dataclasses import replace
from pathlib import Path

from pydantic import SecretStr

from api.__main__ import serve
from tests.api.conftest import QUICK, fake_child, settings_in


def main() -> int:
    given, defaults = sys.argv[1:], ["8", "60", ""]
    folder, port, slots, queue, deadline, key = given + defaults[len(given) - 3 :]
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    settings = settings_in(Path(folder), api_port=int(port), api_key=SecretStr(key) if key else None)
    how = fake_child(settings)
    limits = replace(QUICK, slots=int(slots), queue=int(queue), deadline_seconds=float(deadline))
    return serve(settings, how, limits)


if __name__ == "__main__":
    sys.exit(main())
