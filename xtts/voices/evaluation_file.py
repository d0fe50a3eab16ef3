"""`OUTPUT_DIR/evaluation.json`: what every epoch, every blend and the base were judged to be, and
which is best. Read without torch.

`train.evaluation` writes it, the API, `export` and `speak` read it. docs/evaluation.md documents
every field.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from machine.storage.atomic import Written, write_json

log = logging.getLogger(__name__)

SCHEMA = 1

CandidateKind = Literal["base", "epoch", "blend"]
Outcome = Literal["finished", "unfinished", "cut", "babbling"]
# Which direction of a judge's figure is better; "zero": the nearer to 0.
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
        """Whether 0 is inside: of a difference, that there may be none."""
        return self.low <= 0 <= self.high


@dataclass(frozen=True)
class JudgeFigure(MeanInterval):
    """A judge's mean over the sentences that finished; against_base: the mean of the differences
    to the base, sentence by sentence, None for the base itself."""

    against_base: MeanInterval | None = None


@dataclass(frozen=True)
class JudgeDescription:
    """What a judge's figure is. absent: why it did not judge; None where it did."""

    unit: str
    better: Better
    meaning: str
    absent: str | None = None


@dataclass(frozen=True)
class SpokenSentence:
    """One sentence as one candidate spoke it.

    Attributes:
        text: What was to be said.
        source: `built_in`, `own` (EVALUATE_TEXTS) or `clip` (what a clip of the person says).
        seed: Of the sampling; the same for every candidate.
        seconds: Length of the sound.
        expected_seconds: How long the person would take, at the candidate's own rate.
        codes: Audio codes that were decoded.
        text_tokens: Text ids that they were decoded from.
        outcome: Whether it finished, ran to the code limit, is too short or too long.
        judges: Each judge's figure of this sentence; None where it had nothing to judge.
        wav: Where it may be heard, relative to OUTPUT_DIR; None where it was not kept.
        heard: What a recogniser heard; None where none listened.
    """

    text: str
    source: str
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
    """One set of weights that was judged.

    Attributes:
        kind: The base, an epoch's own weights, or a blend of the two.
        epoch: 0 for the base.
        share: Of the fine-tuned weights: 0 for the base, 1 for an epoch.
        checkpoint_sha256: Of the epoch's checkpoint; "" for the base.
        unfinished, cut, babbling: How many sentences went astray, and how.
        judges: Figures by judge; a judge that had nothing to judge is missing.
        validation_audio_loss: In nats a code; None without validation, and for blends.
        indistinguishable_from_base: No judge's interval tells it from the base.
        ruled_out: Why it cannot be the best, in a sentence; None where it can.
        remarks: What else is wrong with it, a sentence each.
        seconds: How long it took to speak and judge.
        device: Where it spoke.
    """

    kind: CandidateKind
    epoch: int
    share: float
    checkpoint_sha256: str
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

    @property
    def name(self) -> str:
        """`base`, `epoch 3`, or `epoch 3 at 50%`."""
        if self.kind == "base":
            return "base"
        return f"epoch {self.epoch}" + (f" at {self.share:.0%}" if self.kind == "blend" else "")

    @property
    def astray(self) -> int:
        """Sentences that did not finish as they should."""
        return self.unfinished + self.cut + self.babbling

    def mean(self, judge: str) -> float:
        """A judge's figure; 0 where it did not judge."""
        return self.judges[judge].mean if judge in self.judges else 0.0


@dataclass(frozen=True)
class Verdict:
    """Which candidate is best.

    Attributes:
        kind, epoch, share: As of the candidate.
        reason: One sentence.
        advice: What to try, where the base is best; "" elsewhere.
        indistinguishable_from_base: The base was taken because nothing was measurably better.
        checkpoint_sha256: Of the epoch's checkpoint; "" for the base.
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
        """What names its weights in the manifest of a best.pt and in best_speaker.json."""
        return {
            "epoch": self.epoch,
            "share": self.share,
            "checkpoint_sha256": self.checkpoint_sha256,
        }


@dataclass(frozen=True)
class Evaluation:
    """The whole file.

    Attributes:
        made_at: UTC, ISO 8601.
        language: Of the sentences.
        base: {name, sha256} as in a checkpoint's manifest.
        sentence_set: SHA-256 of what every candidate spoke, with whose recording and seeds.
        judges: What each figure is, and why a judge is absent.
        person: What the person's own clips say: {clips, reference, codes_per_token, pitch_hz}.
        smallest_difference: By judge, the least difference to the base that so many sentences
            tell: half the width of the widest interval.
        verdict: None until the base and an epoch were judged.
        left_out: What was not judged to stay within the time for judging, a phrase each.
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

    def find(self, kind: CandidateKind, epoch: int, share: float | None = None) -> Candidate | None:
        """The candidate of that kind and epoch; share: of a blend."""
        for one in self.candidates:
            if (one.kind, one.epoch) == (kind, epoch) and share in (None, one.share):
                return one
        return None

    @property
    def best(self) -> Candidate | None:
        """The candidate that the verdict names."""
        found = self.verdict
        return self.find(found.kind, found.epoch, found.share) if found else None


def write_evaluation(path: Path, evaluation: Evaluation) -> Written:
    """Writes it whole. Raises DiskFull or WriteError."""
    return write_json(path, asdict(evaluation))


def read_evaluation(path: Path) -> Evaluation | None:
    """None for a file that is missing, damaged or of another schema; the log says which."""
    try:
        found = TypeAdapter(Evaluation).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        first = str(error).splitlines()[0]
        log.warning(
            "%s cannot be read (%s): nothing is known of how epochs speak. `python -m train "
            "evaluate` makes it again.", path, first,
        )  # fmt: skip
        return None
    if found.schema != SCHEMA:
        log.warning(
            "%s has schema %s, this version reads %s: it is not used.", path, found.schema, SCHEMA
        )
        return None
    return found


def verdict_of_best(best: Mapping[str, Any]) -> Verdict | None:
    """The verdict in what best.json says; None where it holds none."""
    try:
        return TypeAdapter(Verdict).validate_python(dict(best))
    except ValidationError:
        return None
