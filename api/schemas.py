"""Response bodies as pydantic models, as /openapi.json shows them, and shared request fields."""

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

MOST_CHARACTERS = 4096
MOST_NAME = 100
OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
OWN_MODEL = "sotaque"
Text = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
VoiceText = Annotated[str, Field(min_length=1, max_length=128)]
# `Brazilian Portuguese` is the longest that a client sends.
LanguageText = Annotated[str, Field(max_length=32)]


def _number(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


Number = Annotated[float | None, BeforeValidator(_number)]


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
    """What of a run speaks: an epoch, or its base (`candidate: base`, epoch 0) or best blend."""

    run: str
    epoch: int
    candidate: str


class WordTimestamp(BaseModel):
    """A word as it is written, in seconds from the beginning of the speech."""

    word: str
    start_time: float
    end_time: float


class Sample(BaseModel):
    """An epoch's sample and the addresses of both WAV files. ending: how it ended
    (docs/develop/guard.md); words: the time of each word; null if it is not known."""

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
    """One epoch of a run."""

    epoch: int
    step: int | None
    checkpoint: bool
    checkpoint_state: Literal["whole", "pruned", "unfinished", "damaged"]
    verified: bool | None
    sample: Sample | None
    validation_loss: float | None
    train_loss: float | None
    is_best: bool
    is_served: bool


class Judge(BaseModel, from_attributes=True):
    """What a judge's figure is. absent: why it did not judge; null where it did."""

    unit: str
    better: Literal["higher", "lower", "zero"]
    meaning: str
    absent: str | None


class Difference(BaseModel, from_attributes=True):
    """The mean of the differences to the base, sentence by sentence, and its 95 % interval."""

    mean: Number
    low: Number
    high: Number
    count: int


class Figure(Difference):
    """A mean over the sentences that finished, and its 95 % interval."""

    against_base: Difference | None


class CandidateRow(BaseModel):
    """The base, an epoch or a blend of both, as it was judged. unfinished, cut, babbling: failed
    sentences, which are part of no mean."""

    id: str
    name: str
    kind: Literal["base", "epoch", "blend"]
    epoch: int
    share: float
    checkpoint_sha256: str
    unfinished: int
    cut: int
    babbling: int
    judges: dict[str, Figure]
    validation_loss: Number
    indistinguishable_from_base: bool
    ruled_out: str | None
    remarks: list[str]
    is_best: bool
    is_served: bool
    can_speak: bool


class VerdictRow(BaseModel):
    """Which candidate is best, and why."""

    candidate: str
    kind: Literal["base", "epoch", "blend"]
    epoch: int
    share: float
    reason: str
    advice: str
    indistinguishable_from_base: bool


class EvaluationRow(BaseModel):
    """A run's evaluation: the base first, then epochs and blends in the order of judging.
    sentences: how many each of them said; sentence_set: by which the same sentences, seeds and
    recording are known."""

    made_at: str
    language: str
    sentence_set: str
    sentences: int
    judges: dict[str, Judge]
    smallest_difference: dict[str, Number]
    candidates: list[CandidateRow]
    verdict: VerdictRow | None


RunKind = Literal["current", "named", "archived"]


class RunRow(BaseModel):
    """One run. kind: `current` is OUTPUT_DIR itself, `named` of the training queue, `archived` what
    RESUME=never moved away; minutes: of the clips that it trains on, null before the first epoch is
    saved and for a run of an earlier version."""

    id: str
    kind: RunKind
    path_name: str
    created: str
    training: bool
    minutes: float | None
    epochs: list[EpochRow]
    evaluation: EvaluationRow | None


class RunDetails(BaseModel):
    """One run, and what its deletion means. bytes: of all its files; frees: of those that are
    nowhere else; why_kept: why it cannot be deleted now; empty if it can."""

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
    """A sentence as a candidate said it. sound: where it is heard; null where it was not kept."""

    text: str
    source: str
    seed: int
    seconds: Number
    expected_seconds: Number
    outcome: Literal["finished", "unfinished", "cut", "babbling"]
    judges: dict[str, Number]
    sound: str | None


class CandidateSentences(BaseModel):
    """Everything that one candidate said."""

    id: str
    name: str
    sentences: list[SaidSentence]


class EvaluationDetails(BaseModel):
    """The sentences of an evaluation."""

    made_at: str
    candidates: list[CandidateSentences]


class Metrics(BaseModel):
    """Rows of metrics.jsonl."""

    records: list[dict[str, Any]]
    next: int


class Promoted(BaseModel):
    """Which epoch speaks now; null where it is no epoch."""

    served: Served | None


class VoiceQuality(BaseModel):
    """What was measured of a recording: in dB, 0 is full scale; clipped_share 0 to 1; remarks: what
    is wrong, and what to do."""

    word: Literal["good", "usable", "poor"]
    remarks: list[str]
    speech_seconds: float
    snr_db: float
    level_db: float
    clipped_share: float


class VoiceRow(BaseModel):
    """A voice that can be asked for; `anna:whisper` is a style of `anna`. duration_seconds: of its
    recording, or of several joined; origin: the served voice, a named speaker or an adapter of it,
    or an upload; quality: null where it was not measured; recordings: how many an uploaded voice
    has; preview: where its recording is heard."""

    id: str
    name: str
    created: str
    duration_seconds: float | None
    origin: Literal["served", "speaker", "adapter", "upload"]
    quality: VoiceQuality | None
    recordings: int | None
    preview: str | None


class VoiceList(BaseModel):
    """Every voice; the served one is `default`."""

    voices: list[VoiceRow]


class ModelRow(BaseModel):
    """A model as OpenAI lists it, and its licence."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    licence: str


class ModelList(BaseModel):
    """The models."""

    object: Literal["list"] = "list"
    data: list[ModelRow]


class AudioModelRow(ModelRow):
    """A model that speaks; Open WebUI shows its name."""

    name: str


class AudioModelList(BaseModel):
    """The models, under both names that clients know."""

    object: Literal["list"] = "list"
    data: list[AudioModelRow]
    models: list[AudioModelRow]


class AudioVoiceRow(BaseModel):
    """A voice: what a request may name, and what a person reads."""

    id: str
    name: str


class AudioVoiceList(BaseModel):
    """The voices; with `legacy`, by what a request may name only."""

    voices: list[AudioVoiceRow] | list[str]


class SpokenPieceRow(BaseModel):
    """How a piece of the text ended (docs/develop/guard.md)."""

    ending: str
    reason: str
    attempts: int
    cut_off: bool
    aligned: bool


class CaptionedSpeech(BaseModel):
    """Audio in base64 and the times of its words; null if they are not known. pieces, cut_pieces:
    how the pieces of the text ended; if the answer has several lines, in the last one."""

    audio: str
    audio_format: str
    timestamps: list[WordTimestamp] | None
    pieces: list[SpokenPieceRow] | None = None
    cut_pieces: int | None = None


class Queue(BaseModel):
    """How busy it is."""

    waiting: int
    slots: int
    speaking: int


class Status(BaseModel):
    """What runs where, and why. extras: the optional parts of Sotaque that this copy has."""

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
    """A probe's answer."""

    alive: bool


class Ready(BaseModel):
    """Whether it has really spoken lately."""

    ready: bool
    message: str
    last_spoken_seconds: float | None


_PROBLEM = {
    "model": Problem,
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {**_PROBLEM, "description": words}
    for status, words in {
        400: "The request is wrong, or its body is not JSON.",
        401: "The API key is missing or wrong.",
        403: "The request comes from a page of another site.",
        404: "It does not exist.",
        408: "The body did not arrive within the time limit.",
        409: "The current state does not allow it.",
        413: "The body is too large.",
        415: "The body has the wrong media type.",
        422: "The input is invalid.",
        429: "Too many requests.",
        500: "The service failed. Its log has the details.",
        503: "Not now.",
        507: "It could not be written: the disk is full, or the folder is not writable.",
    }.items()
}
