"""Response bodies as pydantic models, as /openapi.json shows them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


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
    """The epoch that speaks."""

    run: str
    epoch: int


class Sample(BaseModel):
    """What an epoch said, and where both wavs are."""

    output: str | None
    reference: str | None
    text: str | None
    mode: str | None
    reason: str | None
    device: str | None
    seconds: float | None
    audio_seconds: float | None
    similarity: float | None


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


class RunRow(BaseModel):
    """One run."""

    id: str
    path_name: str
    created: str
    training: bool
    epochs: list[EpochRow]


class RunList(BaseModel):
    """The runs, the current one first."""

    runs: list[RunRow]
    served: Served | None
    promoted: bool


class Metrics(BaseModel):
    """Rows of metrics.jsonl."""

    records: list[dict[str, Any]]
    next: int


class Promoted(BaseModel):
    """Which epoch speaks now; null where it is no epoch."""

    served: Served | None


class VoiceRow(BaseModel):
    """A voice that can be asked for."""

    id: str
    name: str
    created: str
    duration_seconds: float | None
    origin: Literal["served", "upload"]


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


class Queue(BaseModel):
    """How busy it is."""

    waiting: int
    slots: int
    speaking: int


class Status(BaseModel):
    """What runs where, and why."""

    device: str
    execution_provider: str
    requested_provider: str
    message: str
    reason_code: str
    voice: str
    state: Literal["starting", "ready", "restarting", "degraded"]
    ready: bool
    queue: Queue
    licence: str
    version: str
    languages: list[str]
    precision: str
    restarts: int
    uptime_seconds: float


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
        400: "It cannot be done, or is not JSON.",
        401: "A key is needed.",
        403: "A page of another site asked.",
        404: "There is no such thing.",
        408: "The body came too slowly.",
        409: "Not in this state.",
        413: "The body is too large.",
        415: "Not this kind of body.",
        422: "It cannot be understood.",
        429: "Too many requests.",
        500: "A fault of the service; its log tells more.",
        503: "Not now.",
        507: "It could not be written: the disk is full, or the folder is not writable.",
    }.items()
}
