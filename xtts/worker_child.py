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
from pathlib import Path
from typing import IO, Any

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Speaks until stdin is closed."""
    arguments = _arguments()
    die_with(arguments.parent)
    os.nice(arguments.nice)
    # A copy of fd 1 for the answers; whatever else is printed must not break the protocol.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    speaker = Speaker(arguments.base, arguments.device, arguments.threads)
    answers.write(json.dumps({"ready": True}) + "\n")
    serve(speaker, sys.stdin, answers)
    return 0


def serve(speaker: "Speaker", requests: IO[str], answers: IO[str]) -> None:
    """One answer per request. A fault with a sentence is an answer; any other ends the process."""
    from xtts.errors import SotaqueError

    for line in requests:
        request = json.loads(line)
        try:
            answer = {"ok": True, **speaker.speak(request)}
        except SotaqueError as error:
            answer = {"ok": False, "reason_code": "refused", "reason": str(error)}
        answers.write(json.dumps(answer) + "\n")


def die_with(parent: int) -> None:
    """Has the kernel kill this process when its parent dies, in whatever way."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)


class Speaker:
    """A model in this process, with the weights of the last request."""

    def __init__(self, base: Path, device: str, threads: int | None) -> None:
        import torch

        if threads:
            torch.set_num_threads(threads)
        from xtts import model

        self.device = device
        self._base = base
        self._weights: tuple[str, int] | None = None
        self._model = model.load(base, device)

    def speak(self, request: dict[str, Any]) -> dict[str, Any]:
        """Speaks one request into its file; the fields of `xtts.worker.Spoken`."""
        from xtts import audio, synthesis, voice

        started = time.perf_counter()
        self._take(request["weights"])
        reference = audio.read(Path(request["reference"]), audio.CODE_RATE)
        whose = voice.from_reference(self._model, reference)
        waveform = synthesis.speak(
            self._model, whose, request["text"], request["language"], seed=request["seed"]
        )
        audio.write_wav(Path(request["out"]), waveform)
        likeness = voice.similarity(
            self._model, waveform, audio.VOCODER_RATE, reference, audio.CODE_RATE
        )
        return {
            "seconds": time.perf_counter() - started,
            "audio_seconds": len(waveform) / audio.VOCODER_RATE,
            "device": self.device,
            "similarity": likeness,
        }

    def _take(self, weights: str | None) -> None:
        """Loads the learning part of a checkpoint; None is the base's own."""
        from xtts import model, runs

        key = (weights, os.stat(weights).st_mtime_ns) if weights else None
        if key == self._weights:
            return
        if weights:
            self._model.load_gpt(runs.read_checkpoint(Path(weights)).model)
        else:
            self._model.load_gpt(model.read_tensors(self._base / "model.pth"))
        self._weights = key


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m xtts.worker_child", description=__doc__)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--parent", type=int, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
