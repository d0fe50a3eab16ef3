"""`OUTPUT_DIR/evaluation.json`: the judgement of every epoch, every blend and the base.

It also names the best of them. `train.evaluation` writes it; the API, `export` and `speak` read it,
without torch. docs/develop/evaluation.md documents every field.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from machine import commands
from machine.storage.atomic import Written, write_json

log = logging.getLogger(__name__)

SCHEMA = 1

CandidateKind = Literal["base", "epoch", "blend"]
Outcome = Literal["finished", "unfinished", "cut", "babbling"]
# The better direction of a judge's figure; "zero": nearer to 0.
Better = Literal["higher", "lower", "zero"]


@dataclass(frozen=True)
class MeanInterval:
    """A mean over `count` sentences with its 95 % interval."""

    mean: float
    low: float
    high: float
    count: int

    @property
    def holds_zero(self) -> bool:
        """Whether the interval contains 0, so that a difference may be none."""
        return self.low <= 0 <= self.high


@dataclass(frozen=True)
class JudgeFigure(MeanInterval):
    """A judge's mean over the finished sentences. against_base: the mean of the differences to the
    base, sentence by sentence; None for the base itself."""

    against_base: MeanInterval | None = None


@dataclass(frozen=True)
class JudgeDescription:
    """The unit and direction of a judge's figure. absent: why it did not judge; None if it did."""

    unit: str
    better: Better
    meaning: str
    absent: str | None = None


@dataclass(frozen=True)
class SpokenSentence:
    """One sentence as one candidate spoke it."""

    text: str
    source: str  # `built_in`, `own` (EVALUATE_TEXTS) or `clip` (what a clip of the person says)
    seed: int
    seconds: float
    expected_seconds: float
    codes: int
    text_tokens: int
    outcome: Outcome
    judges: dict[str, float | None] = field(default_factory=dict)
    wav: str | None = None
    heard: str | None = None


@dataclass(frozen=True)
class Candidate:
    """Weights that were judged: the base, an epoch, or a blend of the two.

    knows_language: False for a base to which the language was added and which never learned it;
    old_sentences: what it says in an old language, in a run that learns an added one.
    """

    kind: CandidateKind
    epoch: int  # 0 for the base
    share: float  # of the fine-tuned weights: 0 for the base, 1 for an epoch
    checkpoint_sha256: str  # of the epoch's checkpoint; "" for the base
    unfinished: int
    cut: int
    babbling: int
    judges: dict[str, JudgeFigure]
    validation_audio_loss: float | None
    indistinguishable_from_base: bool
    ruled_out: str | None
    remarks: list[str]
    seconds: float
    device: str
    sentences: list[SpokenSentence]
    knows_language: bool = True
    old_sentences: list[SpokenSentence] = field(default_factory=list)

    @property
    def old_language_failed(self) -> int:
        """How many of `old_sentences` failed."""
        return sum(one.outcome != "finished" for one in self.old_sentences)

    @property
    def name(self) -> str:
        """`base`, `epoch 3`, or `epoch 3 at 50%`."""
        if self.kind == "base":
            return "base"
        return f"epoch {self.epoch}" + (f" at {self.share:.0%}" if self.kind == "blend" else "")

    @property
    def num_failed(self) -> int:
        """How many sentences failed: unfinished, cut or babbling."""
        return self.unfinished + self.cut + self.babbling

    @property
    def finished(self) -> set[int]:
        """The numbers of the sentences that were finished, from 0."""
        return {n for n, one in enumerate(self.sentences) if one.outcome == "finished"}

    def mean(self, judge: str) -> float:
        """A judge's figure; 0 if it did not judge."""
        return self.judges[judge].mean if judge in self.judges else 0.0


@dataclass(frozen=True)
class Verdict:
    """Which candidate is best, and why. advice: what to try if the base is best, else "".

    indistinguishable_from_base: the base was chosen because nothing was measurably better.
    """

    kind: CandidateKind
    epoch: int
    share: float
    reason: str
    advice: str
    indistinguishable_from_base: bool
    checkpoint_sha256: str

    @property
    def weights(self) -> dict[str, Any]:
        """The fields that identify its weights in the manifest of best.pt and in
        best_decoder.json."""
        return {
            "epoch": self.epoch,
            "share": self.share,
            "checkpoint_sha256": self.checkpoint_sha256,
        }


@dataclass(frozen=True)
class SpeakerFigures:
    """What the sentences say as one of several speakers, spoken in one way.

    Attributes:
        word_errors: Word error rate; None where no recogniser listened.
        voice: Cosine of the speaker embedding to that of the speaker's recording; None without
            sound.
        naturalness: Predicted opinion score; None where it was not judged.
    """

    word_errors: MeanInterval | None
    voice: MeanInterval | None
    naturalness: MeanInterval | None = None


@dataclass(frozen=True)
class SpeakerJudgement:
    """How the best weights speak as one of several speakers, beside the base.

    Attributes:
        clips: Of this speaker in the dataset; reference_sha256: their recording.
        sentences: How many each way of speaking says.
        base, best: The base, and the best weights with the base's decoder.
        learned: The best weights with a decoder learned for the speaker; None if it is not used.
        than_base: By judge, what is spoken with (`learned`, else `best`) less the base, paired.
        verdict: The outcome as a sentence.
        weights: As of `Verdict`.
    """

    name: str
    clips: int
    reference_sha256: str
    sentences: int
    base: SpeakerFigures
    best: SpeakerFigures
    learned: SpeakerFigures | None
    than_base: dict[str, MeanInterval]
    verdict: str
    weights: dict[str, Any]


@dataclass(frozen=True)
class Evaluation:
    """The whole file. base: {name, sha256} as in a checkpoint's manifest; person: {clips,
    reference, codes_per_token, pitch_hz, naturalness}; verdict: None until the base and an
    epoch were judged.

    smallest_difference: by judge, the smallest difference to the base that this number of sentences
    can show: half the width of the widest interval. speakers: of a dataset with several, all but
    the one that the candidates are judged by.
    """

    made_at: str
    language: str
    base: dict[str, str]
    sentence_set: str
    judges: dict[str, JudgeDescription]
    person: dict[str, Any]
    smallest_difference: dict[str, float]
    candidates: list[Candidate]
    verdict: Verdict | None = None
    schema: int = SCHEMA
    left_out: list[str] = field(default_factory=list)
    speakers: list[SpeakerJudgement] = field(default_factory=list)

    def find(self, kind: CandidateKind, epoch: int, share: float | None = None) -> Candidate | None:
        """The candidate of that kind and epoch; share: of a blend. None if there is none."""
        for one in self.candidates:
            if (one.kind, one.epoch) == (kind, epoch) and share in (None, one.share):
                return one
        return None

    @property
    def best(self) -> Candidate | None:
        """The candidate that the verdict names."""
        verdict = self.verdict
        return self.find(verdict.kind, verdict.epoch, verdict.share) if verdict else None


def write_evaluation(path: Path, evaluation: Evaluation) -> Written:
    """Writes the file atomically. Raises DiskFull or WriteError."""
    return write_json(path, asdict(evaluation))


def read_evaluation(path: Path) -> Evaluation | None:
    """Reads the file; None if it is missing, damaged or of another schema, which is logged."""
    try:
        evaluation = TypeAdapter(Evaluation).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        first = str(error).splitlines()[0]
        log.warning(
            "%s cannot be read (%s): nothing is known about how epochs speak. `%s` makes it again.",
            path, first, commands.program("train evaluate"),
        )  # fmt: skip
        return None
    if evaluation.schema != SCHEMA:
        log.warning(
            "%s is ignored: it has schema %s, and this version reads schema %s.",
            path,
            evaluation.schema,
            SCHEMA,
        )
        return None
    return evaluation


def verdict_of_best(best: Mapping[str, Any]) -> Verdict | None:
    """The verdict in the content of best.json; None if it has none."""
    try:
        return TypeAdapter(Verdict).validate_python(dict(best))
    except ValidationError:
        return None
