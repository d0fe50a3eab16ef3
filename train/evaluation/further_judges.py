"""Judges that extras add to an evaluation: a column each, which the verdict ignores.

JUDGE (see `machine.extras`) names a module with `judge_of(clips, language)`, which returns a
`FurtherJudge` of the person. When a run ends, the base and the best candidate say the texts of the
judge's clips.
"""

import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from machine import extras
from train.dataset.dataset import Clip
from train.evaluation.plan import EvaluationPlan
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices.evaluation_file import FurtherFigure, JudgeDescription
from xtts.workers.requests import SentenceTask, SpokenFacts

log = logging.getLogger("train")

# Speaks sentences into their files.
Speak = Callable[[Sequence[SentenceTask]], Sequence[SpokenFacts]]


class FurtherJudge(Protocol):
    """A judge of one person.

    Attributes:
        name: Its name in evaluation.json, and the heading of its column.
        description: With `absent`, if it cannot judge this person.
        clips: The clips whose texts each candidate says; empty if it cannot judge.
    """

    name: str
    description: JudgeDescription
    clips: Sequence[Clip]

    def figure(self, base: Sequence[Path], candidate: Sequence[Path]) -> FurtherFigure | None:
        """A candidate's figure; None if it has none.

        Args:
            base: The base's sounds of the texts of `clips`. A sentence that failed has no file.
            candidate: The candidate's.
        """


class FurtherJudges:
    """The judges of extras in a run. Their errors cost a figure, and nothing else."""

    def __init__(self, plan: EvaluationPlan) -> None:
        self._plan = plan

    @property
    def can_judge(self) -> bool:
        """Whether one of them can judge the person."""
        return any(judge.clips for judge in self._judges)

    def descriptions(self) -> dict[str, JudgeDescription]:
        """As `xtts.voices.evaluation_file.Evaluation.judges`."""
        return {judge.name: judge.description for judge in self._judges}

    def figures(self, base: Speak, candidate: Speak) -> dict[str, FurtherFigure]:
        """The figures of a candidate, by name. Raises the errors of `base` and `candidate`."""
        figures = dict[str, FurtherFigure]()
        for judge in self._judges:
            if not judge.clips:
                continue
            with TemporaryDirectory() as folder:
                sounds_of_base = _spoken(base, judge.clips, Path(folder, "base"))
                sounds = _spoken(candidate, judge.clips, Path(folder, "candidate"))
                try:
                    figure = judge.figure(sounds_of_base, sounds)
                except Exception as error:  # an extra must not cost an evaluation
                    log.warning("There is no figure of %s: %s", judge.name, error)
                    figure = None
            figures |= {judge.name: figure} if figure else {}
        return figures

    @cached_property
    def _judges(self) -> list[FurtherJudge]:
        judges = list[FurtherJudge]()
        for module in extras.modules("JUDGE"):
            try:
                judges.append(module.judge_of(self._plan.held_out_clips, self._plan.reference.language))
            except Exception as error:
                log.warning("%s does not judge: %s", module.__name__, error)
        return judges


def _spoken(speak: Speak, clips: Sequence[Clip], folder: Path) -> list[Path]:
    """Speaks the texts of clips into files; those of sentences that did not end are deleted."""
    paths = [folder / f"{number:02}.wav" for number in range(1, len(clips) + 1)]
    tasks = [
        SentenceTask(SynthesisRequest(clip.text, clip.language, seed), out=path, measured=False)
        for seed, (clip, path) in enumerate(zip(clips, paths, strict=True))
    ]
    for path, facts in zip(paths, speak(tasks), strict=True):
        if not facts.finished:
            path.unlink(missing_ok=True)
    return paths
