"""`python -m train prepare`: computes the feature cache and trains nothing."""

import argparse

from train.settings import TrainSettings

SUMMARY = "compute the feature cache; train nothing"
PURPOSE = "Computes the feature cache. Trains nothing."


def run(settings: TrainSettings, _arguments: argparse.Namespace) -> int:
    """As `train.setup.prepare`."""
    from train.setup import prepare

    return prepare(settings)
