"""The speech server's process: speaks many requests at once for the service.

Its messages, in addition to those of every child (`xtts.workers.child`):
    {do: open, id, key, voice: {name, base, …}}        -> opened (licence, languages, …) | failed
    {do: close, key}                                   takes effect when no request uses the voice
    {do: speak, id, key, recording | null, micro, ask: {text, language, seed, …},
     cast: {name: recording | null, …}}                -> sound …, done | failed | cancelled, or
                                                          paused between two pieces of a long text,
                                                          which frees its slot
                 recording: of a person, or the folder of an adapter
                 cast: the voices that the text changes to; null is the open voice's own
                 micro: the service's test word, which needs no recording
    {do: go_on, id}                                    speaks the next piece of a paused request
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
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from machine.devices.recovery import exit_after_fault
from xtts.workers import child
from xtts.workers.child import Say

if TYPE_CHECKING:
    from xtts.workers.server import SpeechServer

# None marks the end of the messages.
Inbox = queue.SimpleQueue["dict[str, Any] | None"]

ALIVE_SECONDS = 1.0
# How often to check for an opened voice or a read recording while no request is active.
_LOOK_SECONDS = 0.01


def main(new_server: "Callable[[argparse.Namespace], SpeechServer] | None" = None) -> int:
    """Speaks until stdin is closed. Returns 70 after a device fault."""
    parser = argparse.ArgumentParser(description="Speaks for a service; not for people.")
    parser.add_argument("--slots", type=int, default=4)

    def serve(arguments: argparse.Namespace, say: Say) -> None:
        inbox: Inbox = queue.SimpleQueue()
        threading.Thread(target=_pump, args=(inbox,), name="requests", daemon=True).start()
        server = (new_server or _server)(arguments)
        say({"say": "ready"})
        _serve(server, inbox, say)

    return child.run(parser, serve, quotes_texts=True)


def _serve(server: "SpeechServer", inbox: Inbox, say: Say) -> None:
    """Takes messages between steps, until the end of the inbox."""
    reported_at = 0.0
    while True:
        for message in _arrived(inbox, _patience(server)):
            if message is None:
                return
            for answer in server.take(message):
                say(*answer)
        for answer in server.step():
            say(*answer)
        if time.monotonic() - reported_at >= ALIVE_SECONDS:
            say({"say": "alive"})
            reported_at = time.monotonic()


def _patience(server: "SpeechServer") -> float:
    """The seconds to wait for a message before the next step."""
    if server.busy:
        return 0.0
    return _LOOK_SECONDS if server.waiting else ALIVE_SECONDS


def _arrived(inbox: Inbox, patience: float) -> Iterator[dict[str, Any] | None]:
    """The available messages; waits up to `patience` seconds for the first."""
    try:
        yield inbox.get(block=patience > 0, timeout=patience or None)
        while True:
            yield inbox.get_nowait()
    except queue.Empty:
        return


def _pump(inbox: Inbox) -> None:
    try:
        with os.fdopen(os.dup(0), "rb") as messages:
            for line in messages:
                inbox.put(json.loads(line))
    finally:
        inbox.put(None)


def _server(arguments: argparse.Namespace) -> "SpeechServer":
    from xtts.workers.server import SpeechServer

    arguments.compute.apply()
    return SpeechServer(arguments.compute, arguments.slots)


if __name__ == "__main__":
    exit_after_fault(main())
