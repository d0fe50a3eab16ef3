"""`python -m api.preflight [DOTENV]`: prints, as JSON, the settings that the service would refuse.

The doctor asks this in a child: it lives in `machine`, which may not know `api`.
"""

import json
import sys
from pathlib import Path

from api.settings import load
from machine.errors import SotaqueError


def refusals(dotenv: Path = Path(".env")) -> list[str]:
    """The sentence that the service itself would end with; none where it starts."""
    try:
        load((), None, dotenv)
    except SotaqueError as error:
        return [str(error)]
    return []


if __name__ == "__main__":
    sys.stdout.write(json.dumps(refusals(*map(Path, sys.argv[1:]))) + "\n")
    sys.exit(0)
