"""Request and response bodies of /v1/datasets, as /openapi.json shows them."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from api.schemas import NameText
from extras.common.disk_space import DiskSpace
from extras.common.work_queue import JobState

MAX_TEXT = 1_000
MAX_FILE_NAME = 120
ClipOrder = Literal["worst", "time"]
# A language code, optionally with a region or script.
LOCALE = r"^[a-zA-Z]{2,3}(-[a-zA-Z0-9]{2,8})?$"
_STRICT = ConfigDict(extra="forbid", strict=True)


class DatasetRequest(BaseModel):
    """A new dataset."""

    model_config = _STRICT
    name: NameText
    language: Annotated[
        str,
        # The route checks the language: the served voice may have learned more of them.
        Field(
            json_schema_extra={"pattern": LOCALE},
            max_length=12,
            description="The language of the recordings: a code such as `en` or `pt-br`.",
        ),
    ] = "en"


class ClipRequest(BaseModel):
    """A change of a clip; omitted fields stay as they are."""

    model_config = _STRICT
    text: Annotated[
        str | None, Field(max_length=MAX_TEXT, description="The transcript; null: the text of the cut.")
    ] = None
    dropped: Annotated[bool, Field(description="Whether training leaves the clip out.")] = False
    sha256: Annotated[
        str | None,
        Field(
            max_length=64, description="The SHA-256 of the clip that was played: 409 if the clip has changed."
        ),
    ] = None

    @model_validator(mode="after")
    def _something_is_changed(self) -> "ClipRequest":
        if not self.model_fields_set & {"text", "dropped"}:
            raise ValueError("text or dropped is needed")
        return self


class RecordingRow(BaseModel, from_attributes=True):
    """A recording."""

    id: str
    name: str
    bytes: int


class DatasetText(BaseModel):
    """The text of the recordings. kind: its file ending."""

    kind: str
    bytes: int


class CutRow(BaseModel):
    """The cut of a dataset. ahead: the number of datasets before it; told: its progress; outdated:
    recordings, text or language have changed since."""

    state: JobState
    message: str
    asked: str | None
    started: str | None
    ended: str | None
    ahead: int
    told: str
    outdated: bool


class DatasetRow(BaseModel):
    """A dataset in the list. read_aloud: its clips are sentences read aloud, not cut recordings."""

    id: str
    name: str
    language: str
    created: str
    recordings: int
    state: JobState
    read_aloud: bool


class DatasetList(BaseModel):
    """All datasets, newest first."""

    datasets: list[DatasetRow]
    space: DiskSpace


class ClipCounts(BaseModel):
    """Numbers of clips. kept: used for training; without_text: left out until they have a text."""

    total: int
    kept: int
    dropped: int
    without_text: int
    corrected: int
    kept_seconds: float


class AccountOfRecording(BaseModel):
    """The use of every second of a recording: seconds_by_reason sums to its length."""

    name: str
    seconds: float
    clips: int
    seconds_by_reason: dict[str, float]


class UnplacedCorrection(BaseModel, from_attributes=True):
    """A correction without a matching clip in the newest cut. It is kept."""

    name: str
    was: str
    text: str | None
    dropped: bool


class TrainingLine(BaseModel):
    """How to train on the dataset: the setting, and the commands with and without a container."""

    dataset_dir: str
    command: str
    container: str


class DatasetDetails(BaseModel):
    """A dataset. read_aloud: as in `DatasetRow`; unheard: sentences of the text that were not found
    in the recordings; train: null without a clip to train on."""

    id: str
    name: str
    language: str
    created: str
    read_aloud: bool
    recordings: list[RecordingRow]
    text: DatasetText | None
    cut: CutRow
    clips: ClipCounts
    unplaced: list[UnplacedCorrection]
    account: list[AccountOfRecording]
    unheard: list[str]
    num_unheard: int
    speech_by: str
    train: TrainingLine | None


class ClipRow(BaseModel):
    """A clip. levels: its waveform in dB, at most 120 values; why: what is odd about it;
    cut_text: its text according to the cut."""

    name: str
    recording: str
    start: float
    seconds: float
    text: str
    cut_text: str
    corrected: bool
    dropped: bool
    why: str
    levels: list[float]
    sha256: str
    sound: str


class ClipPage(BaseModel):
    """A page of a dataset's clips, starting at `offset`."""

    clips: list[ClipRow]
    total: int
    offset: int
