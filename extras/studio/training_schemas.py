"""Request and response bodies of /v1/trainings, as /openapi.json shows them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from extras.studio.training_jobs import ALLOWED_SETTINGS, MAX_DATASET_CHARACTERS, MAX_VALUE_CHARACTERS, State

_STRICT = ConfigDict(extra="forbid", strict=True)
DatasetText = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_DATASET_CHARACTERS,
        description="The id of a dataset of /v1/datasets, or a folder below DATASET_ROOTS.",
    ),
]


SettingTexts = Annotated[
    dict[str, Annotated[str, Field(max_length=MAX_VALUE_CHARACTERS)]],
    Field(
        max_length=len(ALLOWED_SETTINGS),
        description=f"Texts as in `.env`: {', '.join(sorted(ALLOWED_SETTINGS))}.",
    ),
]


class TrainingRequest(BaseModel):
    """A training to add to the queue."""

    model_config = _STRICT
    run: Annotated[
        str,
        Field(
            min_length=1,
            max_length=40,
            pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$",
            description="The name of the run; an existing run resumes.",
        ),
    ]
    dataset: DatasetText
    settings: SettingTexts = {}


class CheckRequest(BaseModel):
    """A dataset to check before training."""

    model_config = _STRICT
    dataset: DatasetText
    settings: SettingTexts = {}


class RefusedClip(BaseModel):
    """A clip that training leaves out. seen, allowed: its value and the permitted values."""

    clip: str
    seen: str
    allowed: str


class DoubtfulClip(BaseModel):
    """A clip to listen to before training. reasons: sentences; severity: higher is worse."""

    clip: str
    severity: float
    reasons: str


class CheckResult(BaseModel):
    """The result of `train check`. clips, minutes: for training."""

    clips: int
    minutes: float
    validation_clips: int
    refused: list[RefusedClip]
    suspects: list[DoubtfulClip]


class TrainingProgress(BaseModel):
    """The progress of a run at its newest step. step, steps: within the epoch; seconds_left: for
    the whole run with its evaluation; phase: the work since that step, such as `judging`, or "" for
    the next step."""

    epoch: int
    epochs: int
    step: int
    steps: int
    seconds_left: float | None
    loss: float | None
    phase: str


class TrainingRow(BaseModel):
    """A training. ahead: the number of trainings before it; held: whether it waits until somebody
    starts it; cancelling: whether it is being cancelled; progress: null before the first step."""

    id: str
    run: str
    dataset: str
    settings: dict[str, str]
    asked: str
    state: State
    started: str | None
    ended: str | None
    code: int | None
    message: str
    ahead: int
    held: bool
    cancelling: bool
    progress: TrainingProgress | None


class TrainingList(BaseModel):
    """The training jobs, newest first. allowed: whether this service accepts jobs; trainer:
    whether a trainer works on the queue, null if unknown; message: what to do if either is false;
    command: starts the trainer."""

    trainings: list[TrainingRow]
    allowed: bool
    trainer: bool | None
    message: str
    command: str
