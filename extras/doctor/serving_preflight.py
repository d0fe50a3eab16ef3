"""Why the service would refuse its settings, as JSON: `python -m …serving_preflight [DOTENV]`.

The doctor runs it in a child process.
"""

import json
import sys
from pathlib import Path

from api.settings import load
from machine.errors import SotaqueError


def refusals(dotenv: Path = Path(".env")) -> list[str]:
    """The message with which the service would exit; an empty list if it would start."""
    try:
        load((), None, dotenv)
    except SotaqueError as error:
        return [str(error)]
    return []


if __name__ == "__main__":
    sys.stdout.write(json.dumps(refusals(*map(Path, sys.argv[1:]))) + "\n")
    sys.exit(0)
