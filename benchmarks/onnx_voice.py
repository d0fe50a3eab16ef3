"""A base model as an ONNX voice, for the benchmarks that compare it with torch.

torch is imported where its tensors are spoken of only: processes whose memory is measured are
without it.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.synthetic import judged_once
from machine.onnxruntime.sessions import OnnxSessionOptions
from xtts.inference import speech
from xtts.inference.alignment.guarded_piece import Guard
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.onnx.speech import loading as model
from xtts.onnx.speech.backend import OnnxBackend
from xtts.onnx.speech.loading import OnnxComputeConfig, OnnxLatents, OnnxModel

if TYPE_CHECKING:
    from torch import Tensor

    from xtts.inference.voice import Voice

PREFIX = "onnx-"


def folder_of(base: Path, to: Path | None = None) -> Path:
    """The ONNX voice of a base model's folder; exported where it is missing, by a child. to: None
    is beside it."""
    to = to or base.with_name(f"{base.name}-onnx")
    if not (to / "onnx.json").is_file():
        words = [sys.executable, "-m", "xtts.onnx.export.exporter_child", str(base), str(to)]
        subprocess.run(words, check=True)
    return to


def load(base: Path, how: OnnxComputeConfig) -> OnnxModel:
    """The voice, as it says exactly as many codes as it may: no code of its is STOP."""
    loaded = model.load_onnx_model(folder_of(base), how, verify=False)
    loaded.config = replace(loaded.config, gpt=replace(loaded.config.gpt, audio_stop=-1))
    return loaded


def whose(width: int) -> OnnxLatents:
    """Drawn, as the weights are."""
    random = np.random.default_rng(0)
    speaker = random.standard_normal((1, 512, 1)).astype(np.float32)
    latents = random.standard_normal((1, 32, width)).astype(np.float32)
    return OnnxLatents(latents, speaker / np.linalg.norm(speaker))


def sayer(
    base: Path, heard: "Voice", precision: str, *, low: bool = False
) -> "Callable[..., Tensor]":
    """`say(request, guard)` with a voice that torch has heard; low: as
    LOW_MEMORY=on."""
    import torch

    from xtts.onnx.export import exporter

    with tempfile.TemporaryDirectory() as name:
        kind = precision.removeprefix(PREFIX)
        exporter.export(exporter.source_of_folder(base), Path(name) / "voice", [kind])
        how = replace(model.low_memory_config(), kind=kind) if low else plainly(kind)
        loaded = model.load_onnx_model(Path(name) / "voice", how)
    voice = OnnxLatents(heard.latents.numpy(), heard.speaker.numpy())

    def say(request: SynthesisRequest, guard: Guard | None) -> "Tensor":
        return torch.from_numpy(speech.synthesize(OnnxBackend(loaded), voice, request, guard))

    return say


def plainly(kind: str, threads: int = 1) -> OnnxComputeConfig:
    """As it is served without LOW_MEMORY."""
    return OnnxComputeConfig(kind, options=OnnxSessionOptions(threads=threads))


def contestant(
    base: Path, codes: int, kind: str, text: str, threads: int
) -> Callable[[], tuple[float, float]]:
    """Speaks a text with so many codes: seconds of the whole, and until a stream's first chunk."""
    loaded = load(base, plainly(kind, threads))
    voice, backend = whose(loaded.config.gpt.width), OnnxBackend(loaded)
    request = SynthesisRequest(text, "en", max_codes=codes)

    def speaks() -> tuple[float, float]:
        started = time.perf_counter()
        speech.synthesize(backend, voice, request, judged_once(loaded))
        seconds = time.perf_counter() - started
        started = time.perf_counter()
        next(speech.stream(backend, voice, request, judged_once(loaded)))
        return seconds, time.perf_counter() - started

    return speaks
