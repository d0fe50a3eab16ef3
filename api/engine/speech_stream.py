"""One speech request as its route sees it: chunks of sound, and how it ends."""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

from api.engine.options import EngineLimits, OpenedVoiceState
from api.engine.queue import QueuedRequest, Rejection
from api.errors import APIError
from xtts.inference.synthesis_request import SynthesisRequest

# A child's answers as the caller gets them: status and code.
_REASONS = {
    "refused": (422, "refused"),
    "no_reference": (409, "no_reference"),
    "not_finite": (503, "not_finite"),
    "internal": (500, "internal"),
}


# A request with more sound than this unread (30 s of PCM16 at 24 kHz) gets no turn until its caller
# has read some. It is longer than a turn is waited for: who plays while reading hears no gap.
_UNREAD_BYTES = 30 * 2 * 24_000

# The service's own word.
MICRO = SynthesisRequest("Yes.", "", max_codes=12)


def digest_of(ask: SynthesisRequest, recording: str) -> str:
    """A hash by which an input that ends the process is known again, also with another digit, other
    spaces or signs, another seed or speed.

    What a text does while it is read ends nothing (`xtts.workers.text_worker`); what is left are
    faults in native code, and those are not of one digit.
    """
    words = re.sub(r"\d+", "0", ask.text.casefold())
    words = " ".join(re.findall(r"\w+", words)) or ask.text
    text = json.dumps([words, ask.language, recording])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class SpeechStream:
    """The sound of one request, to be iterated once: PCM16 at 24 kHz, in chunks. cut_pieces: how
    many pieces ran to the model's code limit without a stop code; pieces: what became of each
    (`xtts.inference.alignment.guarded_piece.SpokenPiece.as_dict`); both are known at the end.
    words: (word, start, end) in seconds, as far as pieces have ended; timed: whether every piece
    had them, known at the end.
    voice: None for the one that is served when it is this request's turn.
    on_read: called after each chunk that the caller has taken.

    Raises APIError where it ends otherwise than by being spoken.
    """

    def __init__(
        self,
        job: QueuedRequest,
        ask: SynthesisRequest,
        recording: str | None,
        voice: OpenedVoiceState | None = None,
        on_read: "Callable[[SpeechStream], None]" = lambda _: None,
    ) -> None:
        self.job = job
        self.voice = voice
        self.ask = ask
        self.recording = recording
        self.bytes = 0
        self.seconds: float | None = None
        self.cut_pieces = 0
        self.pieces: list[dict[str, Any]] = []
        self.words: list[list[Any]] = []
        self.timed = False
        self._queue: asyncio.Queue[bytes | APIError | None] = asyncio.Queue()
        self._unread = 0
        self._on_read = on_read
        self.over = False

    @property
    def faults(self) -> list[str]:
        """How the pieces ended that are not as they should be, a word each."""
        return [
            piece["ending"]
            for piece in self.pieces
            if piece["ending"] != "good" and not piece["cut_off"]
        ]

    @property
    def respoken(self) -> int:
        """How many pieces were spoken more than once."""
        return sum(piece["attempts"] > 1 for piece in self.pieces)

    @property
    def is_behind(self) -> bool:
        """Whether so much sound is unread that more of it can wait."""
        return self._unread > _UNREAD_BYTES

    def put(self, chunk: bytes) -> None:
        """More sound, for a caller who is still there."""
        if not self.over:
            self.bytes += len(chunk)
            self._unread += len(chunk)
            self._queue.put_nowait(chunk)

    def end(self, refusal: APIError | None = None) -> None:
        """No more sound, and why if it is not all."""
        if not self.over:
            self.over = True
            self._queue.put_nowait(refusal)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            found = await self._queue.get()
            if isinstance(found, APIError):
                raise found
            if found is None:
                return
            self._unread -= len(found)
            self._on_read(self)
            yield found


def refusal_of(answer: dict[str, Any]) -> APIError:
    """What a child's `failed` is to the caller."""
    code = answer["reason_code"]
    status, word = _REASONS.get(code, (503, code))
    retry = 1 if status == 503 else None
    return APIError(status, word, answer["reason"], retry_after=retry)


def no_refusal(no: Rejection, limits: EngineLimits) -> APIError:
    """Why a request is not taken in."""
    if no.code == "deadly_input":
        text = "This input has ended the speaking process twice and is not spoken any more."
        return APIError(422, no.code, text, param="input")
    if no.code == "too_late":
        text = f"There are too many in front for a turn within {limits.deadline:g} s."
    else:
        text = f"{limits.queue} requests wait already, and this caller has its share of them."
    return APIError(503, no.code, text, retry_after=no.retry_seconds)
