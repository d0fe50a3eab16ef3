"""The worker process: loads a base model, then speaks what its parent asks, line by line.

stdout belongs to the protocol: what libraries print goes to stderr. Imports and frozen parts are
loaded before the first request; of a checkpoint only the learning part is read.
"""

import argparse
import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Protocol

from xtts.errors import SotaqueError
from xtts.speaking import SpeakRequest, Spoken
from xtts.threads import wait_asleep

_PR_SET_PDEATHSIG = 1


class Speaks(Protocol):
    """What `serve` asks of `xtts.speaking.Speaker`."""

    def speak(self, request: SpeakRequest) -> Spoken: ...


def main(new_speaker: Callable[[argparse.Namespace], Speaks] | None = None) -> int:
    """Speaks until stdin is closed; exit 2 when the base model cannot be loaded."""
    arguments = _arguments()
    die_with(arguments.parent)
    wait_asleep()
    os.nice(arguments.nice)
    # A copy of fd 1 for the answers; whatever else is printed must not break the protocol.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        speaker = (new_speaker or _speaker)(arguments)
    except SotaqueError as error:
        _write(answers, _refusal(error))
        return error.exit_code
    _write(answers, {"ok": True})
    serve(speaker, sys.stdin, answers)
    return 0


def serve(speaker: Speaks, requests: IO[str], answers: IO[str]) -> None:
    """One answer per request. A fault with a sentence is an answer; any other ends the process."""
    for line in requests:
        request = json.loads(line)
        for name in ("reference", "out", "weights"):
            request[name] = Path(request[name]) if request[name] else None
        try:
            injected_fault(os.environ.get("SOTAQUE_WORKER_FAULT", ""))
            answer = {"ok": True, **asdict(speaker.speak(SpeakRequest(**request)))}
        except SotaqueError as error:
            answer = _refusal(error)
        _write(answers, answer)


def die_with(parent: int) -> None:
    """Has the kernel kill this process when its parent dies, in whatever way.

    The parent is the thread that started this process (prctl(2)): it must live as long.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)


def injected_fault(kind: str) -> None:
    """Fails as the tests wish: a signal's name, `hang`, `memory`, or the text of an error."""
    if not kind:
        return
    if kind.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[kind])
    if kind == "hang":
        time.sleep(3600)
    if kind == "memory":
        raise MemoryError
    raise RuntimeError(kind)


def _speaker(arguments: argparse.Namespace) -> Speaks:
    from xtts.speaking import Speaker

    return Speaker(
        arguments.base, arguments.device, arguments.threads, keep_weights=arguments.keep_weights
    )


def _refusal(error: SotaqueError) -> dict[str, Any]:
    return {"ok": False, "reason_code": "refused", "reason": str(error)}


def _write(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m xtts.worker_child", description=__doc__)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--keep-weights", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
