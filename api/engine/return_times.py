"""When refused requests were asked to come back: no two of a caller for the same place."""

import bisect
from collections import OrderedDict
from dataclasses import dataclass, field

# A caller that does not come within these seconds of its time is not expected any more.
_LATE_SECONDS = 5.0
_SOON_SECONDS = 5.0
_MOST_CALLERS = 1024
_MOST_TIMES = 1024


@dataclass
class ReturnTimes:
    """The times of each caller, in the order in which they were given; the time is passed in."""

    _times: OrderedDict[str, list[float]] = field(default_factory=OrderedDict)

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
        times = self._times.setdefault(caller, [])
        if len(times) < _MOST_TIMES:
            bisect.insort(times, at)
        self._times.move_to_end(caller)
        if len(self._times) > _MOST_CALLERS:
            self._times.popitem(last=False)

    def came(self, caller: str, now: float) -> None:
        """A request came: where one was due, it is not expected any more."""
        times = self._times.get(caller, [])
        if times and times[0] <= now:
            times.pop(0)
