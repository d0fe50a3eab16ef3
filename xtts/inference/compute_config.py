"""ComputeConfig: device, precision and libraries for speech, passed to child processes.

Importing this module does not import torch.
"""

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from machine.devices.selection import Place
from xtts import arguments, marks


@dataclass(frozen=True)
class ComputeConfig:
    """The device, precision and libraries with which a process computes speech.

    Attributes:
        device: `cpu` or `cuda:N`; before the device is chosen also `auto` or `cuda`.
        mel_device: Computes the mel of a recording, which needs the only FFT of inference: the CPU
            if the GPU's FFT failed its check.
        precision: As in `xtts.model.loading.load_model`, or of an ONNX export.
        latents_folder: The cache of the latents of recordings; None disables it.
        backend: `torch` or `onnx`.
        low_memory: LOW_MEMORY.
        threads: The number of threads; None is the library's default.
        guard: Whether speech is judged, and faulty pieces are spoken again.
        cudnn: Whether convolutions use cuDNN.
        watermark: WATERMARK.

    Raises ArgumentError for an invalid precision or low_memory.
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
    watermark: str = "off"

    def __post_init__(self) -> None:
        arguments.choice("precision", self.precision, arguments.PRECISIONS)
        arguments.switch("low_memory", self.low_memory)

    def at(self, place: Place) -> "ComputeConfig":
        """The same at another place."""
        return replace(self, device=place.value, mel_device=place.mel_device, cudnn=place.cudnn)

    def command_line(self) -> tuple[str, str]:
        """The arguments that pass this to a child, which reads them with `add_argument`."""
        return "--compute", json.dumps(asdict(self), default=str)

    @staticmethod
    def add_argument(parser: argparse.ArgumentParser) -> None:
        """Adds `--compute`, the argument of `command_line`."""
        parser.add_argument("--compute", type=_parse, default=ComputeConfig())

    def apply(self) -> None:
        """Sets the watermark, torch's threads and cuDNN in this process. The sessions of ONNX
        Runtime set their own threads, and do not need torch.

        Raises SotaqueError if the watermark is not installed.
        """
        marks.use_watermark(self.watermark)
        if self.backend == "onnx":
            return
        import torch

        # Only ever switched off, so that it stays off if the user or another voice disabled it.
        if not self.cudnn:
            torch.backends.cudnn.enabled = False
        if self.threads:
            torch.set_num_threads(self.threads)


def _parse(text: str) -> ComputeConfig:
    values = json.loads(text)
    folder = values["latents_folder"]
    return ComputeConfig(**{**values, "latents_folder": Path(folder) if folder else None})
