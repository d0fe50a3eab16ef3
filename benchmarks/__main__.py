"""`python -m benchmarks VERB [--full] [--json]`: voice, memory. Each verb is a module."""

import sys
from collections.abc import Sequence
from importlib import import_module

VERBS = ("voice", "memory")


def main(argv: Sequence[str]) -> int:
    """Runs one benchmark; 2 when there is none of that name."""
    if not argv or argv[0] not in VERBS:
        print(f"python -m benchmarks {{{'|'.join(VERBS)}}} [--full] [--json]", file=sys.stderr)
        return 2
    found: int = import_module(f"benchmarks.{argv[0]}").main(argv[1:])
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
