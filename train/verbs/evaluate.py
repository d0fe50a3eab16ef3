"""`python -m train evaluate`: judges the base, every saved epoch and blends.

All remaining candidates, even if judging is slow. The first evaluation of a run speaks every
sentence of the set; later ones speak the same number as the first.
"""

import argparse
import json
import sys
from dataclasses import asdict

from train.settings import TrainSettings

SUMMARY = "judge the base, every saved epoch and blends, and report the best one  [--json]"
PURPOSE = "Judges the base, every saved epoch and blends. Reports which is best, and why."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    parser.add_argument("--json", action="store_true", help="print evaluation.json; the log goes to stderr")


def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
    """Judges, and prints the table or JSON. Raises as `open_evaluator`."""
    from train.evaluation.conclusion import conclude
    from train.saved_run import open_evaluator
    from xtts.voices.run_folder import RunError

    with open_evaluator(settings) as (evaluator, samples, base):
        conclude(evaluator, samples, settings, base)
        evaluation = evaluator.evaluation()
    if evaluation is None or evaluation.verdict is None:
        raise RunError("Nothing could be judged. The log above gives the reason.")
    if arguments.json:
        sys.stdout.write(json.dumps(asdict(evaluation), indent=2, ensure_ascii=False) + "\n")
    return 0
