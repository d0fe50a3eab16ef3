"""`python -m xtts monitor`: the options of the command."""

import argparse
from pathlib import Path

SUMMARY = "show GPU, CPU and RAM usage, one line per interval"
EPILOG = "It reads the environment and .env like the programs; see docs/settings.md."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    parser.add_argument("--log", type=Path, help="a CSV file to write or append to")
    parser.add_argument("--duration", type=_seconds, help="how long, in seconds; until Ctrl-C by default")
    parser.add_argument("--interval", type=_seconds, default=2.0, help="seconds between lines; 2 by default")


def run(arguments: argparse.Namespace) -> int:
    """As `extras.doctor.usage_log.run`."""
    from extras.doctor import usage_log
    from machine.settings.loading import SharedSettings, load

    settings, _ = load(SharedSettings)
    return usage_log.run(arguments.log, arguments.duration, arguments.interval, settings.output_dir)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; use 0.1 seconds or more")
    return seconds
