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
_MAX_SUSPECTS = 1024
# An input or a voice is refused after this number of deaths of the process.
DEADLY_COUNT = 2
# A request with more unread audio than this (30 s of PCM16 at 24 kHz) gets no turn until its caller
# has read some. It exceeds the wait for a turn, so a caller that plays as it reads has no gap.
_MAX_UNREAD_BYTES = 30 * 2 * 24_000


@dataclass(frozen=True)
class EngineLimits:
    """The limits of the engine.

    Attributes:
        slots: The number of requests spoken in parallel; None means 4 on a CPU, and up to 16 on a
            GPU, depending on its memory.
        queue: How many requests may wait.
        requests_per_minute: The limit of each caller.
        deadline_seconds: The time until the first audio.
        hang_seconds: How long the speaking process may be silent.
        start_seconds: How long it may be silent before it is ready, and take to open a voice.
        ready_seconds: The maximum age of the last audio for the service to count as ready.
        self_test_seconds: The idle time after which the self-test runs.
        preview_seconds: The idle time after which a preview is closed.
    """

    slots: int | None = None
    queue: int = 32
    requests_per_minute: int | None = 600
    deadline_seconds: float = 30.0
    hang_seconds: float = 30.0
    start_seconds: float = 180.0
    ready_seconds: float = 60.0
    self_test_seconds: float = 20.0
    preview_seconds: float = 120.0

    @property
    def turn_seconds(self) -> float:
        """The longest actual wait for a turn; it leaves time for the first audio."""
        return 0.85 * self.deadline_seconds


class RecentKeys(OrderedDict[Key, Value]):
    """A dict of at most `max_keys` keys, which drops the key that was set least recently."""

    def __init__(self, max_keys: int) -> None:
        super().__init__()
        self.max_keys = max_keys

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self.max_keys:
            self.popitem(last=False)


@dataclass
class RateLimiter:
    """A token bucket for each caller, full at first. Pure except for its state.

    A request needs one token. A long text costs more, even more than the bucket holds: then the
    next request waits until the bucket is positive again.

    Attributes:
        buckets: Caller -> its tokens, and the time for which they were computed.
    """

    per_minute: int | None
    buckets: RecentKeys[str, tuple[float, float]] = field(default_factory=lambda: RecentKeys(_MAX_BUCKETS))

    def take(self, caller: str, now: float) -> float:
        """0.0 if the caller may send a request, else the seconds to wait."""
        if self.per_minute is None:
            return 0.0
        capacity = float(self.per_minute)
        tokens, filled_at = self.buckets.get(caller, (capacity, now))
        tokens = min(capacity, tokens + (now - filled_at) * self.per_minute / 60)
        has_token = tokens >= 1
        self.buckets[caller] = (tokens - has_token, now)
        return 0.0 if has_token else (1 - tokens) * 60 / self.per_minute

    def count_length(self, caller: str, characters: int) -> None:
        """Charges a long text for its length beyond the one token of its request."""
        if caller in self.buckets:
            tokens, filled_at = self.buckets[caller]
            self.buckets[caller] = tokens - (characters - 1) // UNIT_CHARACTERS, filled_at


@dataclass(eq=False)
class SpeechStream:
    """A request and its audio, to be iterated once: PCM16 at 24 kHz, in chunks.

    Iterating raises APIError unless all of the audio is spoken.

    Attributes:
        recording, cast: Its voice, and the voices that its text changes to (name -> recording);
            None for the open voice's own.
        caller: Who sent it: the slots and the queue are shared fairly between callers.
        target, voice: The voice of a preview, and the same once it is open; None for the voice that
            is served when the request gets its turn.
        is_self_test: Whether it is the self-test.
        arrived, deadline: When it arrived, and when it must have its first turn, by
            `time.monotonic`.
        on_read: Called after each chunk that the caller has read.
        has_begun: Whether it has spoken a piece.
        is_held: Whether it gets no turn now, because its caller does not read.
        is_over: Whether its audio has ended or was refused.
        num_bytes: Bytes of audio so far.
        words: (word, start, end) in seconds, for the pieces that have ended.
        seconds: The computing time; known at the end, as the next three.
        cut_pieces: How many pieces ran to the model's code limit without a stop code.
        pieces: The outcome of each piece
            (`xtts.inference.alignment.guarded_piece.SpokenPiece.as_dict`).
        has_word_times: Whether every piece had words.
    """

    request: SynthesisRequest
    recording: str | None = None
    cast: Mapping[str, str | None] = field(default_factory=dict)
    caller: str = ""
    target: VoiceTarget | None = None
    voice: OpenedVoiceState | None = None
    is_self_test: bool = False
    name: str = ""
    arrived: float = 0.0
    deadline: float = math.inf
    on_read: "Callable[[SpeechStream], None]" = lambda _: None
    has_begun: bool = False
    is_held: bool = False
    is_over: bool = False
    num_bytes: int = 0
    words: list[tuple[str, float, float]] = field(default_factory=list)
    seconds: float | None = None
    cut_pieces: int = 0
    pieces: list[JsonObject] = field(default_factory=list)
    has_word_times: bool = False
    _chunks: "asyncio.Queue[bytes | APIError | None]" = field(default_factory=asyncio.Queue)
    _unread_bytes: int = 0

    @cached_property
    def digest(self) -> str:
        """A hash that identifies an input that kills the process.

        It ignores digits, spaces, punctuation, seed and speed. Reading a text cannot end the
        process (`xtts.workers.text_worker`); what remains are faults in native code, which do not
        depend on such details. An input that kills the process with one voice may be harmless with
        another.
        """
        text = re.sub(r"\d+", "0", self.request.text.casefold())
        words = " ".join(re.findall(r"\w+", text)) or self.request.text
        voice = self.target.name if self.target else ""
        cast = sorted(self.cast.items())
        identity = json.dumps([words, self.request.language, voice, self.recording, cast])
        return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def faults(self) -> list[str]:
        """The outcome of each piece that did not end correctly, one word each."""
        faulty = (piece for piece in self.pieces if piece["ending"] != "good" and not piece["cut_off"])
        return [piece["ending"] for piece in faulty]

    @property
    def respoken_pieces(self) -> int:
        """How many pieces were spoken more than once."""
        return sum(piece["attempts"] > 1 for piece in self.pieces)

    @property
    def is_behind(self) -> bool:
        """Whether the caller has enough unread audio for the next turn to wait."""
        return self._unread_bytes > _MAX_UNREAD_BYTES

    def put(self, chunk: bytes) -> None:
        """Adds a chunk of audio, unless the caller has left."""
        if not self.is_over:
            self.num_bytes += len(chunk)
            self._unread_bytes += len(chunk)
            self._chunks.put_nowait(chunk)

    def end(self, refusal: APIError | None = None) -> None:
        """Ends the audio. refusal: why it is incomplete; None if it is complete."""
        if not self.is_over:
            self.is_over = True
            self._chunks.put_nowait(refusal)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            chunk = await self._chunks.get()
            if isinstance(chunk, APIError):
                raise chunk
            if chunk is None:
                return
            self._unread_bytes -= len(chunk)
            self.on_read(self)
            yield chunk


@dataclass
class RequestQueue:
    """The requests that were admitted and are not over.

    One caller may take all `slots` + `max_waiting` places. If all are taken, a caller with less
    than an equal share of them is still admitted; the others are admitted again when they hold less
    than their share. No admitted request is dropped for another. N callers hold at most
    (`slots` + `max_waiting`) * (1 + 1/2 + ... 1/N) + N places.

    Attributes:
        slots: How many requests speak at once.
        max_waiting: How many more may wait.
        queue: The requests that wait for a turn.
        speaking: Name -> request that has a turn, by the child's last message.
        deaths: Digest of an input -> how often the child died while it spoke that input.
    """

    slots: int
    max_waiting: int
    queue: deque[SpeechStream] = field(default_factory=deque)
    speaking: dict[str, SpeechStream] = field(default_factory=dict)
    deaths: RecentKeys[str, int] = field(default_factory=lambda: RecentKeys(_MAX_SUSPECTS))

    def __iter__(self) -> Iterator[SpeechStream]:
        yield from (*self.speaking.values(), *self.queue)

    def find(self, name: str) -> SpeechStream | None:
        """The request with this name, waiting or active."""
        return self.speaking.get(name) or next((stream for stream in self.queue if stream.name == name), None)

    def refusal(self, digest: str, caller: str) -> APIError | None:
        """Why a new request is refused, or None."""
        if self.deaths.get(digest, 0) >= DEADLY_COUNT:
            text = "This input ended the speaking process twice, so it is refused."
            return APIError(422, "deadly_input", text, param="input")
        admitted_callers = [stream.caller for stream in self if not stream.is_self_test]
        places = self.slots + self.max_waiting
        share = max(1, places // len({caller, *admitted_callers}))
        if len(admitted_callers) < places or admitted_callers.count(caller) < share:
            return None
        text = f"{self.max_waiting} requests already wait, and this caller has its share of the queue."
        return APIError(503, "queue_full", text, retry_after=RETRY_SECONDS)

    def enter(self, stream: SpeechStream) -> None:
        """Adds a request to the end of the queue; the self-test goes to the front."""
        if stream.is_self_test:
            self.queue.appendleft(stream)
        else:
            self.queue.append(stream)

    def remove_expired(self, now: float) -> list[SpeechStream]:
        """Removes and returns requests whose deadline passed before their first turn."""
        expired = [stream for stream in self.queue if now >= stream.deadline and not stream.has_begun]
        for stream in expired:
            self.queue.remove(stream)
        return expired

    def begin(self, name: str) -> SpeechStream | None:
        """Marks a request as speaking and returns it; None if it is over."""
        stream = next((stream for stream in self.queue if stream.name == name), None)
        if stream is not None:
            self.queue.remove(stream)
            self.speaking[name] = stream
        return stream

    def pause(self, name: str) -> None:
        """Moves a request that has spoken a piece and has more to the end of the queue."""
        if (stream := self.speaking.pop(name, None)) is not None:
            stream.has_begun = True
            self.queue.append(stream)

    def is_suspect(self, stream: SpeechStream) -> bool:
        """Whether a child has died while it spoke this input."""
        return self.deaths.get(stream.digest, 0) > 0

    def leave(self, name: str) -> SpeechStream | None:
        """Removes a request, waiting or active."""
        stream = self.find(name)
        if stream is not None and self.speaking.pop(name, None) is None:
            self.queue.remove(stream)
        return stream

    def finish(self, name: str) -> SpeechStream | None:
        """Ends a request that was spoken completely; its input is no longer a suspect."""
        stream = self.leave(name)
        if stream is not None and not stream.is_self_test:
            self.deaths.pop(stream.digest, None)
        return stream

    def remove_active(self) -> list[SpeechStream]:
        """Removes and returns the active requests of a child that died; their inputs are suspects.

        A death counts once for an input, however many requests spoke it. Requests between two
        pieces are removed too, as their state is lost with the child, but are not suspects.
        """
        speaking = list(self.speaking.values())
        self.speaking.clear()
        for digest in dict.fromkeys(stream.digest for stream in speaking if not stream.is_self_test):
            self.deaths[digest] = self.deaths.get(digest, 0) + 1
        paused = [stream for stream in self.queue if stream.has_begun]
        self.queue = deque(stream for stream in self.queue if not stream.has_begun)
        return speaking + paused
