"""`python -m xtts speak | …`: the command line of the model."""

import argparse
import importlib
import json
import os
import sys
from collections.abc import Sequence

from machine import commands, extras
from machine.errors import SotaqueError
from machine.memory import limit_onednn_cache
from machine.threads import limit_omp_spinning

VERBS = {"speak": "xtts.verbs.speak", "import": "xtts.verbs.import_voice"}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; prints the message of an error and returns its exit code."""
    limit_omp_spinning()
    limit_onednn_cache()
    parser = parser_of_all()
    if not (sys.argv[1:] if argv is None else argv):
        parser.print_help()
        return 2
    arguments, unknown = parser.parse_known_args(argv)
    verb_parser = vars(arguments).pop("parser")
    if unknown:
        # With the usage of the verb; `parse_args` would print that of the program.
        verb_parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        code: int = arguments.run_verb(arguments)
        return code
    except BrokenPipeError:
        # For example, `… | head` has closed the pipe. Discards the rest of the buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SotaqueError as error:
        print(error, file=sys.stderr)
        if getattr(arguments, "json", False):
            content = {"schema": 1, "exit_code": error.exit_code, "error": str(error)}
            print(json.dumps(content, indent=2, ensure_ascii=False))
        return error.exit_code


def parser_of_all() -> argparse.ArgumentParser:
    """The parser, with a subcommand for each verb; those of the extras come last."""
    parser = argparse.ArgumentParser(prog=commands.program("xtts"), description=_description())
    parser.add_argument("--version", action="version", version=commands.version())
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    for verb, name in modules().items():
        module = importlib.import_module(name)
        verb_parser = verbs.add_parser(
            verb,
            help=module.SUMMARY,
            epilog=getattr(module, "EPILOG", None),
            usage=f"%(prog)s {getattr(module, 'USAGE', '')}[options]",
        )
        module.add_arguments(verb_parser)
        verb_parser.set_defaults(run_verb=module.run, parser=verb_parser)
    return parser


def modules() -> dict[str, str]:
    """Each verb with its module."""
    return VERBS | extras.verbs("xtts")


def _description() -> str:
    return f"`{commands.program('xtts')} {' | '.join(modules())}`: the command line."


if __name__ == "__main__":
    sys.exit(main())
