"""`OUTPUT_DIR/evaluation.json`: the judgement of the base, each epoch and each blend, and the best.

`train.evaluation` writes it; the API, `export` and speaking read it without torch. best.json holds
its verdict alone. docs/develop/evaluation.md documents all fields.
"""

import logging
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from machine import commands
from machine.storage.files import Written, write_json
from machine.text import first_line

log = logging.getLogger(__name__)

CandidateKind = Literal["base", "epoch", "blend"]
Outcome = Literal["finished", "unfinished", "cut", "babbling"]
# The better direction of a judge's figure; "zero" means nearer to 0.
Better = Literal["higher", "lower", "zero"]
# The ids of the base, and of the base with a decoder trained on the clips.
BASE_ID, BASE_DECODER_ID = "base", "base_decoder"
# The weights of the base, as `Verdict.weights`.
BASE_WEIGHTS = {"epoch": 0, "share": 0.0, "checkpoint_sha256": ""}


@dataclass(frozen=True)
class Verdict:
    """The best candidate and the reason.

    Attributes:
        advice: A recommendation if the base is best, else "".
        indistinguishable_from_base: Whether the base is best because nothing was measurably better.
        decoder: As in `Candidate`.
        way: The share of the distance in `voice` from the base to the person's own recordings that
            the candidate covers; None if it is not nearer, or was not compared with held-out clips.
    """

    kind: CandidateKind
    epoch: int
    share: float
    reason: str
    advice: str
    indistinguishable_from_base: bool
    checkpoint_sha256: str
    decoder: str = ""
    way: float | None = None

    @property
    def candidate(self) -> str:
        """The id of the best candidate."""
        return candidate_id(self.kind, self.epoch, self.share, self.decoder)

    @property
    def summary(self) -> str:
        """One line of the reason: which weights are best, and how far of the way to the person."""
        first_sentence = self.reason.partition(". ")[0].rstrip(".")
        way = "" if self.way is None else f", {self.way:.0%} of the way to the person"
        return f"{first_sentence}{way}."

    @property
    def weights(self) -> dict[str, Any]:
        """The fields that identify the weights in the manifest of best.pt and in best_decoder.json."""
        return {"epoch": self.epoch, "share": self.share, "checkpoint_sha256": self.checkpoint_sha256}


def weights_of_epoch(epoch: int, sha256: str) -> dict[str, Any]:
    """The weights of an epoch, as `Verdict.weights`. sha256: of its checkpoint."""
    return {"epoch": epoch, "share": 1.0, "checkpoint_sha256": sha256}


def candidate_id(kind: CandidateKind, epoch: int, share: float = 1.0, decoder: str = "") -> str:
    """The id of a candidate, for URLs and for the folder with some of its audio. decoder: as in
    `Candidate`; only the base is judged both with and without one."""
    if kind == "base":
        return BASE_DECODER_ID if decoder else BASE_ID
    return f"epoch_{epoch}" + (f"_share_{share:g}" if kind == "blend" else "")


def parse_verdict(content: object) -> Verdict | None:
    """The verdict in the content of a JSON file; None without a valid one."""
    try:
        return TypeAdapter(Verdict).validate_python(content)
    except ValidationError:
        return None


@dataclass(frozen=True)
class MeanInterval:
    """A mean over `count` sentences with its 95 % interval."""

    mean: float
    low: float
    high: float
    count: int

    @property
    def contains_zero(self) -> bool:
        """Whether the interval contains 0, so that the difference is not significant."""
        return self.low <= 0 <= self.high


@dataclass(frozen=True)
class JudgeFigure(MeanInterval):
    """A judge's mean over the finished sentences. against_base: the mean of the paired differences
    to the base, None for the base itself."""

    against_base: MeanInterval | None = None


@dataclass(frozen=True)
class FurtherFigure(MeanInterval):
    """A figure of a judge that an extra adds. The verdict ignores it.

    Attributes:
        note: A sentence about it, or "".
        details: More figures, for the extra's part of the page.
    """

    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class JudgeDescription:
    """The unit and direction of a judge's figure. absent: why the judge is missing, or None;
    further: whether an extra adds it (`train.evaluation.further_judges`)."""

    unit: str
    better: Better
    meaning: str
    absent: str | None = None
    further: bool = False


@dataclass(frozen=True)
class SpokenSentence:
    """One sentence as one candidate spoke it."""

    text: str
    source: str  # `built_in`, `own` (EVALUATE_TEXTS) or `clip` (the text of a clip)
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
    """Weights and a decoder that were judged: the GPT of the base, of an epoch, or a blend of the
    two, each as it would be served.

    Attributes:
        epoch: 0 for the base.
        share: The share of the fine-tuned weights: 0 for the base, 1 for an epoch.
        checkpoint_sha256: The hash of the epoch's checkpoint; "" for the base.
        unfinished, cut, babbling: The numbers of failed sentences.
        knows_language: False for a base that was not trained in the added language.
        old_sentences: Sentences in an old language, in a run that trains an added one.
        decoder: The SHA-256 of a learned decoder's tensors (`RunFolder.decoder_path` of `epoch`);
            "" for the base's decoder.
        further: The figures of the judges that extras add.
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
    knows_language: bool = True
    old_sentences: list[SpokenSentence] = field(default_factory=list)
    decoder: str = ""
    further: dict[str, FurtherFigure] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """As `candidate_id`."""
        return candidate_id(self.kind, self.epoch, self.share, self.decoder)

    @property
    def is_base(self) -> bool:
        """Whether it is the untrained model, with which all others are compared."""
        return self.kind == "base" and not self.decoder

    @property
    def num_failed_old(self) -> int:
        """The number of `old_sentences` that failed."""
        return sum(sentence.outcome != "finished" for sentence in self.old_sentences)

    @property
    def name(self) -> str:
        """`base`, `epoch 3`, or `epoch 3 at 50%`, and `with decoder` if that is a learned one."""
        share = f" at {self.share:.0%}" if self.kind == "blend" else ""
        weights = "base" if self.kind == "base" else f"epoch {self.epoch}{share}"
        return f"{weights} with decoder" if self.decoder else weights

    @property
    def num_failed(self) -> int:
        """The number of failed sentences: unfinished, cut or babbling."""
        return self.unfinished + self.cut + self.babbling

    @property
    def finished(self) -> set[int]:
        """The indices of the finished sentences."""
        return {index for index, sentence in enumerate(self.sentences) if sentence.outcome == "finished"}

    def mean(self, judge: str) -> float:
        """A judge's figure; 0 if the judge is missing."""
        return self.judges[judge].mean if judge in self.judges else 0.0


@dataclass(frozen=True)
class SpeakerFigures:
    """The figures of one of several speakers with one set of weights.

    Attributes:
        word_errors: The word error rate; None without a recogniser.
        voice: The cosine similarity of the speaker embedding to that of the speaker's recording;
            None without sound.
        naturalness: The predicted opinion score; None if it was not judged.
    """

    word_errors: MeanInterval | None
    voice: MeanInterval | None
    naturalness: MeanInterval | None = None


@dataclass(frozen=True)
class SpeakerJudgement:
    """The judgement of one of several speakers: the best weights compared with the base.

    Attributes:
        clips: The number of the speaker's clips in the dataset.
        reference_sha256: The hash of the speaker's recording.
        sentences: The number of sentences per set of weights.
        base, best: The figures of the base, and of the best weights with the base's decoder.
        learned: The figures of the best weights with a decoder trained for the speaker; None if it
            is not used.
        than_base: By judge, the paired difference of `learned`, or else `best`, to the base.
        verdict: The outcome as a sentence.
        weights: As in `Verdict`.
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
    """The content of evaluation.json.

    Attributes:
        base: {name, sha256} as in a checkpoint's manifest.
        person: {clips, held_out, reference, codes_per_token, pitch_hz, naturalness}.
        smallest_difference: By judge, the smallest difference to the base that this number of
            sentences can show: half the width of the widest interval.
        verdict: None until the base and an epoch were judged.
        speakers: The further speakers of a dataset; the candidates are judged by the first.
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
    schema: Literal[1] = 1
    left_out: list[str] = field(default_factory=list)
    speakers: list[SpeakerJudgement] = field(default_factory=list)

    def find(self, kind: CandidateKind, epoch: int, share: float | None = None) -> Candidate | None:
        """The candidate of that kind, epoch and, for a blend, share; None if it does not exist."""
        for candidate in self.candidates:
            if (candidate.kind, candidate.epoch) == (kind, epoch) and share in (None, candidate.share):
                return candidate
        return None

    @property
    def best(self) -> Candidate | None:
        """The candidate that the verdict names."""
        return self.with_id(self.verdict.candidate) if self.verdict else None

    def with_id(self, candidate_id: str) -> Candidate | None:
        """The candidate with this id; None if it does not exist."""
        return next((candidate for candidate in self.candidates if candidate.id == candidate_id), None)


def write_evaluation(path: Path, evaluation: Evaluation) -> Written:
    """Writes the file atomically. Raises DiskFull or WriteError."""
    return write_json(path, asdict(evaluation))


def read_evaluation(path: Path) -> Evaluation | None:
    """Reads the file; None if it is missing, damaged or of another schema, which is logged."""
    try:
        return TypeAdapter(Evaluation).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        log.warning(
            "%s cannot be read (%s), so the epochs count as not judged. `%s` judges them again.",
            path,
            first_line(error),
            commands.program("train evaluate"),
        )
        return None
