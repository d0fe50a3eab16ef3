"""What routes share: models of answers, fields of requests, and the names of the served voice."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, computed_field

from machine.storage.files import JsonObject
from machine.text import plain_name
from xtts.voices.evaluation_file import FurtherFigure, JudgeDescription, JudgeFigure

MAX_CHARACTERS = 4096
MAX_NAME = 100
OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
OWN_MODEL = "sotaque"
SERVED = "default"
# OpenAI's voices, which many programs name by default. All of them mean the served voice.
OPENAI_VOICES = (
    "alloy",
    "ash",
    "ballad",
    "cedar",
    "coral",
    "echo",
    "fable",
    "marin",
    "nova",
    "onyx",
    "sage",
    "shimmer",
    "verse",
)
# Removes half characters (surrogates): clients that cut a text anywhere send half an emoji. It stands
# after the limits of its field, so that these apply to a string, and so do their messages.
_HALF_CHARACTERS = str.maketrans(dict.fromkeys(range(0xD800, 0xE000)))
NO_HALF_CHARACTERS = BeforeValidator(
    lambda text: text.translate(_HALF_CHARACTERS) if isinstance(text, str) else text
)
Text = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS), NO_HALF_CHARACTERS]
NameText = Annotated[str, Field(min_length=1, max_length=MAX_NAME), NO_HALF_CHARACTERS]
VoiceText = Annotated[str, Field(min_length=1, max_length=128), NO_HALF_CHARACTERS]
# `Brazilian Portuguese` is the longest that a client sends.
LanguageText = Annotated[str, Field(max_length=32), NO_HALF_CHARACTERS]


def is_served(voice: str) -> bool:
    """Whether this name is reserved for the served voice: `default`, or one of OpenAI's."""
    return voice == SERVED or voice in OPENAI_VOICES


def means_served(name: str) -> bool:
    """Whether this name, in any spelling, is reserved for the served voice."""
    return is_served(plain_name(name))


class Problem(BaseModel):
    """RFC 9457, with `code` for programs and `request_id` for the log."""

    model_config = ConfigDict(extra="allow")
    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str


class Served(BaseModel):
    """The served part of a run: an epoch, its base (`candidate: base`, epoch 0) or best blend."""

    run: str
    epoch: int
    candidate: str


class WordTimestamp(BaseModel):
    """A word of the text, and its times in seconds from the start of the audio."""

    word: str
    start_time: float
    end_time: float


class Sample(BaseModel):
    """An epoch's sample. output, reference: the URLs of its WAV file and of the reference; ending:
    how it ended (docs/develop/guard.md); words: the time of each word, null if unknown."""

    output: str | None
    reference: str | None
    text: str | None
    mode: str | None
    reason: str | None
    device: str | None
    seconds: float | None
    audio_seconds: float | None
    similarity: float | None
    ending: str | None
    words: list[WordTimestamp] | None


class EpochRow(BaseModel):
    """An epoch of a run. step: the steps until its end; checkpoint_state: `pruned` was deleted to
    save space; verified: whether its file has its hash, null until they are compared."""

    epoch: int
    step: int | None
    checkpoint: bool
    checkpoint_state: Literal["whole", "pruned", "unfinished", "damaged"]
    verified: bool | None
    sample: Sample | None
    validation_loss: float | None
    is_best: bool
    is_served: bool


class CandidateRow(BaseModel):
    """The figures of the base, an epoch or a blend of both. unfinished, cut, babbling: the numbers
    of failed sentences, which no mean includes; further: the figures of judges that extras add."""

    id: str
    name: str
    kind: Literal["base", "epoch", "blend"]
    epoch: int
    share: float
    checkpoint_sha256: str
    unfinished: int
    cut: int
    babbling: int
    judges: dict[str, JudgeFigure]
    further: dict[str, FurtherFigure]
    validation_loss: float | None
    indistinguishable_from_base: bool
    ruled_out: str | None
    remarks: list[str]
    is_best: bool
    is_served: bool
    can_speak: bool


class VerdictRow(BaseModel):
    """The best candidate. share: of the epoch in a blend with the base; reason: why it is the best;
    advice: what could make the next run better; indistinguishable_from_base: no judge tells the two
    apart."""

    candidate: str
    kind: Literal["base", "epoch", "blend"]
    epoch: int
    share: float
    reason: str
    advice: str
    indistinguishable_from_base: bool


class EvaluationRow(BaseModel):
    """A run's evaluation: the base first, then epochs and blends in the order of judging.
    sentences: the number that each candidate spoke; sentence_set: identifies the sentences, their
    seeds and the recording."""

    made_at: str
    language: str
    sentence_set: str
    sentences: int
    judges: dict[str, JudgeDescription]
    smallest_difference: dict[str, float | None]
    candidates: list[CandidateRow]
    verdict: VerdictRow | None


RunKind = Literal["current", "named", "archived"]


class RunRow(BaseModel):
    """One run. kind: `current` is OUTPUT_DIR itself, `named` a run of the training queue,
    `archived` a run that RESUME=never moved away; minutes: the length of all its training clips,
    null before the first epoch is saved and for a run of an earlier version."""

    id: str
    kind: RunKind
    path_name: str
    created: str
    training: bool
    minutes: float | None
    epochs: list[EpochRow]
    evaluation: EvaluationRow | None


class RunDetails(BaseModel):
    """One run, and the effect of deleting it. bytes: the size of its files; frees: the bytes that
    deletion frees; why_kept: why it cannot be deleted now, empty if it can."""

    run: RunRow
    bytes: int
    frees: int
    why_kept: str


class RunList(BaseModel):
    """The runs, the current one first."""

    runs: list[RunRow]
    served: Served | None
    promoted: bool
    follows: Literal["best", "latest", "fixed"]


class SaidSentence(BaseModel):
    """A sentence that a candidate spoke. sound: the URL of its audio; null if it was not kept."""

    text: str
    source: str
    seed: int
    seconds: float | None
    expected_seconds: float | None
    outcome: Literal["finished", "unfinished", "cut", "babbling"]
    judges: dict[str, float | None]
    sound: str | None


class CandidateSentences(BaseModel):
    """What one candidate spoke, in the order of the sentence set. id, name: as in CandidateRow."""

    id: str
    name: str
    sentences: list[SaidSentence]


class EvaluationDetails(BaseModel):
    """What every candidate spoke in the evaluation that ended at `made_at`, to be compared by ear."""

    made_at: str
    candidates: list[CandidateSentences]


class Metrics(BaseModel):
    """Rows of metrics.jsonl. next: the byte after the last of them."""

    records: list[JsonObject]
    next: int


class Promoted(BaseModel):
    """The epoch, base or blend that is served now; null if the voice belongs to no run."""

    served: Served | None


class VoiceQuality(BaseModel):
    """The measured quality of a recording. level_db: 0 is full scale; clipped_share: 0 to 1;
    remarks: what is wrong, and what to do."""

    word: Literal["good", "usable", "poor"]
    remarks: list[str]
    speech_seconds: float
    snr_db: float
    level_db: float
    clipped_share: float


class VoiceRow(BaseModel):
    """A voice that a request can name; `anna:whisper` is a style of `anna`. duration_seconds: the
    length of its recording, or of several joined; origin: the served voice, one of its named
    speakers or adapters, the voice of an imported file, or an upload; created: when it was
    uploaded, imported or put into VOICES_DIR, or, for the served voice and its speakers, served;
    quality: null if it was not measured; recordings: the number of recordings of an uploaded voice;
    preview: the URL of its recording."""

    id: str
    name: str
    created: str
    duration_seconds: float | None
    origin: Literal["served", "speaker", "adapter", "imported", "upload"]
    quality: VoiceQuality | None
    recordings: int | None
    preview: str | None

    # mypy: python/mypy#1362
    @computed_field  # type: ignore[prop-decorator]
    @property
    def voice_id(self) -> str:
        """The id, as ElevenLabs' clients read it."""
        return self.id

    @computed_field  # type: ignore[prop-decorator]
    @property
    def category(self) -> Literal["premade", "cloned"]:
        """The origin, as ElevenLabs' clients read it."""
        return "cloned" if self.origin in ("imported", "upload") else "premade"


class VoiceList(BaseModel):
    """All voices that a request can name. The first is the served one, whose id is `default`."""

    voices: list[VoiceRow]


class SpokenPieceRow(BaseModel):
    """How a piece of the text ended (docs/develop/guard.md)."""

    ending: str
    reason: str
    attempts: int
    cut_off: bool
    aligned: bool


class CaptionedSpeech(BaseModel):
    """Audio in base64 and the times of its words, null if unknown. pieces, cut_pieces: how the
    pieces of the text ended; in a response of several lines, only the last one has them."""

    audio: str
    audio_format: str
    timestamps: list[WordTimestamp] | None
    pieces: list[SpokenPieceRow] | None = None
    cut_pieces: int | None = None


class Queue(BaseModel):
    """How busy the service is. waiting, speaking: the numbers of these requests; slots: the most
    that are spoken in parallel."""

    waiting: int
    slots: int
    speaking: int


class Status(BaseModel):
    """The state of the service. execution_provider: the backend in use, of ONNX Runtime or PyTorch;
    requested_provider: the backend in the settings; message, reason_code: why they differ, or why
    the service is not ready; voice_reason: why this voice is served; restarts: of the speaking
    process; extras: the optional parts that are installed."""

    device: str
    execution_provider: str
    requested_provider: str
    message: str
    reason_code: str
    voice: str
    voice_reason: str
    state: Literal["starting", "ready", "restarting", "degraded"]
    ready: bool
    queue: Queue
    licence: str
    version: str
    languages: list[str]
    formats: list[str]
    precision: str
    restarts: int
    uptime_seconds: float
    extras: list[str]


class Alive(BaseModel):
    """The answer to a liveness probe: the event loop runs. /readyz tells whether it can speak."""

    alive: bool


class Ready(BaseModel):
    """Whether the service has spoken within the last minute."""

    ready: bool
    message: str
    last_spoken_seconds: float | None


# What /openapi.json says of the responses of a route.
Responses = dict[int | str, dict[str, Any]]
_PROBLEM = {
    "model": Problem,
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
PROBLEMS: Responses = {
    status: dict(_PROBLEM) for status in (400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503, 507)
}
