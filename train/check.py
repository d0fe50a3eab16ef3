"""`python -m train check`: validates the dataset without training."""

import logging
from collections.abc import Sequence
from pathlib import Path

from train.dataset import features
from train.dataset.dataset import Dataset
from train.settings import TrainSettings

log = logging.getLogger("train")

_MOST_NAMES = 20


def run(settings: TrainSettings, *, verify: bool = False, repair: bool = False) -> int:
    """Prints the refused clips and the totals; 0 when something is left to learn from.

    verify: reads every record of the feature cache against its hash, 2 when one is damaged.
    repair: computes damaged records again.
    """
    from train.setup import build_context

    context = build_context(settings)
    log.info(context.data.report())
    place = (context.data, context.base, context.config, settings.cache_dir)
    if repair:
        mended = features.repair(*place)
        log.info("Features: %d damaged records computed again. %s", len(mended), _named(mended))
    elif verify:
        return _verified(context.data, features.folder_of(context.base, settings.cache_dir))
    return 0


def _verified(data: Dataset, folder: Path) -> int:
    cache = features.FeatureCache(data.clips, folder)
    missing, damaged = cache.missing(), cache.damaged()
    whole = len(data.clips) - len(missing) - len(damaged)
    log.info(
        "Features: %d records are whole, %d are not there and will be computed at the next start, "
        "%d are damaged.", whole, len(missing), len(damaged),
    )  # fmt: skip
    if damaged:
        log.info("Damaged: %s. Mend them with: python -m train check --repair", _named(damaged))
    return 2 if damaged else 0


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return f"{shown} and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else shown
