"""The isolated worker process: loads a base model, speaks request after request.

The other side of `xtts.workers.file_worker`. Imports and frozen parts are loaded before the first
request; of a checkpoint only the learning part is read.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol

from pydantic import TypeAdapter

from machine.devices.cuda_errors import GpuLost, exit_after_fault
from machine.errors import SotaqueError
from machine.memory import limit_onednn_cache
from machine.process import die_with_parent, reserve_stdout, write_json_line
from machine.storage.hashes import HashedFile, trust_cached_hash
from machine.threads import set_omp_passive
from xtts.workers.failures import answer_of
from xtts.workers.file_evaluation import EvaluateRequest, ListenRequest, TrialRequest
from xtts.workers.file_synthesis import SpeakRequest, SpokenFile
from xtts.workers.speaker_learning import LearnSpeakerRequest

# The verb is the name of the speaker's method.
_REQUESTS: dict[str, Any] = {
    "speak": SpeakRequest, "evaluate": EvaluateRequest, "listen": ListenRequest,
    "learn_speaker": LearnSpeakerRequest, "trial": TrialRequest,
}  # fmt: skip


class SpeaksFiles(Protocol):
    """What `serve` asks of `xtts.workers.file_synthesis.FileSpeaker`: a method for each verb."""

    def speak(self, request: SpeakRequest) -> SpokenFile: ...


def main(new_speaker: Callable[[argparse.Namespace], SpeaksFiles] | None = None) -> int:
    """Speaks until stdin is closed; exit 2 when the base model cannot be loaded, 70 after a fault
    of the device."""
    arguments = _arguments()
    die_with_parent(arguments.parent)
    set_omp_passive()
    limit_onednn_cache()
    os.nice(arguments.nice)
    answers = reserve_stdout()
    try:
        speaker = (new_speaker or _speaker)(arguments)
    except Exception as error:
        answer = answer_of(error, arguments.device)
        if answer is None:
            raise
        write_json_line(answers, answer)
        return error.exit_code if isinstance(error, SotaqueError) else GpuLost.exit_code
    write_json_line(answers, {"ok": True})
    return serve(speaker, sys.stdin, answers, arguments.device)


def serve(speaker: SpeaksFiles, requests: IO[str], answers: BinaryIO, device: str) -> int:
    """One answer per request. A refusal is an answer; a fault of the device is the last one: the
    next process has a context of its own. Any other error ends the process."""
    for line in requests:
        asked = json.loads(line)
        told, verb = asked.pop("hashed", None), asked.pop("verb", "speak")
        if told:
            trust_cached_hash(Path(asked["weights"]), HashedFile(**told))
        try:
            injected_fault(os.environ.get("SOTAQUE_WORKER_FAULT", ""))
            request = TypeAdapter(_REQUESTS[verb]).validate_python(asked)
            answer = {"ok": True, **asdict(getattr(speaker, verb)(request))}
        except Exception as error:
            told = answer_of(error, device)
            if told is None:
                raise
            answer = told
        write_json_line(answers, answer)
        if "fault" in answer:
            return GpuLost.exit_code
    return 0


def injected_fault(kind: str) -> None:
    """Fails as the tests wish: a signal's name, `hang`, `memory`, `gpu memory`, a CUDA error's
    number, `nan` for a vocoder whose output is NaN, or the text of an error."""
    if not kind:
        return
    if kind.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[kind])
    if kind == "hang":
        time.sleep(3600)
    if kind == "memory":
        raise MemoryError
    if kind not in ("nan", "gpu memory") and not kind.isdigit():
        raise RuntimeError(kind)
    import torch

    if kind == "nan":
        torch.nn.modules.module.register_module_forward_hook(_no_number)
        return
    if kind == "gpu memory":
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    error = torch.AcceleratorError(f"CUDA error: number {kind}\nCUDA kernel errors might be …")
    error.error_code = int(kind)  # type: ignore[attr-defined]
    raise error


def _no_number(module: Any, _given: Any, found: Any) -> Any:
    return found * float("nan") if type(module).__name__ == "HifiganGenerator" else None


def _speaker(arguments: argparse.Namespace) -> SpeaksFiles:
    import torch

    from xtts.workers.file_synthesis import FileSpeaker

    torch.backends.cudnn.enabled = arguments.cudnn
    return FileSpeaker(
        arguments.base, arguments.device, arguments.threads, keep_weights=arguments.keep_weights,
        mel_device=arguments.mel_device, precision=arguments.precision, guard=arguments.guard,
    )  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m xtts.workers.file_worker_main", description=__doc__
    )
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--mel-device", default="cpu")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--no-cudnn", dest="cudnn", action="store_false")
    parser.add_argument("--no-guard", dest="guard", action="store_false")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--keep-weights", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    exit_after_fault(main())
