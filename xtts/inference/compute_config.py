"""ComputeConfig: how a process computes speech, passed from the settings to the child process.

Importing this module does not import torch.
"""

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from machine.devices.health import GpuHealth
from xtts import arguments


@dataclass(frozen=True)
class ComputeConfig:
    """Where and with what speech is computed.

    Attributes:
        device: `cpu` or `cuda:N`; while the device is still to be chosen also `auto` or `cuda`.
        mel_device: Where the mel of a recording is computed, the only FFT of speaking: the CPU
            where the GPU's FFT failed its check.
        precision: As `xtts.model.loading.load_model`, or of an ONNX export.
        latents_folder: Where the latents of recordings are kept; None keeps none.
        backend: `torch` or `onnx`.
        low_memory: LOW_MEMORY.
        threads: None leaves the number to the library.
        guard: Whether speech is judged, and spoken again where it is not good.
        cudnn: Whether convolutions go through cuDNN.
        clean_libraries: Whether the process runs without LD_LIBRARY_PATH and LD_PRELOAD.

    Raises ArgumentError for a precision or a switch that does not exist.
    """

    device: str = "cpu"
    mel_device: str = "cpu"
    precision: str = "auto"
    latents_folder: Path | None = None
    backend: str = "torch"
    low_memory: bool = False
    threads: int | None = None
    guard: bool = True
    cudnn: bool = True
    clean_libraries: bool = False

    def __post_init__(self) -> None:
        arguments.choice("precision", self.precision, arguments.PRECISIONS)
        arguments.switch("low_memory", self.low_memory)

    def on(self, gpu: GpuHealth) -> "ComputeConfig":
        """The same on a GPU, set up as its check says; `gpu.speaks_in_own_process` allows it."""
        return replace(self, **gpu.speaking_setup()._asdict())

    def on_cpu(self) -> "ComputeConfig":
        """The same on the CPU, without what was only for a GPU."""
        return replace(self, device="cpu", mel_device="cpu", cudnn=True, clean_libraries=False)

    def command_line(self) -> tuple[str, str]:
        """The arguments that give this to a child; `add_argument` reads them there."""
        return "--compute", json.dumps(asdict(self), default=str)

    @staticmethod
    def add_argument(parser: argparse.ArgumentParser) -> None:
        """Adds `--compute`, which a child's parent writes."""
        parser.add_argument("--compute", type=_parsed, default=ComputeConfig())

    def apply(self) -> None:
        """Sets torch's threads and cuDNN in this process, which only speaks; ONNX Runtime takes its
        threads with each session, and goes without torch."""
        if self.backend == "onnx":
            return
        import torch

        # Never on: a process whose owner has turned it off, or that has opened a voice without it,
        # keeps it off.
        if not self.cudnn:
            torch.backends.cudnn.enabled = False
        if self.threads:
            torch.set_num_threads(self.threads)


def _parsed(text: str) -> ComputeConfig:
    values = json.loads(text)
    folder = values["latents_folder"]
    return ComputeConfig(**{**values, "latents_folder": Path(folder) if folder else None})
