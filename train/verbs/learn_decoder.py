"""`python -m train learn-decoder`: trains the decoder of the best weights for longer."""

import argparse

from machine import commands
from train.settings import TrainSettings

SUMMARY = "train the decoder of the best weights for longer  [--minutes M]"
PURPOSE = "Continues to train the decoder of the best weights, on up to 300 clips."
# The time of training without --minutes.
MINUTES = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    parser.add_argument("--minutes", type=float, metavar="M", help="the time of training (default: 10)")


def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
    """Trains the decoder, and speaks the best sample. Raises as `open_evaluator`, and RunError if
    nothing was judged yet."""
    from train.evaluation.best_decoder import learn_best_decoder
    from train.saved_run import open_evaluator
    from xtts.voices.evaluation_file import read_evaluation
    from xtts.voices.run_folder import RunError

    minutes = MINUTES if arguments.minutes is None else arguments.minutes
    with open_evaluator(settings) as (evaluator, samples, _):
        evaluation = read_evaluation(evaluator.run.evaluation_file)
        if evaluation is None or evaluation.verdict is None:
            raise RunError(
                f"{evaluator.run.folder} was not evaluated, so its best weights are unknown. Run "
                f"`{commands.program('train evaluate')}`, which judges them and trains a decoder."
            )
        if not learn_best_decoder(evaluator, evaluation.verdict, 60 * minutes):
            raise RunError(
                f"{minutes:g} minutes were not enough to train a decoder. Set a longer time with --minutes."
            )
        samples.speak_best(evaluation.verdict)
    return 0
