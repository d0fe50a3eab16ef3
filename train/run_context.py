"""The context of a run before it writes anything: machine, base, dataset, and the checks of clips.

`CLIPS` (see `machine.extras`) names a module that checks clips before a training. It has
`look(settings, context, with_likelihood=...)`, which reports the suspect clips and returns them,
each with `name`, `severity` and `reasons`; `left_out(settings, context)`, the dataset without them;
and `report_kept(settings, context)`, which only reports.
`REHEARSAL` names one that has `rehearsal_of(settings, context, speaks=...)`: clips in the old
languages of a base while it learns an added one.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from machine import extras
from machine.devices.selection import Choice, Environment, Place
from train.dataset.dataset import Clip, Dataset
from train.settings import TrainSettings
from xtts.model.config import ModelConfig
from xtts.text.languages import short_code
from xtts.text.tokenizer import Tokenizer

log = logging.getLogger("train")


@dataclass(frozen=True)
class RunContext:
    """Made by `train.setup.build_context`."""

    machine: Environment
    device: Place
    precision: Choice
    base: Path
    config: ModelConfig
    tokenizer: Tokenizer
    data: Dataset


# Suspect clips


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


# Clips in a base's old languages


@dataclass(frozen=True)
class Rehearsal:
    """What is rehearsed.

    Attributes:
        clips: The dataset's clips, and behind them those that the base spoke.
        own: Indices of the clips that every epoch learns.
        drawn: Indices of those of which every epoch draws some.
        share: Of an epoch's audio that is to be drawn.
    """

    clips: tuple[Clip, ...]
    own: tuple[int, ...]
    drawn: tuple[int, ...] = ()
    share: float = 0.0

    @property
    def real_share(self) -> float:
        """Of an epoch's audio that is drawn: an epoch draws no clip twice."""
        own, drawn = (sum(self.clips[i].seconds for i in some) for some in (self.own, self.drawn))
        return min(self.share, drawn / (own + drawn))


def rehearsal_of(settings: TrainSettings, context: RunContext, *, speaks: bool) -> Rehearsal:
    """What a run rehearses. speaks: whether this process speaks what is missing; the others only
    read it. Raises the errors of speaking and of the dataset."""
    for languages in extras.modules("REHEARSAL"):
        found: Rehearsal = languages.rehearsal_of(settings, context, speaks=speaks)
        return found
    if settings.rehearsal != "off" and learned_languages(context):
        log.warning("REHEARSAL has no effect: extras/languages is not installed.")
    return Rehearsal(context.data.clips, context.data.train)


def learned_languages(context: RunContext) -> set[str]:
    """The added languages that the training clips are in and the base has not learned, by their
    short codes."""
    unlearned = {one.language for one in context.config.unlearned}
    return unlearned & {
        short_code(context.data.clips[index].language) for index in context.data.train
    }
