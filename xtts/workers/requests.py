"""Requests to a process that speaks files, and their answers.

`xtts.workers.tasks.FileSpeaker.ask` answers in this process,
`xtts.workers.file_worker.Worker.ask` in a child. Importing this module does not import torch.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from xtts.inference.synthesis_request import SynthesisRequest

# Spoken at once; always as many rows, so that a sentence is the same whoever is beside it.
SLOTS = 8

Answer = TypeVar("Answer", covariant=True)
# Hears which share of a request is done, from 0 to 1; what it raises ends the request.
ReportProgress = Callable[[float], None]


def no_progress(_: float) -> None:
    """For who does not ask how far a request is."""


class Request(Generic[Answer]):
    """Something that is asked, and the type of its answer. doing: what messages call it."""

    doing: ClassVar[str]

    @classmethod
    def answer_type(cls) -> type[Answer]:
        """The class of the answer."""
        answer: type[Answer] = cls.__orig_bases__[0].__args__[0]  # type: ignore[attr-defined]
        return answer


@dataclass(frozen=True)
class TunedVoice:
    """A speaker, and the weights to speak with.

    Attributes:
        reference: The recording of the speaker.
        weights: A checkpoint, whose run also decides how texts are read; None is the base.
        share: The share of the checkpoint's weights in a blend with the base's; 0 is the base.
        decoder: The tensors of a learned decoder; None is the base's.
    """

    reference: Path
    weights: Path | None = None
    share: float = 1.0
    decoder: Path | None = None

    @property
    def of_base(self) -> bool:
        """Whether the base's own weights speak."""
        return self.weights is None or self.share == 0


@dataclass(frozen=True)
class SpokenFile:
    """A sample that was spoken.

    Attributes:
        seconds: How long it took, loading included.
        similarity: Cosine to the reference.
        ending: How its first piece that is not good ended, `good` where all are, None without a
            guard; ending_reason: what was seen.
        attempts: The most that a piece took.
        words: (word, start, end) in seconds; None where they are not known.
    """

    seconds: float
    audio_seconds: float
    device: str
    similarity: float | None = None
    ending: str | None = None
    ending_reason: str = ""
    attempts: int = 1
    words: list[tuple[str, float, float]] | None = None


@dataclass(frozen=True)
class SpeakRequest(Request[SpokenFile]):
    """A text to speak into a file of 24 kHz PCM16."""

    doing = "speaking"
    request: SynthesisRequest
    voice: TunedVoice
    out: Path


@dataclass(frozen=True)
class SpeakingRate:
    """How many codes a text takes: `per_text + per_token * tokens`."""

    per_token: float
    per_text: float

    def codes(self, tokens: int) -> float:
        """Of a text of so many tokens."""
        return self.per_text + self.per_token * tokens


@dataclass(frozen=True)
class SentenceTask:
    """A sentence of an evaluation.

    Attributes:
        sounded: Whether the vocoder speaks it too, which costs more than all else together.
        natural: Whether the naturalness of its sound is judged.
        out: Where its sound is kept; None where it is not.
    """

    request: SynthesisRequest
    sounded: bool = True
    natural: bool = False
    out: Path | None = None


@dataclass(frozen=True)
class SpokenFacts:
    """Measurements of one sentence.

    Attributes:
        codes: Decoded, without STOP.
        text_tokens: Text ids of its pieces.
        finished: Every piece ended by itself.
        seconds: Length of the sound.
        embedding: Of the speaker, `[512]`; empty where there is no sound, or too little.
        pitch_hz: Median F0, or None.
        words: Evidence for each word in nats a token (`xtts.evaluation.word_evidence`).
        heard: What a recogniser heard; None where none listened, or there is no sound.
        word_errors: Errors in it, as a share of the words that were to be said.
        naturalness: Predicted opinion score, 1 to 5 (`xtts.evaluation.naturalness`); None where it
            was not judged.
    """

    codes: int
    text_tokens: int
    finished: bool
    seconds: float
    embedding: list[float] = field(default_factory=list)
    pitch_hz: float | None = None
    words: list[float] = field(default_factory=list)
    heard: str | None = None
    word_errors: float | None = None
    naturalness: float | None = None


@dataclass(frozen=True)
class SpokenSet:
    """The measurements of every sentence asked for, in that order."""

    sentences: list[SpokenFacts]


@dataclass(frozen=True)
class EvaluateRequest(Request[SpokenSet]):
    """Sentences to speak and to measure.

    Attributes:
        sentences: In the order in which they are spoken.
        rate: What ends a sentence that does not end.
        recogniser: What listens to the sounds, as `xtts.evaluation.recogniser.opened`; "" is none.
    """

    doing = "evaluating"
    sentences: tuple[SentenceTask, ...]
    voice: TunedVoice
    rate: SpeakingRate
    recogniser: str = ""


@dataclass(frozen=True)
class RecordingFacts:
    """Measurements of a recording, as of a spoken sentence."""

    seconds: float
    embedding: list[float]
    pitch_hz: float | None
    naturalness: float | None = None


@dataclass(frozen=True)
class HeardRecordings:
    """recordings: in the order asked for; base_voices: speaker embeddings of the voices that the
    base was published with, empty where it has none."""

    recordings: list[RecordingFacts]
    base_voices: list[list[float]]


@dataclass(frozen=True)
class ListenRequest(Request[HeardRecordings]):
    """Recordings to measure, beside the voices that come with the base. natural: the naturalness of
    so many of the first is judged."""

    doing = "listening"
    recordings: tuple[Path, ...]
    natural: int = 0


@dataclass(frozen=True)
class TranscribedClip:
    """A recording of the person and what is said in it."""

    recording: Path
    text: str
    language: str


@dataclass(frozen=True)
class DecoderLearned:
    """What came of learning a decoder.

    Attributes:
        distance_before, distance_after: Mean spectral distance of the held-out clips.
        clips: Learned from.
        steps: Taken.
        seconds: Loading included.
        step_seconds: Of one step, by those after the first; 0 where there were fewer than three.
    """

    distance_before: float
    distance_after: float
    clips: int
    steps: int
    seconds: float
    step_seconds: float = 0.0


@dataclass(frozen=True)
class LearnDecoderRequest(Request[DecoderLearned]):
    """A decoder to learn (`xtts.workers.decoder_learning`).

    Attributes:
        clips: Some of them judge and are not learned from.
        voice: The weights whose latents it learns to decode, and the speaker.
        out: Where its tensors are written (`xtts.voices.learned_decoder`).
        steps: Of gradient descent.
        budget_seconds: Fewer steps are taken where these end before.
        start: The tensors of a decoder to go on from; None is the base's own.
    """

    doing = "learning a decoder"
    clips: tuple[TranscribedClip, ...]
    voice: TunedVoice
    out: Path
    steps: int
    budget_seconds: float
    seed: int = 0
    start: Path | None = None


def request_types() -> dict[str, type[Request[Any]]]:
    """Every kind of request by its name, by which a child is asked."""
    return {kind.__name__: kind for kind in Request.__subclasses__()}
