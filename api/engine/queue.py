"""The request queue: bounded, with deadlines, fair between pieces; inputs that killed a process.

Pure: the time is given, nothing is waited for.
"""

import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field

# What a request takes before any has been seen, in seconds.
FIRST_GUESS_SECONDS = 2.0
_FORGETTING = 0.2
_KEPT_SUSPECTS = 1024
DEADLY = 2


@dataclass(eq=False)
class QueuedRequest:
    """One request. digest: of all that makes its sound; micro: the service's own try-out; began:
    its present turn; paused: it has spoken, and waits for the turn of its next piece."""

    name: str
    digest: str
    arrived: float
    deadline: float
    micro: bool = False
    began: float | None = None
    paused: bool = False


@dataclass(frozen=True)
class Rejection:
    """Why a job may not come in. code: queue_full, too_late, deadly_input."""

    code: str
    retry_seconds: int = 0


@dataclass
class RequestQueue:
    """slots: how many speak at once; most: how many more may wait. A turn is one piece of a text:
    behind each, the next one waits at the end of the queue, so that none waits for whole texts.
    mean_seconds: of a turn."""

    slots: int
    most: int
    queue: deque[QueuedRequest] = field(default_factory=deque)
    speaking: dict[str, QueuedRequest] = field(default_factory=dict)
    deaths: OrderedDict[str, int] = field(default_factory=OrderedDict)
    mean_seconds: float = FIRST_GUESS_SECONDS

    def refused(self, digest: str, now: float, deadline: float) -> Rejection | None:
        """Whether a request that comes now would be served in time."""
        if self.deaths.get(digest, 0) >= DEADLY:
            return Rejection("deadly_input")
        if len(self.queue) >= self.most:
            return Rejection("queue_full", self.retry_seconds(now))
        if now + self.expected_wait(now) > deadline:
            return Rejection("too_late", self.retry_seconds(now))
        return None

    def retry_seconds(self, now: float) -> int:
        """When a refused request may be sent again."""
        return math.ceil(max(1.0, self.expected_wait(now)))

    def expected_wait(self, now: float) -> float:
        """Seconds until somebody who comes now begins to speak: those in front of him, a round of
        slots at a time."""
        ahead = len(self.queue) + len(self.speaking) + 1 - self.slots
        return max(0, math.ceil(ahead / self.slots)) * self._pace(now)

    def _pace(self, now: float) -> float:
        """Seconds that a turn takes: as long as they took lately, or as long as those who speak
        have been at it, so that a machine that slows down is seen before anybody has finished."""
        began = [job.began for job in self.speaking.values() if job.began is not None]
        at_it = now - sum(began) / len(began) if began else 0.0
        return max(self.mean_seconds, at_it)

    def enter(self, job: QueuedRequest) -> None:
        """To the end of the queue; a try-out to its front."""
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
        if not self.queue or len(self.speaking) >= self.slots:
            return None
        job = self.queue[0]
        alone = self.suspect(job) or any(map(self.suspect, self.speaking.values()))
        if alone and self.speaking:
            return None
        self.queue.popleft()
        job.began = now
        self.speaking[job.name] = job
        return job

    def pause(self, name: str, now: float) -> QueuedRequest | None:
        """A piece was spoken and others are left: back to the end of the queue."""
        job = self.speaking.pop(name, None)
        if job is not None:
            self._took(job, now)
            job.paused = True
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
        return job

    def _took(self, job: QueuedRequest, now: float) -> None:
        if job.began is not None:
            self.mean_seconds += _FORGETTING * (now - job.began - self.mean_seconds)

    def died(self) -> list[QueuedRequest]:
        """The child has died: everybody who spoke is out, and remembered. One death counts once for
        an input, however many spoke it. Who was between two pieces is out too, and no suspect: what
        was to come is lost with the child."""
        speaking = list(self.speaking.values())
        self.speaking.clear()
        for digest in dict.fromkeys(job.digest for job in speaking if not job.micro):
            self.deaths[digest] = self.deaths.pop(digest, 0) + 1
        while len(self.deaths) > _KEPT_SUSPECTS:
            self.deaths.popitem(last=False)
        paused = [job for job in self.queue if job.paused]
        self.queue = deque(job for job in self.queue if not job.paused)
        return speaking + paused
