"""`python -m train prepare`: computes the feature cache and trains nothing."""

import argparse
import logging

from train.settings import TrainSettings

SUMMARY = "compute the feature cache; train nothing"
PURPOSE = "Computes the feature cache. Trains nothing."


log = logging.getLogger("train")


def run(settings: TrainSettings, _arguments: argparse.Namespace) -> int:
    """Reads the dataset and computes the features of its clips."""
    from train.dataset import features
    from train.run_context import build_context

    context = build_context(settings)
    log.info(context.data.report())
    features.build(context.data, context.base, context.config, settings.cache_dir, context.device.features)
    return 0
