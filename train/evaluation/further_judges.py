"""Judges that extras add to an evaluation: a column each, which the verdict ignores.

JUDGE (see `machine.extras`) names a module with `judge_of(clips, language)`, which returns a
`FurtherJudge` of the person. Every candidate says the texts of the judge's clips after its other
sentences. The sounds of the base are kept, because every candidate is compared with them.
"""

import logging
import shutil
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

from machine import extras
from train.dataset.dataset import Clip
from train.evaluation.plan import EvaluationPlan
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices.evaluation_file import FurtherFigure, JudgeDescription
from xtts.voices.run_folder import RunFolder
from xtts.voices.verdict import candidate_id
from xtts.workers.requests import SentenceTask, SpokenFacts

log = logging.getLogger("train")

BASE = candidate_id("base", 0, 0.0)


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

    def __init__(self, plan: EvaluationPlan, run: RunFolder) -> None:
        self._plan = plan
        self._run = run

    def descriptions(self) -> dict[str, JudgeDescription]:
        """As `xtts.voices.evaluation_file.Evaluation.judges`."""
        return {name: judge.description for name, judge in self._judges.items()}

    def tasks(self, candidate: str, described: Mapping[str, JudgeDescription]) -> tuple[SentenceTask, ...]:
        """The sentences that a candidate says for them. The arguments are those of `figures`."""
        return tuple(
            SentenceTask(SynthesisRequest(clip.text, clip.language, seed), out=path, measured=False)
            for judge in self._working(described)
            for seed, (clip, path) in enumerate(zip(judge.clips, self._sounds(candidate, judge), strict=True))
        )

    def figures(
        self, candidate: str, facts: Sequence[SpokenFacts], described: Mapping[str, JudgeDescription]
    ) -> dict[str, FurtherFigure]:
        """The figures of a candidate by name; empty for the base.

        Args:
            candidate: Its id.
            facts: The measurements of `tasks`.
            described: The judges that judged the base; only these have its sounds.
        """
        figures, rest = dict[str, FurtherFigure](), list(facts)
        for judge in self._working(described):
            sounds = self._sounds(candidate, judge)
            of_judge, rest = rest[: len(sounds)], rest[len(sounds) :]
            for path, spoken in zip(sounds, of_judge, strict=True):
                if not spoken.finished:
                    path.unlink(missing_ok=True)
            if candidate == BASE:
                continue
            try:
                figure = judge.figure(self._sounds(BASE, judge), sounds)
            except Exception as error:  # an extra must not cost an evaluation
                log.warning("%s has no figure of %s: %s", candidate, judge.name, error)
                figure = None
            figures |= {judge.name: figure} if figure else {}
            shutil.rmtree(sounds[0].parent, ignore_errors=True)
        return figures

    @cached_property
    def _judges(self) -> dict[str, FurtherJudge]:
        judges = dict[str, FurtherJudge]()
        for module in extras.modules("JUDGE"):
            try:
                judge: FurtherJudge = module.judge_of(self._plan.held_out, self._plan.reference.language)
                judges[judge.name] = judge
            except Exception as error:
                log.warning("%s does not judge: %s", module.__name__, error)
        return judges

    def _working(self, described: Mapping[str, JudgeDescription]) -> list[FurtherJudge]:
        """Those that can judge the person, and judged the base."""
        return [
            judge
            for name, judge in self._judges.items()
            if judge.clips and name in described and described[name].absent is None
        ]

    def _sounds(self, candidate: str, judge: FurtherJudge) -> list[Path]:
        folder = self._run.samples / "evaluation" / candidate / judge.name
        return [folder / f"{clip.sha256[:12]}.wav" for clip in judge.clips]
