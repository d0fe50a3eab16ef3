"""`python -m benchmarks NAME [--json] …`: each benchmark is a module of this folder.

A benchmark has `run(arguments)`, which returns the figures that --json prints. It may have
`add_arguments(parser)`, `report(figures)`, which a person reads instead of plain tables, and
`exit_code(figures)`, with which the program ends.
"""

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import tables
from machine.errors import SotaqueError


def names() -> list[str]:
    """The benchmarks that there are: modules of this folder that can `run`."""
    folder = Path(__file__).parent
    return sorted(
        path.stem
        for path in folder.glob("*.py")
        if not path.stem.startswith("_") and "\ndef run(arguments" in path.read_text("utf-8")
    )


def main(argv: Sequence[str]) -> int:
    """Runs the benchmark that is named; 2 when there is none of that name."""
    if not argv or argv[0] not in names():
        print(f"python -m benchmarks {'|'.join(names())} [--json] …", file=sys.stderr)
        return 0 if argv and argv[0] in ("-h", "--help") else 2
    name, benchmark = argv[0], importlib.import_module(f"benchmarks.{argv[0]}")
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}", description=benchmark.__doc__
    )
    parser.add_argument("--json", action="store_true", help="figures as JSON, not as a table")
    if hasattr(benchmark, "add_arguments"):
        benchmark.add_arguments(parser)
    arguments = parser.parse_args(argv[1:])
    try:
        found: Any = benchmark.run(arguments)
    except SotaqueError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    report = getattr(benchmark, "report", tables.text)
    print(json.dumps(found, indent=1, default=str) if arguments.json else report(found))
    return benchmark.exit_code(found) if hasattr(benchmark, "exit_code") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
