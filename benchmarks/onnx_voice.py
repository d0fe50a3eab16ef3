"""A base model as an ONNX voice, for the benchmarks that compare it with torch."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from xtts.onnx import model, speech
from xtts.onnx.model import Computing, OnnxModel
from xtts.onnx.speech import Manner, OnnxLatents
from xtts.sessions import Options
from xtts.voice import Voice

PREFIX = "onnx-"


def folder_of(base: Path) -> Path:
    """The ONNX voice beside a base model's folder; exported where it is missing, by a child."""
    to = base.with_name(f"{base.name}-onnx")
    if not (to / "onnx.json").is_file():
        words = [sys.executable, "-m", "xtts.onnx.export_child", str(base), str(to)]
        subprocess.run(words, check=True)
    return to


def load(base: Path, how: Computing) -> OnnxModel:
    """The voice, as it says exactly as many codes as it may: no code of its is STOP."""
    loaded = model.load(folder_of(base), how, verify=False)
    loaded.config = replace(loaded.config, gpt=replace(loaded.config.gpt, audio_stop=-1))
    return loaded


def whose(width: int) -> OnnxLatents:
    """Drawn, as the weights are."""
    random = np.random.default_rng(0)
    speaker = random.standard_normal((1, 512, 1)).astype(np.float32)
    latents = random.standard_normal((1, 32, width)).astype(np.float32)
    return OnnxLatents(latents, speaker / np.linalg.norm(speaker))


def sayer(base: Path, heard: Voice, precision: str) -> Callable[..., Tensor]:
    """`say(text, language, seed=…)` with a voice that torch has heard."""
    from xtts.onnx import export

    with tempfile.TemporaryDirectory() as name:
        kind = precision.removeprefix(PREFIX)
        export.export(export.source_of_folder(base), Path(name) / "voice", [kind])
        loaded = model.load(Path(name) / "voice", Computing(kind, options=Options(threads=1)))
    voice = OnnxLatents(heard.latents.numpy(), heard.speaker.numpy())

    def say(text: str, language: str, *, seed: int) -> Tensor:
        return torch.from_numpy(speech.speak(loaded, voice, text, language, Manner(seed=seed)))

    return say


def contestant(
    base: Path, codes: int, kind: str, text: str, threads: int
) -> Callable[[], tuple[float, float]]:
    """Speaks a text with so many codes: seconds of the whole, and until a stream's first chunk."""
    loaded = load(base, Computing(kind, options=Options(threads=threads)))
    voice, manner = whose(loaded.config.gpt.width), Manner(max_codes=codes)

    def speaks() -> tuple[float, float]:
        started = time.perf_counter()
        speech.speak(loaded, voice, text, "en", manner)
        seconds = time.perf_counter() - started
        started = time.perf_counter()
        next(speech.stream(loaded, voice, text, "en", manner))
        return seconds, time.perf_counter() - started

    return speaks
