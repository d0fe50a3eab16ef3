"""Requests to a process that speaks files, and their answers.

`xtts.workers.tasks.FileSpeaker.ask` answers in this process,
`xtts.workers.file_worker.Worker.ask` in a child. Importing this module does not import torch.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from xtts.inference.synthesis_request import SynthesisRequest

# Sentences per batch. The size is fixed because rounding errors depend on it, and a sentence must
# not depend on the others in its batch.
SLOTS = 8

Answer = TypeVar("Answer", covariant=True)
# Called with the completed share of a request, 0 to 1. An exception in it ends the request.
ReportProgress = Callable[[float], None]


def no_progress(_: float) -> None:
    """A `ReportProgress` that does nothing."""


class Request(Generic[Answer]):
    """A request and the type of its answer. doing: the work as messages call it."""

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
        weights: A checkpoint, whose run also decides how texts are read; None for the base.
        share: The share of the checkpoint's weights in a blend with the base's; 0 for the base.
        decoder: The tensors of a learned decoder; None for the base's.
    """

    reference: Path
    weights: Path | None = None
    share: float = 1.0
    decoder: Path | None = None

    @property
    def of_base(self) -> bool:
        """Whether the base's weights speak."""
        return self.weights is None or self.share == 0


@dataclass(frozen=True)
class SpokenFile:
    """A spoken sample.

    Attributes:
        seconds: Time taken, including loading.
        similarity: Cosine to the reference.
        ending: The guard's verdict on the first bad piece; `good` if there is none, None without
            a guard.
        ending_reason: The reason of the verdict.
        attempts: The number of attempts at the piece that needed most.
        words: (word, start, end) in seconds; None if unknown.
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
    """The expected number of codes for a text: `per_text + per_token * tokens`."""

    per_token: float
    per_text: float

    def codes(self, tokens: int) -> float:
        """The expected number of codes for a text of `tokens` tokens."""
        return self.per_text + self.per_token * tokens


@dataclass(frozen=True)
class SentenceTask:
    """A sentence of an evaluation.

    Attributes:
        sounded: Whether to run the vocoder, which takes more time than everything else together.
        natural: Whether to judge the naturalness of the sound.
        out: The file for the sound; None keeps none.
        measured: Whether to measure the sound and the words, which takes most of the time.
    """

    request: SynthesisRequest
    sounded: bool = True
    natural: bool = False
    out: Path | None = None
    measured: bool = True


@dataclass(frozen=True)
class SpokenFacts:
    """Measurements of one sentence.

    Attributes:
        codes: The number of decoded codes, without STOP.
        text_tokens: The number of text ids of its pieces.
        finished: Whether every piece ended with STOP.
        seconds: Length of the sound.
        embedding: The speaker embedding: `[512]`, or `[256]` by the speaker judge; empty if there
            is too little sound.
        pitch_hz: Median F0, or None.
        pitch_spread: Spread of F0 in semitones (`xtts.evaluation.pitch`), or None.
        words: Evidence for each word in nats per token (`xtts.evaluation.word_evidence`).
        heard: The recogniser's transcript; None without a recogniser or without sound.
        word_errors: The word error rate of `heard`.
        naturalness: Predicted opinion score, 1 to 5 (`xtts.evaluation.naturalness`), or None.
    """

    codes: int
    text_tokens: int
    finished: bool
    seconds: float
    embedding: list[float] = field(default_factory=list)
    pitch_hz: float | None = None
    pitch_spread: float | None = None
    words: list[float] = field(default_factory=list)
    heard: str | None = None
    word_errors: float | None = None
    naturalness: float | None = None


@dataclass(frozen=True)
class SpokenSet:
    """The measurements of the sentences, in the order of the request."""

    sentences: list[SpokenFacts]


@dataclass(frozen=True)
class EvaluateRequest(Request[SpokenSet]):
    """Sentences to speak and to measure.

    Attributes:
        sentences: In the order in which they are spoken.
        rate: Limits the length of a sentence that does not end.
        recogniser: As in `xtts.evaluation.recogniser.open_recogniser`; "" for none.
        speaker_judge: Whether `xtts.evaluation.speaker_judge` embeds the voices, and not the base.
    """

    doing = "evaluating"
    sentences: tuple[SentenceTask, ...]
    voice: TunedVoice
    rate: SpeakingRate
    recogniser: str = ""
    speaker_judge: bool = False


@dataclass(frozen=True)
class RecordingFacts:
    """Measurements of a recording, as in `SpokenFacts`."""

    seconds: float
    embedding: list[float]
    pitch_hz: float | None
    pitch_spread: float | None = None
    naturalness: float | None = None
    word_errors: float | None = None


@dataclass(frozen=True)
class HeardRecordings:
    """The measurements of recordings, in the order of the request. base_voices: the speaker
    embeddings of the base's voices, if any."""

    recordings: list[RecordingFacts]
    base_voices: list[list[float]]


@dataclass(frozen=True)
class ListenRequest(Request[HeardRecordings]):
    """Recordings to measure.

    Attributes:
        natural: Judges the naturalness of this number of recordings, from the first.
        speaker_judge, recogniser: As in `EvaluateRequest`.
        texts: Transcripts of the first recordings, in `language`, for their word errors.
    """

    doing = "listening"
    recordings: tuple[Path, ...]
    natural: int = 0
    speaker_judge: bool = False
    texts: tuple[str, ...] = ()
    language: str = ""
    recogniser: str = ""


@dataclass(frozen=True)
class TranscribedClip:
    """A recording of the person and its transcript."""

    recording: Path
    text: str
    language: str


@dataclass(frozen=True)
class DecoderLearned:
    """The result of training a decoder.

    Attributes:
        distance_before, distance_after: Mean spectral distance of the held-out clips, with the
            base's decoder and with this one.
        clips: The number of training clips.
        steps: The number of steps, including those of earlier requests.
        seconds: Time taken, including loading.
        new_steps: The steps of this request.
        step_seconds: Mean time of a step after the first; 0 for fewer than three steps.
        pitch_octaves: By how much the pitch of free speech was moved (`xtts.workers.free_pitch`).
    """

    distance_before: float
    distance_after: float
    clips: int
    steps: int
    seconds: float
    new_steps: int = 0
    step_seconds: float = 0.0
    pitch_octaves: float = 0.0


@dataclass(frozen=True)
class LearnDecoderRequest(Request[DecoderLearned]):
    """A decoder to train (`xtts.workers.decoder_learning`).

    Attributes:
        clips: Some of them are held out.
        voice: The speaker, and the weights whose latents the decoder learns to decode.
        out: The file for its tensors (`xtts.voices.learned_decoder`).
        steps: Training ends at this step, counted from the base's decoder; None for no limit.
        min_steps: The minimum number of steps, unless held-out clips stop coming closer.
        budget_seconds: The time limit of a request that no run repeats. None for no limit, so
            that the result is the same on every machine.
        state: The file of the state to continue from; None for the base's decoder.
        state_out: The file for the new state; None writes none.
        strength: How much of what was learned is written: base + strength * (learned - base).
    """

    doing = "learning a decoder"
    clips: tuple[TranscribedClip, ...]
    voice: TunedVoice
    out: Path
    steps: int | None
    min_steps: int = 0
    budget_seconds: float | None = None
    seed: int = 0
    state: Path | None = None
    state_out: Path | None = None
    strength: float = 1.0


def request_types() -> dict[str, type[Request[Any]]]:
    """Every kind of request by its name in messages to a child."""
    return {kind.__name__: kind for kind in Request.__subclasses__()}
