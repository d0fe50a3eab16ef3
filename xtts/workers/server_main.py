"""The speech server's process: speaks many requests at once for the service, in turns.

Its messages, in addition to those of every child (`xtts.workers.child`):
    {do: open, id, key, voice: {name, base, …}}        -> opened (licence, languages, …) | failed
    {do: close, key}                                   takes effect when no request uses the voice
    {do: serve, key, slots}                            the voice of requests whose key is null, and
                                                       how many requests may speak at once
    {do: speak, id, key | null, caller, suspect, recording | null, micro,
     ask: {text, language, seed, …}, cast: {name: recording | null, …}}
                              -> turn, sound …, paused, turn, …, done | failed | cancelled
                 It waits here for its turns (`Turns`): a turn is one piece.
                 suspect: names an input during which an earlier process ended, or ""
                 recording: of a person, or the folder of an adapter
                 cast: the voices that the text changes to; null is the open voice's own
                 micro: the service's test word, which needs no recording
    {do: hold, id}, {do: resume, id}                   no turn while the caller does not read
    {do: forget, recording}                            drops the voice of a deleted recording
    {do: cancel, id}                                   -> cancelled, unless the request is over
The child also sends {say: alive} every second.
"""

import argparse
import json
import os
import queue
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from machine.devices.recovery import exit_after_fault
from machine.storage.files import JsonObject
from xtts.workers import child
from xtts.workers.child import Say

if TYPE_CHECKING:
    from xtts.workers.server import Frame, SpeechServer

# A `speak` message.
Message = JsonObject
_MAX_REMEMBERED_CALLERS = 1024
# None marks the end of the messages.
Inbox = queue.SimpleQueue["Message | None"]

ALIVE_SECONDS = 1.0
# How often to check for an opened voice or a read recording while no request is active.
_POLL_SECONDS = 0.01


def main(new_server: "Callable[[argparse.Namespace], SpeechServer] | None" = None) -> int:
    """Speaks until stdin is closed. Returns 70 after a device fault."""
    parser = argparse.ArgumentParser(description="Speaks for a service; not for people.")
    parser.add_argument("--slots", type=int, default=4)

    def serve(arguments: argparse.Namespace, say: Say) -> None:
        inbox: Inbox = queue.SimpleQueue()
        threading.Thread(target=_read_messages, args=(inbox,), name="requests", daemon=True).start()
        server = (new_server or _new_server)(arguments)
        say({"say": "ready"})
        _serve(server, inbox, say, arguments.slots)

    return child.run(parser, serve, quotes_texts=True)


class Turns:
    """The requests that the service has admitted, and which of them speaks next. No method waits or
    computes speech.

    A turn is one piece of a text. After it, the request waits for its next turn at the end of the
    queue, so no request waits for whole texts of others.

    A free slot goes to the caller with the fewest slots. Among equals it goes to the caller whose
    last turn is the oldest, and within a caller to the request that has waited longest.

    Attributes:
        slots: The number of requests that speak at once.
        served: The key of the voice of requests without their own; "" while none is served.
        queue: The waiting requests.
        speaking: The requests that have a slot, by id.
    """

    def __init__(self, slots: int) -> None:
        self.slots, self.served = slots, ""
        self.queue: deque[Message] = deque()
        self.speaking: dict[str, Message] = {}
        # Ids of the requests that have begun.
        self._begun = set[str]()
        # Ids of the requests whose callers do not read.
        self._held = set[str]()
        # Inputs during which an earlier process ended.
        self._suspects = set[str]()
        # The number of each caller's last turn. It is kept for callers that have left: one that sends
        # one text after another would otherwise be new each time, and starve a caller that stays.
        self._last_turns = OrderedDict[str, int]()

    def __iter__(self) -> Iterator[Message]:
        yield from (*self.speaking.values(), *self.queue)

    def enter(self, message: Message) -> None:
        """Adds a request to the end of the queue; the self-test goes to the front."""
        if suspect := message.get("suspect"):
            self._suspects.add(suspect)
        if message.get("micro"):
            self.queue.appendleft(message)
        else:
            self.queue.append(message)

    def hold(self, name: str) -> None:
        """Gives a request no turn until `resume`, because its caller does not read."""
        if any(message["id"] == name for message in self):
            self._held.add(name)

    def resume(self, name: str) -> None:
        """Ends `hold`."""
        self._held.discard(name)

    def next(self) -> Message | None:
        """The message that begins the next turn, `speak` or `go_on`; None if there is none now.

        A request during which an earlier process ended speaks alone, so that the next death
        identifies one input.
        """
        waiting = [message for message in self.queue if self._may_speak(message)]
        if not waiting or len(self.speaking) >= self.slots:
            return None
        slots_of_caller = Counter(map(_caller, self.speaking.values()))
        request = min(
            waiting,
            key=lambda message: (
                not message.get("micro"),
                slots_of_caller[_caller(message)],
                self._last_turns.get(_caller(message), 0),
            ),
        )
        if self.speaking and any(map(self._is_suspect, (request, *self.speaking.values()))):
            return None
        self.queue.remove(request)
        self.speaking[request["id"]] = request
        self._last_turns[_caller(request)] = max(self._last_turns.values(), default=0) + 1
        self._last_turns.move_to_end(_caller(request))
        if len(self._last_turns) > _MAX_REMEMBERED_CALLERS:
            self._last_turns.popitem(last=False)
        if request["id"] in self._begun:
            return {"do": "go_on", "id": request["id"]}
        self._begun.add(request["id"])
        return {**request, "key": request.get("key") or self.served}

    def pause(self, name: str) -> None:
        """Moves a request that has spoken a piece and has more to the end of the queue."""
        if (request := self.speaking.pop(name, None)) is not None:
            self.queue.append(request)

    def drop(self, name: str) -> bool:
        """Removes a request that has not begun; returns whether there was one."""
        is_waiting = name not in self._begun and any(message["id"] == name for message in self.queue)
        if is_waiting:
            self.leave(name)
        return is_waiting

    def leave(self, name: str, *, is_spoken: bool = False) -> None:
        """Removes a request. The input of one that is completely spoken is no longer a suspect."""
        if (request := next((message for message in self if message["id"] == name), None)) is None:
            return
        if self.speaking.pop(name, None) is None:
            self.queue.remove(request)
        self._begun.discard(name)
        self._held.discard(name)
        if is_spoken:
            self._suspects.discard(request.get("suspect", ""))

    def _may_speak(self, request: Message) -> bool:
        return request["id"] not in self._held and bool(request.get("key") or self.served)

    def _is_suspect(self, request: Message) -> bool:
        return request.get("suspect", "") in self._suspects


def _caller(request: Message) -> str:
    return str(request.get("caller", ""))


def _serve(server: "SpeechServer", inbox: Inbox, say: Say, slots: int) -> None:
    """Takes messages between steps, until the end of the inbox."""
    reported_at, turns = 0.0, Turns(slots)
    while True:
        for message in _available_messages(inbox, _wait_seconds(server)):
            if message is None:
                return
            _send(_handle(message, server, turns), turns, say)
        _begin_turns(server, turns, say)
        _send(server.step(), turns, say)
        _begin_turns(server, turns, say)  # slots that the step freed: the next wait may be long
        if time.monotonic() - reported_at >= ALIVE_SECONDS:
            say({"say": "alive"})
            reported_at = time.monotonic()


def _handle(message: Message, server: "SpeechServer", turns: Turns) -> "Iterable[Frame]":
    """Handles a message: in the queue if it concerns only the queue, else in the server."""
    do, name = message["do"], message.get("id", "")
    if do == "cancel" and turns.drop(name):
        return [({"say": "cancelled", "id": name}, b"")]
    if do == "speak":
        turns.enter(message)
    elif do == "serve":
        turns.served, turns.slots = message["key"], message["slots"]
    elif do == "hold":
        turns.hold(name)
    elif do == "resume":
        turns.resume(name)
    else:
        return server.take(message)
    return ()


def _begin_turns(server: "SpeechServer", turns: Turns, say: Say) -> None:
    while (message := turns.next()) is not None:
        say({"say": "turn", "id": message["id"]})
        _send(server.take(message), turns, say)


def _send(frames: "Iterable[Frame]", turns: Turns, say: Say) -> None:
    """Sends answers, and updates the queue by them."""
    for header, sound in frames:
        if header["say"] == "paused":
            turns.pause(header["id"])
        elif header["say"] in ("done", "failed", "cancelled"):
            turns.leave(header.get("id", ""), is_spoken=header["say"] == "done")
        say(header, sound)


def _wait_seconds(server: "SpeechServer") -> float:
    """The seconds to wait for a message before the next step."""
    if server.busy:
        return 0.0
    return _POLL_SECONDS if server.waiting else ALIVE_SECONDS


def _available_messages(inbox: Inbox, wait_seconds: float) -> Iterator[Message | None]:
    """The available messages; waits up to `wait_seconds` for the first."""
    try:
        yield inbox.get(block=wait_seconds > 0, timeout=wait_seconds or None)
        while True:
            yield inbox.get_nowait()
    except queue.Empty:
        return


def _read_messages(inbox: Inbox) -> None:
    """Puts the messages of stdin into the inbox until stdin is closed."""
    try:
        with os.fdopen(os.dup(0), "rb") as messages:
            for line in messages:
                inbox.put(json.loads(line))
    finally:
        inbox.put(None)


def _new_server(arguments: argparse.Namespace) -> "SpeechServer":
    from xtts.workers.server import SpeechServer

    arguments.compute.apply()
    return SpeechServer(arguments.compute, arguments.slots)


if __name__ == "__main__":
    exit_after_fault(main())
