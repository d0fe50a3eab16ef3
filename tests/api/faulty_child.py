"""The real speaking child with the embedded voice, which says that it is where it was told to be
and computes on the CPU; the texts of `tests.api.fake_child` make it fail there as a GPU does."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tests.api.fake_child import CUFFT, AcceleratorError, OutOfMemoryError
from xtts.workers import server_main
from xtts.workers.server import SpeechServer

FAULTS = {
    "!cufft": RuntimeError(CUFFT),
    "!710": AcceleratorError("CUDA error: device-side assert triggered"),
    "!memory": OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
}


class FaultyEnsemble(SpeechServer):
    """Fails at the first step after such a text was taken."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        super().__init__(
            replace(arguments.compute, device="cpu", mel_device="cpu"), arguments.slots
        )
        self.claimed = arguments.compute.device
        self._fault: RuntimeError | None = None

    def take(self, message: Mapping[str, Any], body: bytes) -> Iterator[bytes]:
        if message["do"] == "speak" and message["ask"]["text"] in FAULTS:
            self._fault = FAULTS[message["ask"]["text"]]
        return super().take(message, body)

    def step(self) -> Iterator[bytes]:
        if self._fault is not None and self.claimed != "cpu":
            raise self._fault
        return super().step()


if __name__ == "__main__":
    sys.exit(server_main.main(FaultyEnsemble))
