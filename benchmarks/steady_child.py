"""One row of `benchmarks.steady`: speaks sentence after sentence under the guard, and prints what
was resident. The codes of a piece are bounded (`benchmarks.fixed_length`)."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.fixed_length import judged_once
from benchmarks.low_memory_child import resident

if TYPE_CHECKING:
    from xtts.inference.speech import Backend

ROWS = ("torch", "torch LOW_MEMORY", "onnx", "onnx LOW_MEMORY")
_WORDS = (
    "the old man walked slowly along the river and thought about the long day while his dog ran in "
    "front of him and found a silver coin behind the church early this morning."
).split()
Says = Callable[[str, int, int], int]


def main(row: str, base: Path, voice: Path, count: int, threads: int) -> dict[str, Any]:
    """base: the model's folder; voice: its ONNX export, with the latents of who speaks.

    {resident_mb: after each sentence, audio_seconds, seconds}
    """
    low = row.endswith("LOW_MEMORY")
    says = (_onnx if row.startswith("onnx") else _torch)(base, voice, threads, low)
    started, samples, seen = time.perf_counter(), 0, []
    for number in range(count):
        samples += says(*sentence(number))
        seen.append(round(1000 * resident()["VmRSS"], 1))
    return {
        "resident_mb": seen,
        "audio_seconds": round(samples / 24_000, 1),
        "seconds": round(time.perf_counter() - started, 1),
    }


def sentence(number: int) -> tuple[str, int, int]:
    """A text of 1 to 90 words, so some in several pieces; its seed; the most codes of a piece."""
    length = 1 + 7 * number % 30 + (60 if number % 10 == 9 else 0)
    words = [_WORDS[(number + place) % len(_WORDS)] for place in range(length)]
    return " ".join(words), number, 6 + 11 * number % 60


def _torch(base: Path, voice: Path, threads: int, low: bool) -> Says:
    import torch

    from xtts.inference import latents_file
    from xtts.inference.torch_backend import TorchBackend
    from xtts.model import loading as model
    from xtts.model import low_memory

    torch.set_num_threads(threads)
    loaded = (low_memory.load_low_memory if low else model.load_model)(base, precision="auto")
    whose = latents_file.read(voice, loaded)
    if whose is None:
        raise ValueError(f"{voice} holds no voice of this model")
    return _sayer(TorchBackend(loaded), whose)


def _onnx(base: Path, voice: Path, threads: int, low: bool) -> Says:
    from xtts.model.config import ModelConfig
    from xtts.onnx import folder
    from xtts.onnx.speech import loading as model
    from xtts.onnx.speech.backend import OnnxBackend

    export, config = voice.parent, ModelConfig.read(base)
    how = model.compute_config(
        folder.read(export), config, precision="auto", device="cpu", low=low, threads=threads
    )
    loaded, whose = model.load_onnx_model(export, how), model.read_voice(voice, config)
    return _sayer(OnnxBackend(loaded), whose)


def _sayer(backend: "Backend", whose: Any) -> Says:
    from xtts.inference import speech
    from xtts.inference.synthesis_request import SynthesisRequest

    return lambda text, seed, codes: len(
        speech.synthesize(
            backend, whose, SynthesisRequest(text, "en", seed, max_codes=codes),
            judged_once(backend.model, seed),
        )
    )  # fmt: skip


if __name__ == "__main__":
    row, base, voice, count, threads = sys.argv[1:]
    print(json.dumps(main(row, Path(base), Path(voice), int(count), int(threads))))
