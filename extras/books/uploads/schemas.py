"""Request and response bodies of /v1/books, as /openapi.json shows them."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from api.schemas import DiskSpace, JobState

MOST_FILE_NAME = 120
MOST_NAMES = 500
Form = Literal["wav", "flac", "mp3", "opus", "m4a", "m4b", "epub"]
CaptionForm = Literal["srt", "vtt", "json"]
_STRICT = ConfigDict(extra="forbid", strict=True)
TakeKey = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
_Word = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^=#\[\]\r\n]+$")]
_Said = Annotated[str, Field(max_length=80, pattern=r"^[^=#\[\]\r\n]*$")]


class ReadingRequest(BaseModel):
    """How a book is to be read. What is left out is as `xtts read` has it."""

    model_config = _STRICT
    plan_only: Annotated[bool, Field(description="Only plan it, with five sentences.")] = False
    chapters: Annotated[
        str,
        Field(max_length=20_000, pattern=r"^[0-9, -]*$",
              description="By the numbers of the plan, such as `1-3,5`; empty: all."),
    ] = ""  # fmt: skip
    formats: Annotated[list[Form], Field(max_length=7)] = ["m4b", "mp3"]
    captions: Annotated[list[CaptionForm], Field(max_length=3)] = []
    footnotes: bool = False
    retakes: Annotated[int, Field(ge=0, le=9)] = 1
    language: Annotated[str, Field(max_length=12, pattern=r"^[a-zA-Z-]*$")] = ""
    voice: Annotated[str, Field(max_length=128, description="As of /v1/audio/speech.")] = "default"
    seed: Annotated[int, Field(ge=0, le=2**53)] = 0
    again: Annotated[
        list[TakeKey],
        Field(max_length=100, description="Sentences of the report to say again, by `key`."),
    ] = []  # fmt: skip


class NamesRequest(BaseModel):
    """How words of the book are said; it replaces what was said before. An empty text: as it is
    written."""

    model_config = _STRICT
    names: Annotated[dict[_Word, _Said], Field(max_length=MOST_NAMES)]


class NamesRow(BaseModel):
    """How words of the book are said."""

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
    """The work on a book. plan_only: it is only planned; ahead: how many come before it; paused:
    it stands still because somebody speaks; told: the last line of its log."""

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
    """How far a book is. share: of its characters, 0 to 1; seconds_left: until it is read."""

    chapter: int
    share: float
    seconds_left: float
    audio_seconds_a_second: float


class PlannedChapter(BaseModel):
    """A chapter. seconds: how long it will sound."""

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
    """A word that the voice has to guess. said: how it was corrected; empty: it is guessed."""

    word: str
    count: int
    said: str


class SentenceRow(BaseModel):
    """A sentence that can be heard at `sound`."""

    key: str
    text: str
    sound: str


class BookPlan(BaseModel):
    """What a book will be. rate: seconds of speech a second, as measured here; unreadable: letters
    that the voice does not know."""

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
    """A sentence of the report. noticed: what is wrong with it."""

    chapter: int
    text: str
    key: str
    noticed: str
    sound: str


class BookReport(BaseModel):
    """How a book was read. chapters: those that were read; worst: at most a hundred sentences, the
    worst first."""

    chapters: list[int] = []
    sentences: int
    faulty: int
    unread: int
    worst: list[WorstSentence]


class BookFile(BaseModel):
    """A file that was written."""

    name: str
    bytes: int
    address: str


class BookDetails(BaseModel):
    """A book with all that is known of it."""

    id: str
    name: str
    created: str
    reading: ReadingRow
    progress: ReadingProgress | None
    plan: BookPlan | None
    report: BookReport | None
    files: list[BookFile]
