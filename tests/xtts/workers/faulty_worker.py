"""The worker that speaks files, with faults chosen by SOTAQUE_WORKER_FAULT."""

import argparse
import os
import signal
import time
from typing import Any

from machine.devices.recovery import exit_after_fault
from xtts.workers import file_worker
from xtts.workers.requests import Answer, ReportProgress, Request, no_progress
from xtts.workers.tasks import FileSpeaker


def injected_fault() -> None:
    """Fails as SOTAQUE_WORKER_FAULT says: a signal's name, `hang`, `memory`, `gpu memory`, a CUDA
    error's number, `nan` for a vocoder whose output is NaN, or the text of an error."""
    kind = os.environ.get("SOTAQUE_WORKER_FAULT", "")
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


def _no_number(module: Any, _given: Any, output: Any) -> Any:
    return output * float("nan") if type(module).__name__ == "HifiganGenerator" else None


class FaultySpeaker(FileSpeaker):
    """A speaker that fails at each request."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        arguments.compute.apply()
        super().__init__(arguments.base, arguments.compute, keep_weights=arguments.keep_weights)

    def ask(self, request: Request[Answer], progress: ReportProgress = no_progress) -> Answer:
        injected_fault()
        return super().ask(request, progress)


if __name__ == "__main__":
    exit_after_fault(file_worker.main(FaultySpeaker))
