"""One row of `benchmarks.low_memory`: loads with its levers, speaks under the guard, and prints
what it took."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.fixed_length import TEXT, judged_once

# ONNX Runtime as it comes: awake threads, an arena, copies in the products' own order.
_PLAIN: dict[str, Any] = {"spinning": True}
_ONNX: dict[str, tuple[str, dict[str, Any], bool]] = {
    "onnx fp32, as it comes": ("fp32", {}, False),
    "onnx fp32, threads asleep": ("fp32", {"spinning": False}, False),
    "onnx fp32, one thread": ("fp32", {"threads": 1}, False),
    "onnx fp32, no arena": ("fp32", {"arena": False}, False),
    "onnx fp32, no memory pattern": ("fp32", {"pattern": False}, False),
    "onnx fp32, no prepacking": ("fp32", {"prepacking": False}, False),
    "onnx fp32, basic optimisation": ("fp32", {"optimisation": "basic"}, False),
    "onnx fp32, short pieces": ("fp32", {}, True),
    "onnx int8": ("int8", {}, False),
    "onnx int8, no prepacking": ("int8", {"prepacking": False}, False),
}
_TORCH = {
    "torch fp32": ("fp32", False, False),
    "torch fp32, file given back": ("fp32", True, True),
    "torch fp32, given back and no ears": ("fp32", True, False),
    "torch int8": ("int8", False, False),
    "torch int8, file given back": ("int8", True, True),
    "torch LOW_MEMORY": ("int8", True, False),
}
LEVERS = ("coqui", *_TORCH, *_ONNX, "onnx LOW_MEMORY", "onnx LOW_MEMORY, no prepacking")


def main(name: str, folder: Path, codes: int, threads: int) -> dict[str, float]:
    """Figures of one row, in seconds and 10^9 bytes."""
    began = time.perf_counter()
    if name == "coqui":
        speaks, rate = _coqui(folder, codes, threads), 24_000
    elif name in _TORCH:
        speaks, rate = _torch(folder, codes, threads, *_TORCH[name]), 24_000
    else:
        speaks, rate = _onnx(name, folder, codes, threads), 24_000
    loaded = time.perf_counter()
    samples = speaks()
    spoken = time.perf_counter()
    memory = resident()
    if name.startswith("onnx") and "torch" in sys.modules:
        raise RuntimeError("torch was imported, so this is not what ONNX Runtime takes alone")
    return {
        "peak_gb": memory["VmHWM"], "rest_gb": memory["VmRSS"], "load": loaded - began,
        "speak": spoken - loaded, "cpu": time.process_time(),
        "rtf": (spoken - loaded) / (samples / rate),
    }  # fmt: skip


def _coqui(folder: Path, codes: int, threads: int) -> Callable[[], int]:
    import torch

    from benchmarks import coqui
    from benchmarks.speaking import whose

    torch.set_num_threads(threads)
    xtts = coqui.load(folder)
    coqui.never_stop(xtts, codes)
    voice = whose(xtts.config.model_args.gpt_n_model_channels)
    return lambda: len(xtts.inference(TEXT, "en", *voice, repetition_penalty=5.0)["wav"])


def _torch(
    folder: Path, codes: int, threads: int, precision: str, lean: bool, ears: bool
) -> Callable[[], int]:
    import torch

    from benchmarks.fixed_length import suppress_stop
    from benchmarks.speaking import whose
    from xtts.inference import speech
    from xtts.inference.synthesis_request import SynthesisRequest
    from xtts.inference.torch_backend import TorchBackend
    from xtts.inference.voice import Voice
    from xtts.model import loading as model
    from xtts.model import low_memory

    torch.set_num_threads(threads)
    if ears:
        model.LISTENING = ()  # type: ignore[assignment]
    load = low_memory.load_low_memory if lean else model.load_model
    loaded = load(folder, precision=precision)
    suppress_stop(loaded)
    voice = Voice(*whose(loaded.config.gpt.width))
    guard = judged_once(loaded)
    request, backend = SynthesisRequest(TEXT, "en", max_codes=codes), TorchBackend(loaded)
    return lambda: len(speech.synthesize(backend, voice, request, guard))


def _onnx(name: str, folder: Path, codes: int, threads: int) -> Callable[[], int]:
    from benchmarks import onnx_voice
    from machine.onnxruntime.sessions import OnnxSessionOptions, Optimisation
    from xtts.inference import speech
    from xtts.inference.synthesis_request import SynthesisRequest
    from xtts.onnx.speech import loading as model
    from xtts.onnx.speech.backend import OnnxBackend
    from xtts.onnx.speech.loading import SHORT_SAMPLES, OnnxComputeConfig

    if name in _ONNX:
        kind, levers, short = _ONNX[name]
        given = {"threads": threads, **_PLAIN, **levers}
        if "optimisation" in given:
            given["optimisation"] = Optimisation(given["optimisation"])
        how = OnnxComputeConfig(kind, options=OnnxSessionOptions(**given))
        how = replace(how, most_samples=SHORT_SAMPLES) if short else how
    else:
        how = model.low_memory_config(threads)
        if "no prepacking" in name:
            how = replace(how, options=replace(how.options, prepacking=False))
    loaded = onnx_voice.load(folder, how)
    voice, backend = onnx_voice.whose(loaded.config.gpt.width), OnnxBackend(loaded)
    request, guard = SynthesisRequest(TEXT, "en", max_codes=codes), judged_once(loaded)
    return lambda: len(speech.synthesize(backend, voice, request, guard))


def resident() -> dict[str, float]:
    """VmRSS, and VmHWM, the most there ever was: in 10^9 bytes, mapped files included."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    pairs = (line.split()[:2] for line in lines if line.startswith(("VmHWM", "VmRSS")))
    return {name.rstrip(":"): int(size) * 1024 / 1e9 for name, size in pairs}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))))
