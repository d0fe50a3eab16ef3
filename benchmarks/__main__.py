"""`python -m benchmarks NAME [--json] …`: each benchmark is a module with `main(argv)`."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from machine.errors import SotaqueError


def names() -> list[str]:
    """The benchmarks that there are: modules of this folder that call themselves one."""
    folder = Path(__file__).parent
    return sorted(
        path.stem
        for path in folder.glob("*.py")
        if not path.stem.startswith("_") and "\ndef main(argv" in path.read_text(encoding="utf-8")
    )


def main(argv: Sequence[str]) -> int:
    """Runs the benchmark that is named; 2 when there is none of that name."""
    if not argv or argv[0] not in names():
        print(f"python -m benchmarks {'|'.join(names())} [--json] …", file=sys.stderr)
        return 0 if argv and argv[0] in ("-h", "--help") else 2
    try:
        found: int = importlib.import_module(f"benchmarks.{argv[0]}").main(list(argv[1:]))
    except SotaqueError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
