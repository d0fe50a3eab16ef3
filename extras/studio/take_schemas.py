"""Request and response bodies of sentences that are read aloud, as /openapi.json shows them."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_PROMPT_TEXT = 50_000
FindingKind = Literal[
    "silent", "no_speech", "quiet", "noisy", "clipped", "cut_start", "cut_end", "short", "long",
    "words",
]  # fmt: skip


class PromptsRequest(BaseModel):
    """The sentences to read aloud."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: Annotated[
        str | None,
        Field(min_length=1, max_length=MOST_PROMPT_TEXT,
              description="A text of one's own, read in its order; null: the built-in sentences "
              "of the dataset's language."),
    ] = None  # fmt: skip


class TakeFinding(BaseModel):
    """One thing that is wrong with a take. sentence: what it is, and what to do."""

    kind: FindingKind
    sentence: str


class CheckedTake(BaseModel):
    """A take without the silence around it. usable: whether it can be a clip; levels: its waveform
    in dB, at most 120 of them; heard: by the recogniser, "" where there is none."""

    findings: list[TakeFinding]
    usable: bool
    seconds: float
    levels: list[int]
    heard: str


class TakeRow(CheckedTake):
    """A take that was checked. kept: whether it is a clip of the dataset by now."""

    number: int
    kept: bool


class PromptRow(BaseModel):
    """A sentence. findings: of the take that is kept; sound: where that is heard."""

    number: int
    text: str
    state: Literal["open", "kept", "skipped"]
    seconds: float
    findings: list[TakeFinding]
    sound: str | None


class PromptSheet(BaseModel):
    """The sentences of a dataset. next: the first that is open; recogniser: whether the words are
    checked; more: what more minutes would bring, as a sentence."""

    source: Literal["built_in", "own"]
    language: str
    prompts: list[PromptRow]
    kept: int
    skipped: int
    kept_seconds: float
    next: int | None
    recogniser: bool
    more: str
