"""`python -m benchmarks NAME [--record]` runs one benchmark, a module of this folder.

A benchmark has `run(arguments)`. It returns the figures that are printed as JSON and that --record
writes into `benchmarks/results/`. It may have two more functions: `add_arguments(parser)` and
`exit_code(figures)`.
"""

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from benchmarks import result_files
from machine.errors import SotaqueError


def names() -> list[str]:
    """Names of all benchmarks: the modules of this folder that have `run`."""
    folder = Path(__file__).parent
    return sorted(
        path.stem
        for path in folder.glob("*.py")
        if not path.stem.startswith("_") and "\ndef run(arguments" in path.read_text("utf-8")
    )


def parser_of(name: str) -> tuple[ModuleType, argparse.ArgumentParser]:
    """The module of a benchmark and the parser of its arguments."""
    benchmark = importlib.import_module(f"benchmarks.{name}")
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {name}", description=benchmark.__doc__)
    parser.add_argument(
        "--record",
        nargs="?",
        const="",
        metavar="VARIANT",
        help=f"write benchmarks/results/{name}[-VARIANT].json",
    )
    if hasattr(benchmark, "add_arguments"):
        benchmark.add_arguments(parser)
    return benchmark, parser


def main(argv: Sequence[str]) -> int:
    """Runs the named benchmark; returns 2 if there is none of that name."""
    if not argv or argv[0] not in names():
        print(f"python -m benchmarks {'|'.join(names())} [--record] ...", file=sys.stderr)
        return 0 if argv and argv[0] in ("-h", "--help") else 2
    name = argv[0]
    benchmark, parser = parser_of(name)
    arguments = parser.parse_args(argv[1:])
    facts = result_files.facts_before() if arguments.record is not None else None
    try:
        figures = benchmark.run(arguments)
        code: int = benchmark.exit_code(figures) if hasattr(benchmark, "exit_code") else 0
        if facts is not None and code:
            print(f"Not recorded: the benchmark failed with exit code {code}.", file=sys.stderr)
        elif facts is not None:
            path = result_files.record(name, arguments, argv[1:], facts, figures)
            print(f"Wrote {path}. Now run: python -m benchmarks.page", file=sys.stderr)
    except SotaqueError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(json.dumps(figures, indent=1, default=str))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
