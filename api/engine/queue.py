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
# What counts as one request: a piece of a text, as XTTS-v2 speaks English. A longer text is more.
UNIT_CHARACTERS = 250
_MOST_BUCKETS = 10_000

# What a request takes before any has been seen, in seconds.
FIRST_GUESS_SECONDS = 2.0
_FORGETTING = 0.2
# What one piece of a text has, before any has been seen.
_FIRST_GUESS_CHARACTERS = 100.0
# A refused request is asked to come back this much later than its place is expected to be free.
_RETRY_MARGIN = 1.25
_MOST_RETRY_SECONDS = 3600
# No further is counted ahead: that many turns take minutes, and counting them milliseconds.
_MOST_TURNS = 4096
_KEPT_SUSPECTS = 1024
_KEPT_CALLERS = 1024
DEADLY = 2
# A caller that does not come within these seconds of its time is not expected any more.
_LATE_SECONDS = 5.0
_SOON_SECONDS = 5.0
_MOST_TIMES = 1024


@dataclass(frozen=True)
class EngineLimits:
    """In seconds, but for the first two. ready: how fresh the last word must be; micro: after how
    much silence the service tries itself; preview: after how much silence a voice that is not
    served is closed."""

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
        """Who is expected to wait longer is refused at once, so that few are dropped later because
        a guess was wrong."""
        return 0.6 * self.deadline

    @property
    def turn(self) -> float:
        """Who has waited longer is dropped: the first sound takes time too."""
        return 0.85 * self.deadline


class Recent(OrderedDict[Key, Value]):
    """A dict of at most `most` keys: what was set longest ago is forgotten."""

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
    """A bucket of tokens for each caller; full at first, filled evenly. Pure but for its state.

    Whoever has a token may ask. A long text that is taken in costs more than one, also more than
    there are: the next request waits until that is paid back.
    """

    per_minute: int | None
    buckets: Recent[str, tuple[float, float]] = field(default_factory=lambda: Recent(_MOST_BUCKETS))

    def take(self, caller: str, now: float) -> float:
        """0.0 when the caller may ask, else how many seconds to wait."""
        if self.per_minute is None:
            return 0.0
        full = float(self.per_minute)
        tokens, at = self.buckets.get(caller, (full, now))
        tokens = min(full, tokens + (now - at) * self.per_minute / 60)
        fits = tokens >= 1
        self.buckets[caller] = (tokens - fits, now)
        return 0.0 if fits else (1 - tokens) * 60 / self.per_minute

    def count_length(self, caller: str, characters: int) -> None:
        """Counts a text that is spoken for what it is beyond the one token of its request."""
        if caller in self.buckets:
            tokens, at = self.buckets[caller]
            self.buckets[caller] = tokens - (characters - 1) // UNIT_CHARACTERS, at


@dataclass
class ReturnTimes:
    """When refused requests of each caller were asked to come back, no two of a caller for the
    same place; in the order in which the times were given."""

    _times: Recent[str, list[float]] = field(default_factory=lambda: Recent(_KEPT_CALLERS))

    def expected(self, caller: str, now: float) -> int:
        """How many requests of this caller are still to come back; none in front of one whose time
        has come."""
        times = self._times.get(caller, [])
        while times and times[0] + _LATE_SECONDS < now:
            times.pop(0)
        if not times:
            self._times.pop(caller, None)
        return 0 if times and times[0] <= now else len(times)

    def expected_soon(self, caller: str, now: float) -> int:
        """The same of those whose time is near: only for them a place is kept, so that callers who
        never come back keep none empty."""
        if self.expected(caller, now) == 0:
            return 0
        return bisect.bisect(self._times[caller], now + _SOON_SECONDS)

    def expected_of_others(self, caller: str, now: float) -> int:
        """How many requests of all other callers are still to come back."""
        others = (times for one, times in self._times.items() if one != caller)
        return sum(len(times) - bisect.bisect(times, now) for times in others)

    def add(self, caller: str, at: float) -> None:
        """A request was asked to come back at this time."""
        times = self._times[caller] = self._times.get(caller, [])
        if len(times) < _MOST_TIMES:
            bisect.insort(times, at)

    def came(self, caller: str, now: float) -> None:
        """A request came: where one was due, it is not expected any more."""
        times = self._times.get(caller, [])
        if times and times[0] <= now:
            times.pop(0)


@dataclass(eq=False)
class QueuedRequest:
    """One request. digest: of all that makes its sound; micro: the service's own try-out;
    characters: of its text; began: its present turn; paused: it has spoken, and waits for the turn
    of its next piece; held: no turn now, because its caller does not read; turns, left: how many
    have been spoken, and how many are to come, which is known from the first pause on."""

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
    """Why a job may not come in. code: queue_full, too_late, deadly_input."""

    code: str
    retry_seconds: int = 0


@dataclass
class RequestQueue:
    """slots: how many speak at once; most: how many more may wait. A turn is one piece of a text:
    behind each, the next one waits at the end of the queue, so that none waits for whole texts.

    A free slot goes to the caller who has the fewest, among equals to the one whose last turn is
    longest ago; within a caller, to the request that waits longest. Any caller may take all places,
    `slots` + `most`. When they are taken, a caller that has less than an equal share of them comes
    in all the same, and the others come in again when they have less than theirs. So nothing that
    was taken in is thrown out, and N callers hold at most (`slots` + `most`) * (1 + 1/2 + ... 1/N)
    places, and N more.

    mean_seconds: of a turn; piece_characters: of a piece; last_turns: of each caller, as numbers
    that grow, in their order.
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
        """Whether a request that comes now would get no turn in time; it is asked to come back."""
        if self.deaths.get(digest, 0) >= DEADLY:
            return Rejection("deadly_input")
        # Those who are to come back keep no place empty where anybody could speak at once.
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
        """How many requests must leave before one of this caller finds a place. expected, others:
        how many of its own, and of other callers, come back for one before it."""
        here = [job.caller for job in (*self.speaking.values(), *self.queue) if not job.micro]
        places = self.slots + self.most
        share = max(1, places // len({caller, *here}))
        over_share = here.count(caller) + expected - share
        return min(len(here) + expected + others - places, over_share) + 1

    def retry_seconds(self, caller: str, now: float, patience_seconds: float) -> int:
        """When a refused request may be sent again: when as many of its own caller have ended as
        must, where each is followed by one that comes back in its place. Each gets a time of its
        own."""
        expected = self.returns.expected(caller, now)
        waits = list(self._waiting())
        few = sum(job.caller == caller for job in waits) + expected
        # The wait never grows by one who leaves.
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
        """How many turns it takes until so many have been spoken, each in its turn, when behind
        each that ends another one of usual length comes in."""
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
        """Seconds until a request of this caller that comes now begins to speak: those in front of
        it, a round of slots at a time. Another caller has as many turns before it as leave the two
        with equally many. more: how many more of its own are in front of it."""
        waits = Counter(job.caller for job in self._waiting())
        slots = Counter(job.caller for job in self.speaking.values())
        own = max(0, waits.pop(caller, 0) + more)
        last = own + 1 + slots[caller]
        ahead = own + sum(min(count, max(0, last - slots[one])) for one, count in waits.items())
        rounds = math.ceil((ahead + 1 - self.slots + len(self.speaking)) / self.slots)
        return max(0, rounds) * self._pace(now)

    def _waiting(self) -> Iterable[QueuedRequest]:
        """Those who take a turn as soon as they get it."""
        return (job for job in self.queue if not job.held)

    def _pace(self, now: float) -> float:
        """Seconds that a turn takes: as long as they took lately, or as long as those who speak
        have been at it, so that a machine that slows down is seen before anybody has finished."""
        began = [job.began for job in self.speaking.values() if job.began is not None]
        at_it = now - sum(began) / len(began) if began else 0.0
        return max(self.mean_seconds, at_it)

    def enter(self, job: QueuedRequest) -> None:
        """To the end of the queue; a try-out to its front."""
        self.returns.came(job.caller, job.arrived)
        if job.micro:
            self.queue.appendleft(job)
        else:
            self.queue.append(job)

    def expired(self, now: float) -> list[QueuedRequest]:
        """Takes out those whose time is up; they are never begun. Who has begun goes on."""
        late = [job for job in self.queue if now >= job.deadline and not job.paused]
        for job in late:
            self.queue.remove(job)
        return late

    def next(self, now: float) -> QueuedRequest | None:
        """Who begins now, if anybody may. Whoever was there when a child died speaks alone, so that
        the next death names one input."""
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
        """Who has left is remembered: callers who come and go, one text after another, are not new
        each time, or one who stays would never have a turn."""
        self.last_turns[caller] = max(self.last_turns.values(), default=0) + 1

    def pause(
        self, name: str, now: float, left: int, *, held: bool = False
    ) -> QueuedRequest | None:
        """A piece was spoken and others are left: back to the end of the queue."""
        job = self.speaking.pop(name, None)
        if job is not None:
            self._took(job, now)
            job.paused, job.held, job.left = True, held, left
            self._learn_length(job, left)
            self.queue.append(job)
        return job

    def suspect(self, job: QueuedRequest) -> bool:
        """Whether a child died while this input was spoken."""
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
        """Somebody has spoken to the end: no suspect any more, and a measure for those who wait."""
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
        """The child has died: everybody who spoke is out, and remembered. One death counts once for
        an input, however many spoke it. Who was between two pieces is out too, and no suspect: what
        was to come is lost with the child."""
        speaking = list(self.speaking.values())
        self.speaking.clear()
        for digest in dict.fromkeys(job.digest for job in speaking if not job.micro):
            self.deaths[digest] = self.deaths.get(digest, 0) + 1
        paused = [job for job in self.queue if job.paused]
        self.queue = deque(job for job in self.queue if not job.paused)
        return speaking + paused


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


def no_refusal(no: Rejection, limits: EngineLimits) -> APIError:
    """Why a request is not taken in."""
    if no.code == "deadly_input":
        text = "This input ended the speaking process twice, so it is refused."
        return APIError(422, no.code, text, param="input")
    if no.code == "too_late":
        text = f"The queue is too long for a turn within {limits.deadline:g} s."
    else:
        text = f"{limits.queue} requests already wait, and this caller has its share of the queue."
    return APIError(503, no.code, text, retry_after=no.retry_seconds)
