"""Request and response bodies of /v1/books, as /openapi.json shows them."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from extras.common.disk_space import DiskSpace
from extras.common.work_queue import JobState

MAX_FILE_NAME = 120
MAX_NAMES = 500
Form = Literal["wav", "flac", "mp3", "opus", "m4a", "m4b", "epub"]
CaptionForm = Literal["srt", "vtt", "json"]
_STRICT = ConfigDict(extra="forbid", strict=True)
TakeKey = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
_Word = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^=#\[\]\r\n]+$")]
_Said = Annotated[str, Field(max_length=80, pattern=r"^[^=#\[\]\r\n]*$")]


class ReadingRequest(BaseModel):
    """The settings of a reading. The defaults are those of `xtts read`."""

    model_config = _STRICT
    plan_only: Annotated[bool, Field(description="Only make a plan, with five sample sentences.")] = False
    chapters: Annotated[
        str,
        Field(
            max_length=20_000,
            pattern=r"^[0-9, -]*$",
            description="Numbers from the plan, such as `1-3,5`; empty: all.",
        ),
    ] = ""
    formats: Annotated[list[Form], Field(max_length=7)] = ["m4b", "mp3"]
    captions: Annotated[list[CaptionForm], Field(max_length=3)] = []
    footnotes: bool = False
    retakes: Annotated[int, Field(ge=0, le=9)] = 1
    language: Annotated[str, Field(max_length=12, pattern=r"^[a-zA-Z-]*$")] = ""
    voice: Annotated[str, Field(max_length=128, description="As in /v1/audio/speech.")] = "default"
    seed: Annotated[int, Field(ge=0, le=2**53)] = 0
    again: Annotated[
        list[TakeKey], Field(max_length=100, description="Sentences of the report to speak again, by `key`.")
    ] = []


class NamesRequest(BaseModel):
    """Pronunciations of words in the book, which replace all previous ones. An empty text removes
    an entry."""

    model_config = _STRICT
    names: Annotated[dict[_Word, _Said], Field(max_length=MAX_NAMES)]


class NamesRow(BaseModel):
    """Pronunciations of words in the book."""

    names: dict[str, str]


class BookRow(BaseModel):
    """A book in the list."""

    id: str
    name: str
    created: str
    title: str
    state: JobState
    plan_only: bool


class BookList(BaseModel):
    """All books, the newest first."""

    books: list[BookRow]
    space: DiskSpace


class ReadingRow(BaseModel):
    """The reading of a book. plan_only: it is only planned; ahead: the number of readings before it
    in the queue; paused: it waits for speech requests; told: the last line of its log."""

    state: JobState
    plan_only: bool
    message: str
    asked: str | None
    started: str | None
    ended: str | None
    ahead: int
    paused: bool
    told: str


class ReadingProgress(BaseModel):
    """The progress of a reading. share: of the characters, 0 to 1; seconds_left: estimated."""

    chapter: int
    share: float
    seconds_left: float
    audio_seconds_a_second: float


class PlannedChapter(BaseModel):
    """A chapter in the plan. seconds: its estimated duration."""

    number: int
    title: str
    words: int
    sentences: int
    seconds: float


class LeftOut(BaseModel):
    """A part that is not read aloud, and why."""

    title: str
    reason: str


class NameRow(BaseModel):
    """A word whose pronunciation is a guess. said: the correction, if any."""

    word: str
    count: int
    said: str


class SentenceRow(BaseModel):
    """A spoken sentence. sound: the address of its audio."""

    key: str
    text: str
    sound: str


class BookPlan(BaseModel):
    """The plan of a book. rate: seconds of speech per second, measured on this machine; unreadable:
    letters that the voice does not know."""

    title: str
    author: str
    language: str
    rate: float
    chapters: list[PlannedChapter]
    left_out: list[LeftOut]
    names: list[NameRow]
    unreadable: str
    notes: list[str]
    samples: list[SentenceRow]


class WorstSentence(BaseModel):
    """A sentence of the report. noticed: its faults."""

    chapter: int
    text: str
    key: str
    noticed: str
    sound: str


class BookReport(BaseModel):
    """The report on a reading. chapters: the chapters that were read; worst: at most a hundred
    sentences, the worst first."""

    chapters: list[int] = []
    sentences: int
    faulty: int
    unread: int
    worst: list[WorstSentence]


class BookFile(BaseModel):
    """A file of a finished reading."""

    name: str
    bytes: int
    address: str


class BookDetails(BaseModel):
    """A book with its plan, reading, files and report."""

    id: str
    name: str
    created: str
    reading: ReadingRow
    progress: ReadingProgress | None
    plan: BookPlan | None
    report: BookReport | None
    files: list[BookFile]
