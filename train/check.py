"""`python -m train check`: what the dataset is worth, without training on it."""

import logging

from train import features
from train.settings import TrainSettings

log = logging.getLogger("train")


def run(settings: TrainSettings, *, verify: bool = False, repair: bool = False) -> int:
    """Prints the refused clips and the totals; 0 when something is left to learn from.

    verify: reads every record of the feature cache against its hash, 2 when one is damaged.
    repair: computes damaged records again.
    """
    from train.run import look

    looked = look(settings)
    log.info(looked.data.report())
    place = (looked.data, looked.base, looked.config, settings.cache_dir)
    if repair:
        mended = features.repair(*place)
        log.info("Features: %d records computed again. %s", len(mended), ", ".join(mended))
    elif verify:
        folder = features.folder_of(looked.base, settings.cache_dir)
        damaged = features.Features(looked.data.clips, folder).damaged()
        log.info("Features: %d of %d records are damaged or missing. %s", len(damaged),
                 len(looked.data.clips), ", ".join(damaged))  # fmt: skip
        return 2 if damaged else 0
    return 0
