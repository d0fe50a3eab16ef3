"""Request and response bodies for sentences that are read aloud, as /openapi.json shows them."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_PROMPT_TEXT = 50_000
FindingKind = Literal[
    "silent", "no_speech", "quiet", "noisy", "clipped", "cut_start", "cut_end", "short", "long", "words"
]


class PromptsRequest(BaseModel):
    """The sentences to read aloud."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=MAX_PROMPT_TEXT,
            description="Your text, read from the beginning; null: the built-in sentences of "
            "the dataset's language.",
        ),
    ] = None


class TakeFinding(BaseModel):
    """A fault of a take. sentence: describes it and says what to do."""

    kind: FindingKind
    sentence: str


class CheckedTake(BaseModel):
    """A take, trimmed of the silence around it. usable: whether it can be a clip; levels: its
    waveform in dB, at most 120 values; heard: the recognised words, "" without a recogniser."""

    findings: list[TakeFinding]
    usable: bool
    seconds: float
    levels: list[int]
    heard: str


class TakeRow(CheckedTake):
    """A checked take. kept: whether it is now a clip of the dataset."""

    number: int
    kept: bool


class PromptRow(BaseModel):
    """A sentence. findings: of the kept take; sound: the address of the kept take, or null."""

    number: int
    text: str
    state: Literal["open", "kept", "skipped"]
    seconds: float
    findings: list[TakeFinding]
    sound: str | None


class PromptSheet(BaseModel):
    """The sentences of a dataset. next: the first open one; recogniser: whether the words are
    checked; more: a sentence on how many more minutes would help."""

    source: Literal["built_in", "own"]
    language: str
    prompts: list[PromptRow]
    kept: int
    skipped: int
    kept_seconds: float
    next: int | None
    recogniser: bool
    more: str
