"""`python -m train run`, the default: fine-tunes, or continues a run that stopped."""

import argparse
import faulthandler

from train.settings import TrainSettings

SUMMARY = "fine-tune, or resume an interrupted run"
PURPOSE = "Fine-tunes the base model on your dataset. Continues a run that stopped."


def run(settings: TrainSettings, _arguments: argparse.Namespace) -> int:
    """Trains to the end of the run. Raises SotaqueError."""
    from train.setup import open_trainer

    if not faulthandler.is_enabled():
        faulthandler.enable()  # also prints a traceback for a crash in C

    with open_trainer(settings) as trainer:
        return trainer.run()
