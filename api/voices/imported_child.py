"""Imports one voice file: `python -m api.voices.imported_child JSON`, which the service starts.

JSON: the arguments of `xtts.voices.files.unpacking.import_voice`. Prints the name and the kind of
the voice, or on stderr why it is refused.
"""

import json
import sys
from pathlib import Path

from machine.errors import SotaqueError
from xtts.voices.files import checking, foreign, unpacking

# Bases that each machine finds by their names; BASE_MODEL may name the folder of any other.
_BY_NAME = ("demo", "xtts_v2")


def main() -> int:
    """Imports the file; returns the exit code."""
    request = json.loads(sys.argv[1])
    path = Path(request["path"])
    base = request["base"]
    try:
        if foreign.read_foreign_voice(path) is None:
            with checking.open_voice(path, read_members=False) as voice:
                base = None if voice.manifest.base.name in _BY_NAME else base
        added = unpacking.import_voice(
            path,
            Path(request["voices_dir"]),
            name=request["name"],
            replaces=request["replaces"],
            base=base,
            xtts_v2=request["xtts_v2"],
            tos_agreed=request["tos_agreed"],
            taken=request["taken"],
        )
    except SotaqueError as error:
        sys.stderr.write(str(error))
        return error.exit_code
    json.dump({"name": added.name, "kind": added.kind}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
