"""The speech server's process: reads frames from stdin, writes sound to stdout.

A frame is a JSON header, then bytes:
    header length, body length     two unsigned 32-bit numbers, big endian
    header                         UTF-8 JSON, an object
    body                           sound, or nothing
Nothing in it can run: no pickle. Lengths are checked before anything is read. The other workers
speak JSON lines (`machine.process.JsonLineProcess`), a question and an answer at a time; here sound
is bytes, many requests are under way at once, and the child also speaks unasked.

On stdin:
    {do: open, id, key, voice: {name, base, …}}        -> opened (licence, languages, …) | failed
    {do: close, key}                                   when no request uses it any more
    {do: speak, id, key, recording | null, micro, ask: {text, language, seed, …},
     cast: {name: recording | null, …}}                -> sound …, done | failed | cancelled
                 recording: of a person, or the folder of an adapter
                 cast: the voices that the text changes to; null is the open voice's own
                 micro: the service's own test word; without a recording it is spoken by no voice
                 paused instead, between two pieces of a long text: its slot is free for another;
                 left: how many pieces are still to be spoken
    {do: go_on, id}                                    the next piece of what has paused
    {do: listen, id, key, recording}                   -> heard | failed
    {do: forget, recording}                            of a voice that was deleted
    {do: cancel, id}                                   -> cancelled, unless it is over
and on stdout, besides those: {say: ready} once, {say: alive} every second, and {say: fault} as the
last word before exit 70 when the device computes no more. stdin's end ends it; so does its
parent's death. Other libraries' prints go to stderr.
"""

import argparse
import json
import os
import queue
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from machine.devices.cuda_errors import GpuLost, exit_after_fault
from machine.errors import SotaqueError
from machine.memory import limit_onednn_cache
from machine.process import die_with_parent, reserve_stdout
from machine.threads import limit_omp_spinning
from xtts.inference.compute_config import ComputeConfig
from xtts.workers.failures import answer_of, place_of

if TYPE_CHECKING:
    from xtts.workers.server import SpeechServer

PREFIX = struct.Struct(">II")
MOST_HEADER_BYTES = 1 << 20
MOST_BODY_BYTES = 1 << 26
ALIVE_SECONDS = 1.0
# How soon an opened voice, or a read recording, is noticed while no request is active.
_LOOK_SECONDS = 0.01


def main(new_speaker: "Callable[[argparse.Namespace], SpeechServer] | None" = None) -> int:
    """Speaks until stdin is closed; exit 70 after a fault of the device."""
    arguments = _arguments()
    die_with_parent(arguments.parent)
    limit_omp_spinning()
    limit_onednn_cache()
    answers = reserve_stdout()
    inbox: queue.SimpleQueue[tuple[dict[str, Any], bytes] | None] = queue.SimpleQueue()
    requests = os.fdopen(os.dup(0), "rb")
    threading.Thread(target=_pump, args=(requests, inbox), name="requests", daemon=True).start()
    device = arguments.compute.device
    try:
        speaker = (new_speaker or _ensemble)(arguments)
        device = speaker.device
        answers.write(packed({"say": "ready", "pid": os.getpid()}))
        answers.flush()
        serve(speaker, inbox, answers)
    except BrokenPipeError:  # the parent has gone
        return 0
    except Exception as error:
        return _last_word(answers, error, device)
    return 0


def serve(
    speaker: "SpeechServer",
    inbox: "queue.SimpleQueue[tuple[dict[str, Any], bytes] | None]",
    answers: BinaryIO,
) -> None:
    """Messages between two steps, until the end of the inbox."""
    reported_at = 0.0
    while True:
        for arrived in _arrived(inbox, _patience(speaker)):
            if arrived is None:
                return
            for frame in speaker.take(arrived[0]):
                answers.write(packed(*frame))
        for frame in speaker.step():
            answers.write(packed(*frame))
        if time.monotonic() - reported_at >= ALIVE_SECONDS:
            answers.write(packed({"say": "alive"}))
            reported_at = time.monotonic()
        answers.flush()


def _patience(speaker: "SpeechServer") -> float:
    """How long a message is waited for before the next step."""
    if speaker.busy:
        return 0.0
    return _LOOK_SECONDS if speaker.waiting else ALIVE_SECONDS


def _arrived(
    inbox: "queue.SimpleQueue[tuple[dict[str, Any], bytes] | None]", patience: float
) -> Iterator[tuple[dict[str, Any], bytes] | None]:
    """What is there now; the first is waited for as long as `patience`."""
    try:
        yield inbox.get(block=patience > 0, timeout=patience or None)
        while True:
            yield inbox.get_nowait()
    except queue.Empty:
        return


def _pump(
    requests: BinaryIO, inbox: "queue.SimpleQueue[tuple[dict[str, Any], bytes] | None]"
) -> None:
    try:
        while (frame := read(requests)) is not None:
            inbox.put(frame)
    finally:
        inbox.put(None)


def _last_word(answers: BinaryIO, error: Exception, device: str) -> int:
    """Tells a fault of the device and ends with its code; any other error is a crash, of which only
    kind and place go to stderr."""
    answer = answer_of(error, device)
    if answer is None:
        for frame in traceback.extract_tb(error.__traceback__):
            sys.stderr.write(f"  {frame.filename}:{frame.lineno} in {frame.name}\n")
        sys.stderr.write(place_of(error) + "\n")
        return 1
    answers.write(packed({"say": "fault", **answer}))
    answers.flush()
    return error.exit_code if isinstance(error, SotaqueError) else GpuLost.exit_code


def _ensemble(arguments: argparse.Namespace) -> "SpeechServer":
    from xtts.workers.server import SpeechServer

    arguments.compute.apply()
    return SpeechServer(arguments.compute, arguments.slots)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Speaks for a service; not for people.")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--slots", type=int, default=4)
    ComputeConfig.add_argument(parser)
    return parser.parse_args()


# ---- frames ----


class FrameError(SotaqueError):
    """The data on the pipe is not a frame."""


def packed(header: Mapping[str, Any], body: bytes = b"") -> bytes:
    """One frame as bytes."""
    text = json.dumps(header, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return PREFIX.pack(len(text), len(body)) + text + body


def lengths(prefix: bytes) -> tuple[int, int]:
    """Header and body length. Raises FrameError for a length that no frame has."""
    header, body = PREFIX.unpack(prefix)
    if not 2 <= header <= MOST_HEADER_BYTES or body > MOST_BODY_BYTES:
        raise FrameError(f"A frame declares {header:,} and {body:,} bytes, which is not allowed.")
    return header, body


def header_of(text: bytes) -> dict[str, Any]:
    """The header's object. Raises FrameError for anything else."""
    try:
        header = json.loads(text.decode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise FrameError(f"The header of a frame is not JSON ({error}).") from error
    if not isinstance(header, dict):
        raise FrameError("The header of a frame is not a JSON object.")
    return header


def read(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """The next frame; None at the end of the stream, also in the middle of a frame."""
    prefix = stream.read(PREFIX.size)
    if len(prefix) < PREFIX.size:
        return None
    header, body = lengths(prefix)
    text, rest = stream.read(header), stream.read(body)
    if len(text) < header or len(rest) < body:
        return None
    return header_of(text), rest


if __name__ == "__main__":
    exit_after_fault(main())
