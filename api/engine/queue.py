"""The request queue: rate limits, a bound, fairness between callers, deadly requests.

Pure: the time is an argument, and nothing waits.
"""

import bisect
import hashlib
import json
import math
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TypeVar

from api.errors import APIError
from xtts.inference.synthesis_request import SynthesisRequest

Key = TypeVar("Key")
Value = TypeVar("Value")
# The length that counts as one request: a piece of a text, as XTTS-v2 speaks English.
UNIT_CHARACTERS = 250
_MOST_BUCKETS = 10_000

# The assumed seconds of a request before the first measurement.
FIRST_GUESS_SECONDS = 2.0
_FORGETTING = 0.2
# The assumed characters of a piece before the first measurement.
_FIRST_GUESS_CHARACTERS = 100.0
# Retry-After is the expected time of a free place, times this.
_RETRY_MARGIN = 1.25
_MOST_RETRY_SECONDS = 3600
# No further is counted ahead: that many turns take minutes, and counting them milliseconds.
_MOST_TURNS = 4096
_KEPT_SUSPECTS = 1024
_KEPT_CALLERS = 1024
DEADLY = 2
# A caller that is later than its retry time by more seconds than this is no longer expected.
_LATE_SECONDS = 5.0
_SOON_SECONDS = 5.0
_MOST_TIMES = 1024


@dataclass(frozen=True)
class EngineLimits:
    """The limits of the engine, in seconds except for the first two.

    Attributes:
        ready: the maximum age of the last audio for the service to count as ready.
        micro: the idle time after which the self-test runs.
        preview: the idle time after which a preview is closed.
    """

    slots: int | None = None
    queue: int = 32
    deadline: float = 30.0
    hang: float = 30.0
    start: float = 180.0
    ready: float = 60.0
    micro: float = 20.0
    preview: float = 120.0

    @property
    def guess(self) -> float:
        """The longest expected wait: a request beyond it is refused at once.

        It is shorter than `turn`, so a wrong estimate seldom drops a request later.
        """
        return 0.6 * self.deadline

    @property
    def turn(self) -> float:
        """The longest actual wait for a turn; it leaves time for the first audio."""
        return 0.85 * self.deadline


class Recent(OrderedDict[Key, Value]):
    """A dict of at most `most` keys, which drops the key that was set the longest time ago."""

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
    buckets: Recent[str, tuple[float, float]] = field(default_factory=lambda: Recent(_MOST_BUCKETS))

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


@dataclass
class ReturnTimes:
    """The retry times given to refused requests of each caller, in the order of refusal.

    No two requests of a caller get the same place.
    """

    _times: Recent[str, list[float]] = field(default_factory=lambda: Recent(_KEPT_CALLERS))

    def expected(self, caller: str, now: float) -> int:
        """How many retries of this caller are expected before a request that comes now."""
        times = self._times.get(caller, [])
        while times and times[0] + _LATE_SECONDS < now:
            times.pop(0)
        if not times:
            self._times.pop(caller, None)
        return 0 if times and times[0] <= now else len(times)

    def expected_soon(self, caller: str, now: float) -> int:
        """How many retries of this caller are due soon.

        Only these reserve a place, so callers that never retry do not block any.
        """
        if self.expected(caller, now) == 0:
            return 0
        return bisect.bisect(self._times[caller], now + _SOON_SECONDS)

    def expected_of_others(self, caller: str, now: float) -> int:
        """How many retries of all other callers are expected."""
        others = (times for one, times in self._times.items() if one != caller)
        return sum(len(times) - bisect.bisect(times, now) for times in others)

    def add(self, caller: str, at: float) -> None:
        """Records the retry time of a refused request."""
        times = self._times[caller] = self._times.get(caller, [])
        if len(times) < _MOST_TIMES:
            bisect.insort(times, at)

    def came(self, caller: str, now: float) -> None:
        """Records that a request came, which fulfils a retry that was due."""
        times = self._times.get(caller, [])
        if times and times[0] <= now:
            times.pop(0)


@dataclass(eq=False)
class QueuedRequest:
    """One request.

    Attributes:
        digest: A hash of everything that determines its audio.
        micro: Whether it is the self-test.
        characters: The length of its text.
        began: The start of its present turn.
        paused: It has spoken a piece, and waits for the turn of the next one.
        held: It gets no turn now, because its caller does not read.
        turns, left: How many pieces it has spoken, and how many follow; `left` is known from the
            first pause on.
    """

    name: str
    digest: str
    arrived: float
    deadline: float
    micro: bool = False
    caller: str = ""
    characters: int = 0
    began: float | None = None
    paused: bool = False
    held: bool = False
    turns: int = 0
    left: int | None = None


@dataclass(frozen=True)
class Rejection:
    """Why a request is refused. code: queue_full, too_late, deadly_input."""

    code: str
    retry_seconds: int = 0


@dataclass
class RequestQueue:
    """The queue. slots: how many requests speak at once; most: how many more may wait.

    A turn is one piece of a text. After it, the request waits for its next turn at the end of the
    queue, so no request waits for whole texts of others.

    A free slot goes to the caller with the fewest slots. Among equals it goes to the caller whose
    last turn is the oldest, and within a caller to the request that has waited longest.

    One caller may take all `slots` + `most` places. If all are taken, a caller with less than an
    equal share of them is still admitted; the others are admitted again when they hold less than
    their share. No admitted request is dropped for another. N callers hold at most
    (`slots` + `most`) * (1 + 1/2 + ... 1/N) + N places.

    mean_seconds: of a turn; piece_characters: of a piece; last_turns: a growing number for each
    caller, in the order of their last turns.
    """

    slots: int
    most: int
    queue: deque[QueuedRequest] = field(default_factory=deque)
    speaking: dict[str, QueuedRequest] = field(default_factory=dict)
    deaths: Recent[str, int] = field(default_factory=lambda: Recent(_KEPT_SUSPECTS))
    mean_seconds: float = FIRST_GUESS_SECONDS
    piece_characters: float = _FIRST_GUESS_CHARACTERS
    last_turns: Recent[str, int] = field(default_factory=lambda: Recent(_KEPT_CALLERS))
    returns: ReturnTimes = field(default_factory=ReturnTimes)

    def refused(
        self, digest: str, caller: str, now: float, patience_seconds: float
    ) -> Rejection | None:
        """The rejection of a request that comes now, or None if its turn would be in time."""
        if self.deaths.get(digest, 0) >= DEADLY:
            return Rejection("deadly_input")
        # Expected retries reserve no place while a slot is free.
        idle = not self.queue and len(self.speaking) < self.slots
        expected = 0 if idle else self.returns.expected_soon(caller, now)
        if self._over(caller, expected) > 0:
            code = "queue_full"
        elif self.expected_wait(now, caller, expected) > patience_seconds:
            code = "too_late"
        else:
            return None
        self.returns.came(caller, now)  # in vain: it gets another time
        return Rejection(code, self.retry_seconds(caller, now, patience_seconds))

    def _over(self, caller: str, expected: int, others: int = 0) -> int:
        """How many requests must leave before one of this caller finds a place.

        expected, others: retries of this caller, and of others, that come first.
        """
        here = [job.caller for job in (*self.speaking.values(), *self.queue) if not job.micro]
        places = self.slots + self.most
        share = max(1, places // len({caller, *here}))
        over_share = here.count(caller) + expected - share
        return min(len(here) + expected + others - places, over_share) + 1

    def retry_seconds(self, caller: str, now: float, patience_seconds: float) -> int:
        """The seconds until a refused request should be sent again.

        By then enough requests of its caller have ended, each replaced by an expected retry. Each
        refused request gets a different time.
        """
        expected = self.returns.expected(caller, now)
        waits = list(self._waiting())
        few = sum(job.caller == caller for job in waits) + expected
        # A request that leaves must not make the wait longer.
        late = min(few, bisect.bisect_left(
            range(few + 1), True,
            key=lambda gone: self.expected_wait(now, caller, expected - gone) <= patience_seconds,
        ))  # fmt: skip
        others = self.returns.expected_of_others(caller, now)
        needed = max(1, self._over(caller, expected, others), late)
        active = [*self.speaking.values(), *waits]
        own = [job for job in active if job.caller == caller] or active
        share = self.slots / max(1, len({job.caller for job in active}))
        turns = self._turns_until(needed, own)
        seconds = turns / min(share, max(1, len(own))) * self._pace(now)
        retry = math.ceil(min(max(1.0, _RETRY_MARGIN * seconds), _MOST_RETRY_SECONDS))
        self.returns.add(caller, now + retry)
        return retry

    def _turns_until(self, ended: int, jobs: Sequence[QueuedRequest]) -> int:
        """How many turns pass until `ended` requests have ended.

        Each request that ends is replaced by another one of average length.
        """
        usual = round(fmean([job.turns + self._left(job) for job in jobs] or [1]))
        left, turns = deque(map(self._left, jobs)), 0
        while left and ended > 0 and turns < _MOST_TURNS:
            turns += 1
            more = left.popleft() - 1
            left.append(more or usual)
            ended -= more == 0
        return turns

    def _left(self, job: QueuedRequest) -> int:
        """How many turns a request still takes."""
        if job.left is not None:
            return max(1, job.left)
        return max(1, math.ceil(job.characters / self.piece_characters))

    def expected_wait(self, now: float, caller: str = "", more: int = 0) -> float:
        """The estimated seconds until a request of this caller that comes now gets its turn.

        The requests before it take their turns in rounds of `slots`. Another caller has as many
        turns before it as make the two equal. more: further requests of its own before it.
        """
        waits = Counter(job.caller for job in self._waiting())
        slots = Counter(job.caller for job in self.speaking.values())
        own = max(0, waits.pop(caller, 0) + more)
        last = own + 1 + slots[caller]
        ahead = own + sum(min(count, max(0, last - slots[one])) for one, count in waits.items())
        rounds = math.ceil((ahead + 1 - self.slots + len(self.speaking)) / self.slots)
        return max(0, rounds) * self._pace(now)

    def _waiting(self) -> Iterable[QueuedRequest]:
        """The waiting requests that can take a turn."""
        return (job for job in self.queue if not job.held)

    def _pace(self, now: float) -> float:
        """The estimated seconds of a turn: the recent mean, or the age of the present turns.

        The age shows a machine that slows down before any turn has ended.
        """
        began = [job.began for job in self.speaking.values() if job.began is not None]
        at_it = now - sum(began) / len(began) if began else 0.0
        return max(self.mean_seconds, at_it)

    def enter(self, job: QueuedRequest) -> None:
        """Adds a request to the end of the queue; the self-test goes to the front."""
        self.returns.came(job.caller, job.arrived)
        if job.micro:
            self.queue.appendleft(job)
        else:
            self.queue.append(job)

    def expired(self, now: float) -> list[QueuedRequest]:
        """Removes and returns requests whose deadline passed before their first turn."""
        late = [job for job in self.queue if now >= job.deadline and not job.paused]
        for job in late:
            self.queue.remove(job)
        return late

    def next(self, now: float) -> QueuedRequest | None:
        """The request whose turn begins now, if any.

        A request that was active when a child died speaks alone, so that the next death identifies
        one input.
        """
        waits = list(self._waiting())
        if not waits or len(self.speaking) >= self.slots:
            return None
        slots = Counter(job.caller for job in self.speaking.values())
        job = min(waits, key=lambda one: (
            not one.micro, slots[one.caller], self.last_turns.get(one.caller, 0),
        ))  # fmt: skip
        alone = self.suspect(job) or any(map(self.suspect, self.speaking.values()))
        if alone and self.speaking:
            return None
        self.queue.remove(job)
        job.began = now
        self.speaking[job.name] = job
        self._count_turn(job.caller)
        return job

    def _count_turn(self, caller: str) -> None:
        """Records a caller's turn, also for callers that have left.

        A caller that sends one text after another would otherwise be new each time, and starve a
        caller that stays.
        """
        self.last_turns[caller] = max(self.last_turns.values(), default=0) + 1

    def pause(
        self, name: str, now: float, left: int, *, held: bool = False
    ) -> QueuedRequest | None:
        """Moves a request that has spoken a piece and has more to the end of the queue."""
        job = self.speaking.pop(name, None)
        if job is not None:
            self._took(job, now)
            job.paused, job.held, job.left = True, held, left
            self._learn_length(job, left)
            self.queue.append(job)
        return job

    def suspect(self, job: QueuedRequest) -> bool:
        """Whether a child has died while it spoke this input."""
        return self.deaths.get(job.digest, 0) > 0

    def leave(self, name: str) -> QueuedRequest | None:
        """Removes a request, waiting or active, for whatever reason."""
        if (job := self.speaking.pop(name, None)) is not None:
            return job
        for job in self.queue:
            if job.name == name:
                self.queue.remove(job)
                return job
        return None

    def said(self, name: str, now: float) -> QueuedRequest | None:
        """Ends a request that was spoken completely; its input is no longer a suspect."""
        job = self.leave(name)
        if job is not None and not job.micro and job.began is not None:
            self.deaths.pop(job.digest, None)
            self._took(job, now)
            self._learn_length(job, 0)
        return job

    def _took(self, job: QueuedRequest, now: float) -> None:
        if job.began is not None:
            self.mean_seconds += _FORGETTING * (now - job.began - self.mean_seconds)

    def _learn_length(self, job: QueuedRequest, left: int) -> None:
        job.turns += 1
        characters = job.characters / (job.turns + left)
        self.piece_characters += _FORGETTING * (characters - self.piece_characters)

    def died(self) -> list[QueuedRequest]:
        """Removes and returns the active requests of a child that died; their inputs are suspects.

        A death counts once for an input, however many requests spoke it. Requests between two
        pieces are removed too, as their state is lost with the child, but are no suspects.
        """
        speaking = list(self.speaking.values())
        self.speaking.clear()
        for digest in dict.fromkeys(job.digest for job in speaking if not job.micro):
            self.deaths[digest] = self.deaths.get(digest, 0) + 1
        paused = [job for job in self.queue if job.paused]
        self.queue = deque(job for job in self.queue if not job.paused)
        return speaking + paused


def digest_of(ask: SynthesisRequest, recording: str) -> str:
    """A hash that identifies an input that kills the process.

    It ignores digits, spaces, punctuation, seed and speed. Reading a text cannot end the process
    (`xtts.workers.text_worker`); what remains are faults in native code, which do not depend on
    such details.
    """
    words = re.sub(r"\d+", "0", ask.text.casefold())
    words = " ".join(re.findall(r"\w+", words)) or ask.text
    text = json.dumps([words, ask.language, recording])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def no_refusal(no: Rejection, limits: EngineLimits) -> APIError:
    """The APIError of a rejection."""
    if no.code == "deadly_input":
        text = "This input ended the speaking process twice, so it is refused."
        return APIError(422, no.code, text, param="input")
    if no.code == "too_late":
        text = f"The queue is too long for a turn within {limits.deadline:g} s."
    else:
        text = f"{limits.queue} requests already wait, and this caller has its share of the queue."
    return APIError(503, no.code, text, retry_after=no.retry_seconds)
