"""Checks of clips before a training, which extras add (`CLIPS`, see `machine.extras`).

The module of such an extra has `look(settings, context, with_likelihood=...)`, which reports the
suspect clips and returns them, each with `name`, `severity` and `reasons`; `left_out(settings,
context)`, the dataset without them; and `report_kept(settings, context)`, which only reports.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from machine import extras
from train.dataset.dataset import Dataset
from train.run_context import RunContext
from train.settings import TrainSettings

log = logging.getLogger("train")


def look(settings: TrainSettings, context: RunContext, *, with_likelihood: bool) -> Sequence[Any]:
    """Reports the suspect clips and returns them."""
    checks = extras.modules("CLIPS")
    return [
        one
        for check in checks
        for one in check.look(settings, context, with_likelihood=with_likelihood)
    ]


def left_out(settings: TrainSettings, context: RunContext) -> Dataset:
    """The dataset without its suspect clips; whole if nothing is installed that finds them.

    Raises DatasetError if nothing is left to learn from."""
    checks = extras.modules("CLIPS")
    if not checks:
        log.warning("SUSPECT_CLIPS=leave_out has no effect: extras/inspect is not installed.")
    for check in checks:
        context = replace(context, data=check.left_out(settings, context))
    return context.data


def report_kept(settings: TrainSettings, context: RunContext) -> None:
    """Logs how many clips are suspect, and the worst of them."""
    for check in extras.modules("CLIPS"):
        check.report_kept(settings, context)
