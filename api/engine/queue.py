"""Requests and their admission: how many wait, limits of each caller, deadly inputs.

The admission is pure: the time is an argument, and nothing waits. Admitted requests wait for their
turns in the speaking process (`xtts.workers.server_main`).
"""

import asyncio
import hashlib
import json
import math
import re
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from api.engine.child import OpenedVoiceState, VoiceTarget
from api.errors import APIError
from machine.storage.files import JsonObject
from xtts.inference.synthesis_request import SynthesisRequest

Key = TypeVar("Key")
Value = TypeVar("Value")
# The characters that count as one request: the longest piece of an English text for XTTS-v2.
UNIT_CHARACTERS = 250
_MAX_BUCKETS = 10_000

# Retry-After of a refused request, in seconds.
RETRY_SECONDS = 5
_KEPT_SUSPECTS = 1024
DEADLY = 2
# A request with more unread audio than this (30 s of PCM16 at 24 kHz) gets no turn until its caller
# has read some. It exceeds the wait for a turn, so a caller that plays as it reads has no gap.
_UNREAD_BYTES = 30 * 2 * 24_000


@dataclass(frozen=True)
class EngineLimits:
    """The limits of the engine, in seconds except for the first three.

    Attributes:
        slots: requests spoken in parallel; None means 4 on a CPU, and up to 16 on a GPU, depending
            on its memory.
        queue: requests that may wait.
        requests_per_minute: for each caller.
        deadline: until the first audio.
        ready: the maximum age of the last audio for the service to count as ready.
        micro: the idle time after which the self-test runs.
        preview: the idle time after which a preview is closed.
    """

    slots: int | None = None
    queue: int = 32
    requests_per_minute: int | None = 600
    deadline: float = 30.0
    hang: float = 30.0
    start: float = 180.0
    ready: float = 60.0
    micro: float = 20.0
    preview: float = 120.0

    @property
    def turn(self) -> float:
        """The longest actual wait for a turn; it leaves time for the first audio."""
        return 0.85 * self.deadline


class Recent(OrderedDict[Key, Value]):
    """A dict of at most `most` keys, which drops the key that was set least recently."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self.most:
            self.popitem(last=False)


@dataclass
class RateLimiter:
    """A token bucket for each caller, full at first. Pure except for its state.

    A request needs one token. A long text costs more, even more than the bucket holds: then the
    next request waits until the bucket is positive again.
    """

    per_minute: int | None
    buckets: Recent[str, tuple[float, float]] = field(default_factory=lambda: Recent(_MAX_BUCKETS))

    def take(self, caller: str, now: float) -> float:
        """0.0 if the caller may send a request, else the seconds to wait."""
        if self.per_minute is None:
            return 0.0
        full = float(self.per_minute)
        tokens, at = self.buckets.get(caller, (full, now))
        tokens = min(full, tokens + (now - at) * self.per_minute / 60)
        fits = tokens >= 1
        self.buckets[caller] = (tokens - fits, now)
        return 0.0 if fits else (1 - tokens) * 60 / self.per_minute

    def count_length(self, caller: str, characters: int) -> None:
        """Charges a long text for its length beyond the one token of its request."""
        if caller in self.buckets:
            tokens, at = self.buckets[caller]
            self.buckets[caller] = tokens - (characters - 1) // UNIT_CHARACTERS, at


@dataclass(eq=False)
class SpeechStream:
    """A request and its audio, to be iterated once: PCM16 at 24 kHz, in chunks.

    Attributes:
        recording, cast: Its voice, and the voices that its text changes to (name -> recording);
            None for the open voice's own.
        caller: The slots and the queue are shared fairly between callers.
        target, voice: The voice of a preview, and the same once it is open; None for the voice that
            is served when the request gets its turn.
        micro: Whether it is the self-test.
        on_read: Called after each chunk that the caller has read.
        begun: It has spoken a piece.
        held: It gets no turn now, because its caller does not read.
        num_bytes: Bytes of audio so far.
        words: (word, start, end) in seconds, for the pieces that have ended.
        seconds, cut_pieces, pieces, timed: Known at the end: the computing time; how many pieces
            ran to the model's code limit without a stop code; the outcome of each piece
            (`xtts.inference.alignment.guarded_piece.SpokenPiece.as_dict`); whether every piece had
            words.

    Iterating raises APIError unless all of it is spoken.
    """

    ask: SynthesisRequest
    recording: str | None = None
    cast: Mapping[str, str | None] = field(default_factory=dict)
    caller: str = ""
    target: VoiceTarget | None = None
    voice: OpenedVoiceState | None = None
    micro: bool = False
    name: str = ""
    arrived: float = 0.0
    deadline: float = math.inf
    on_read: "Callable[[SpeechStream], None]" = lambda _: None
    begun: bool = False
    held: bool = False
    over: bool = False
    num_bytes: int = 0
    words: list[tuple[str, float, float]] = field(default_factory=list)
    seconds: float | None = None
    cut_pieces: int = 0
    pieces: list[JsonObject] = field(default_factory=list)
    timed: bool = False
    _chunks: "asyncio.Queue[bytes | APIError | None]" = field(default_factory=asyncio.Queue)
    _unread: int = 0

    @cached_property
    def digest(self) -> str:
        """A hash that identifies an input that kills the process.

        It ignores digits, spaces, punctuation, seed and speed. Reading a text cannot end the
        process (`xtts.workers.text_worker`); what remains are faults in native code, which do not
        depend on such details. An input that kills the process with one voice may be harmless with
        another.
        """
        words = re.sub(r"\d+", "0", self.ask.text.casefold())
        words = " ".join(re.findall(r"\w+", words)) or self.ask.text
        voice = self.target.name if self.target else ""
        cast = sorted(self.cast.items())
        text = json.dumps([words, self.ask.language, voice, self.recording, cast])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def faults(self) -> list[str]:
        """The outcome of each piece that did not end correctly, one word each."""
        wrong = (piece for piece in self.pieces if piece["ending"] != "good" and not piece["cut_off"])
        return [piece["ending"] for piece in wrong]

    @property
    def respoken(self) -> int:
        """How many pieces were spoken more than once."""
        return sum(piece["attempts"] > 1 for piece in self.pieces)

    @property
    def is_behind(self) -> bool:
        """Whether the caller has enough unread audio for the next turn to wait."""
        return self._unread > _UNREAD_BYTES

    def put(self, chunk: bytes) -> None:
        """Adds a chunk of audio, unless the caller has left."""
        if not self.over:
            self.num_bytes += len(chunk)
            self._unread += len(chunk)
            self._chunks.put_nowait(chunk)

    def end(self, refusal: APIError | None = None) -> None:
        """Ends the audio; refusal: why it is incomplete."""
        if not self.over:
            self.over = True
            self._chunks.put_nowait(refusal)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            chunk = await self._chunks.get()
            if isinstance(chunk, APIError):
                raise chunk
            if chunk is None:
                return
            self._unread -= len(chunk)
            self.on_read(self)
            yield chunk


@dataclass
class RequestQueue:
    """The requests that were admitted and are not over. slots: how many speak at once; most: how
    many more may wait.

    One caller may take all `slots` + `most` places. If all are taken, a caller with less than an
    equal share of them is still admitted; the others are admitted again when they hold less than
    their share. No admitted request is dropped for another. N callers hold at most
    (`slots` + `most`) * (1 + 1/2 + ... 1/N) + N places.

    queue: those that wait for a turn; speaking: those that have one, as the child last said.
    """

    slots: int
    most: int
    queue: deque[SpeechStream] = field(default_factory=deque)
    speaking: dict[str, SpeechStream] = field(default_factory=dict)
    deaths: Recent[str, int] = field(default_factory=lambda: Recent(_KEPT_SUSPECTS))

    def __iter__(self) -> Iterator[SpeechStream]:
        yield from (*self.speaking.values(), *self.queue)

    def find(self, name: str) -> SpeechStream | None:
        """The request with this name, waiting or active."""
        return self.speaking.get(name) or next((job for job in self.queue if job.name == name), None)

    def refusal(self, digest: str, caller: str) -> APIError | None:
        """Why a new request is refused, or None."""
        if self.deaths.get(digest, 0) >= DEADLY:
            text = "This input ended the speaking process twice, so it is refused."
            return APIError(422, "deadly_input", text, param="input")
        here = [job.caller for job in self if not job.micro]
        places = self.slots + self.most
        share = max(1, places // len({caller, *here}))
        if len(here) < places or here.count(caller) < share:
            return None
        text = f"{self.most} requests already wait, and this caller has its share of the queue."
        return APIError(503, "queue_full", text, retry_after=RETRY_SECONDS)

    def enter(self, job: SpeechStream) -> None:
        """Adds a request to the end of the queue; the self-test goes to the front."""
        if job.micro:
            self.queue.appendleft(job)
        else:
            self.queue.append(job)

    def remove_expired(self, now: float) -> list[SpeechStream]:
        """Removes and returns requests whose deadline passed before their first turn."""
        late = [job for job in self.queue if now >= job.deadline and not job.begun]
        for job in late:
            self.queue.remove(job)
        return late

    def begin(self, name: str) -> SpeechStream | None:
        """Counts a turn that begins; returns its request, unless that is over."""
        job = next((job for job in self.queue if job.name == name), None)
        if job is not None:
            self.queue.remove(job)
            self.speaking[name] = job
        return job

    def pause(self, name: str) -> None:
        """Moves a request that has spoken a piece and has more to the end of the queue."""
        if (job := self.speaking.pop(name, None)) is not None:
            job.begun = True
            self.queue.append(job)

    def suspect(self, job: SpeechStream) -> bool:
        """Whether a child has died while it spoke this input."""
        return self.deaths.get(job.digest, 0) > 0

    def leave(self, name: str) -> SpeechStream | None:
        """Removes a request, waiting or active."""
        job = self.find(name)
        if job is not None and self.speaking.pop(name, None) is None:
            self.queue.remove(job)
        return job

    def finish(self, name: str) -> SpeechStream | None:
        """Ends a request that was spoken completely; its input is no longer a suspect."""
        job = self.leave(name)
        if job is not None and not job.micro:
            self.deaths.pop(job.digest, None)
        return job

    def died(self) -> list[SpeechStream]:
        """Removes and returns the active requests of a child that died; their inputs are suspects.

        A death counts once for an input, however many requests spoke it. Requests between two
        pieces are removed too, as their state is lost with the child, but are not suspects.
        """
        speaking = list(self.speaking.values())
        self.speaking.clear()
        for digest in dict.fromkeys(job.digest for job in speaking if not job.micro):
            self.deaths[digest] = self.deaths.get(digest, 0) + 1
        begun = [job for job in self.queue if job.begun]
        self.queue = deque(job for job in self.queue if not job.begun)
        return speaking + begun
