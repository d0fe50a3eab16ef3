"""The context of a run before it writes anything: machine, base, dataset, and checks of its clips.

Two modules of extras (see `machine.extras`) work on it. `CLIPS` checks clips before a training:
`look(settings, context, with_likelihood=...)` reports and returns the suspect clips, each with
`name` (its file), `severity` and `reasons`; `left_out(settings, context)` returns the dataset
without them; `report_kept(settings, context)` only reports them. `REHEARSAL` has
`rehearsal_of(settings, context, speaks=...)`, which adds clips in the old languages of a base while
it learns an added one.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

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
    """The machine, base model and dataset of a run; made by `train.setup.build_context`."""

    machine: Environment
    device: Place
    precision: Choice
    base: Path
    config: ModelConfig
    tokenizer: Tokenizer
    data: Dataset


# Clips in a base's old languages


@dataclass(frozen=True)
class Rehearsal:
    """The clips of a run, with those that rehearse the base's old languages.

    Attributes:
        clips: The dataset's clips, followed by those that the base spoke.
        own: Indices of the clips in every epoch.
        drawn: Indices of the clips from which each epoch draws some.
        share: The intended share of drawn clips in an epoch's audio.
    """

    clips: tuple[Clip, ...]
    own: tuple[int, ...]
    drawn: tuple[int, ...] = ()
    share: float = 0.0


def rehearsal_of(settings: TrainSettings, context: RunContext, *, speaks: bool) -> Rehearsal:
    """The rehearsal of a run. speaks: whether this process speaks the missing clips; other
    processes only read them. Raises the errors of speaking and of the dataset."""
    if languages := extras.first("REHEARSAL"):
        found: Rehearsal = languages.rehearsal_of(settings, context, speaks=speaks)
        return found
    if settings.rehearsal != "off" and learned_languages(context):
        log.warning("REHEARSAL has no effect: extras/languages is not installed.")
    return Rehearsal(context.data.clips, context.data.train)


def learned_languages(context: RunContext) -> set[str]:
    """The short codes of the training clips' languages that were added to the base and are not
    learned yet."""
    unlearned = {one.language for one in context.config.unlearned}
    return unlearned & {
        short_code(context.data.clips[index].language) for index in context.data.train
    }
