"""`python -m benchmarks low_memory` measures what LOW_MEMORY saves and costs.

It compares torch with ONNX Runtime, and with Coqui's `Xtts` if you give `--coqui`. Each row is a
process of its own that loads, speaks one sentence, and reports its peak resident memory (the
kernel's VmHWM, mapped files included), its memory after speaking, and times. `--full` is XTTS-v2's
size and 151 codes, 7 s; without it a small model takes some 50 s on two quiet cores. --folder keeps
the base model and its export.

`--sentences 320` measures whether memory grows: the embedded voice says so many sentences of mixed
length, and each row has the peak resident memory of each quarter.
"""

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import measuring, synthetic
from benchmarks.synthetic import TEXT
from machine.errors import SotaqueError
from machine.memory import limit_onednn_cache
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices.base_models import DEMO

# Backend and precision of each row; LOW_MEMORY rows load and speak as with that setting on.
ROWS = {
    "coqui": ("coqui", "fp32"),
    "torch fp32": ("torch", "fp32"),
    "torch int8": ("torch", "int8"),
    "torch LOW_MEMORY": ("torch", "int8"),
    "onnx fp32": ("onnx", "fp32"),
    "onnx int8": ("onnx", "int8"),
    "onnx LOW_MEMORY": ("onnx", "int8"),
}
_WORDS = (
    "the old man walked slowly along the river and thought about the long day while his dog ran in "
    "front of him and found a silver coin behind the church early this morning."
).split()
# Speaks a request under the guard; returns the number of samples.
Says = Callable[[SynthesisRequest], int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    synthetic.add_base_arguments(parser, rounds=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--coqui", action="store_true", help="measure Coqui's Xtts too")
    parser.add_argument("--rows", help="words, separated by commas: only rows with one of them")
    parser.add_argument("--codes", type=int, help="codes that each row says")
    parser.add_argument("--sentences", type=int, help="sentences that the embedded voice says")


def run(arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Medians of each row, with the least and the most of its peak; or its growth."""
    wanted = (arguments.rows or "torch,onnx" + ",coqui" * arguments.coqui).split(",")
    names = [name for name in ROWS if any(word in name for word in wanted)]
    if arguments.sentences and "coqui" in names:
        raise SotaqueError(
            "Coqui's Xtts cannot load the embedded voice, which --sentences speaks: the sizes of "
            "its vocoder are fixed. Leave out --coqui."
        )
    if arguments.sentences:
        return {name: growth(name, arguments.sentences, arguments.threads) for name in names}
    codes = arguments.codes or (151 if arguments.full else 12)
    with synthetic.base_model(arguments) as (base, _):
        synthetic.export_onnx(base)
        rows = {
            name: partial(
                measuring.ask, "benchmarks.low_memory", name, base, codes, arguments.threads
            )
            for name in names
        }
        seen = measuring.in_turns(rows, arguments.rounds, warm_up=0)
    return {
        name: measuring.medians(found) | measuring.extremes(found, "peak_gb")
        for name, found in seen.items()
    }


def growth(name: str, sentences: int, threads: int) -> dict[str, Any]:
    """The most that was resident in each quarter, in MB; grown: the last against the second, when
    every length has come once."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        base.symlink_to(DEMO)
        if ROWS[name][0] == "onnx":
            synthetic.export_onnx(base)
        found = measuring.ask("benchmarks.low_memory", name, base, -sentences, threads)
    seen = found.pop("resident_mb")
    ends = [len(seen) * part // 4 for part in range(5)]
    quarters = [max(seen[a:b]) for a, b in itertools.pairwise(ends)]
    return {"quarters_mb": quarters, "grown_mb": round(quarters[3] - quarters[1], 1), **found}


# ---- the child ----


def _row(name: str, folder: Path, codes: int, threads: int) -> dict[str, Any]:
    """Figures of one row, in seconds and 10^9 bytes. codes: below 0, so many sentences instead."""
    began = time.perf_counter()
    limit_onednn_cache()  # as every process that speaks
    says = _says(name, folder, threads)
    loaded = time.perf_counter()
    if codes < 0:
        return _sentences(says, -codes)
    samples = says(SynthesisRequest(TEXT, "en", max_codes=codes))
    spoken = time.perf_counter()
    if name.startswith("onnx") and "torch" in sys.modules:
        raise RuntimeError("torch was imported, so this is not what ONNX Runtime takes alone")
    return {
        "peak_gb": measuring.memory_bytes("VmHWM") / 1e9,
        "rest_gb": measuring.memory_bytes("VmRSS") / 1e9,
        "load": loaded - began, "speak": spoken - loaded, "cpu": time.process_time(),
        "rtf": (spoken - loaded) / (samples / 24_000),
    }  # fmt: skip


def _sentences(says: Says, count: int) -> dict[str, Any]:
    started, samples, seen = time.perf_counter(), 0, []
    for number in range(count):
        samples += says(sentence(number))
        seen.append(round(measuring.memory_bytes("VmRSS") / 1e6, 1))
    return {
        "resident_mb": seen, "audio_seconds": round(samples / 24_000, 1),
        "seconds": round(time.perf_counter() - started, 1),
    }  # fmt: skip


def sentence(number: int) -> SynthesisRequest:
    """A text of 1 to 90 words, some in several pieces, of few codes each."""
    length = 1 + 7 * number % 30 + (60 if number % 10 == 9 else 0)
    words = [_WORDS[(number + place) % len(_WORDS)] for place in range(length)]
    return SynthesisRequest(" ".join(words), "en", number, max_codes=6 + 11 * number % 60)


def _says(name: str, folder: Path, threads: int) -> Says:
    (backend, precision), low = ROWS[name], "LOW_MEMORY" in name
    if backend == "onnx":
        return synthetic.onnx_voice(folder, precision, threads, low=low).say
    import torch

    torch.set_num_threads(threads)
    if backend == "coqui":
        return _coqui(folder)
    return synthetic.torch_voice(folder, precision, low=low).say


def _coqui(folder: Path) -> Says:
    # Coqui's limit is set at loading; ours comes with each request.
    xtts = synthetic.load_coqui(folder, 0)
    voice = synthetic.voice_latents(xtts.config.model_args.gpt_n_model_channels)

    def says(request: SynthesisRequest) -> int:
        xtts.gpt.max_gen_mel_tokens = request.max_codes
        return len(xtts.inference(request.text, "en", *voice, repetition_penalty=5.0)["wav"])

    return says


if __name__ == "__main__":
    child, base, codes_, threads_ = sys.argv[1:]
    print(json.dumps(_row(child, Path(base), int(codes_), int(threads_))))
