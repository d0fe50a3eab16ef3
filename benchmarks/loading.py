"""`python -m benchmarks loading` measures the time to the first audio, and memory.

Each row is a separate process, in turns: it loads, speaks the first chunk of a sentence under the
guard, then the whole sentence. Its peak of resident memory is the kernel's VmHWM, including mapped
files. The files are in the page cache after the first round, which is not measured. `--full` is
XTTS-v2's size; `--folder` keeps the base model and its export.

`--sentences 320` measures whether memory grows: the embedded voice speaks 320 sentences of mixed
length, and each row has the peak of resident memory in each quarter.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import measuring, synthetic
from machine.memory import limit_onednn_cache
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices.base_models import DEMO

# Backend and precision of each row; LOW_MEMORY rows load and speak as with that setting on.
ROWS = {
    "torch alone": ("torch", ""),
    "coqui": ("coqui", "fp32"),
    "ours fp32": ("torch", "fp32"),
    "ours auto": ("torch", "auto"),
    "ours int8": ("torch", "int8"),
    "ours LOW_MEMORY": ("torch", "int8"),
    "onnx fp32": ("onnx", "fp32"),
    "onnx int8": ("onnx", "int8"),
    "onnx LOW_MEMORY": ("onnx", "int8"),
}
# The rows that are measured without --rows.
DEFAULT_ROWS = ["torch alone", "coqui", "ours fp32", "ours auto"]
# The rows that can speak with the embedded voice: Coqui's vocoder has other sizes.
GROWTH_ROWS = [name for name in ROWS if name not in ("torch alone", "coqui", "ours auto")]


class Speaker(NamedTuple):
    """Speaks the first chunk of a request, or all of it and returns the number of samples."""

    begin: Callable[[SynthesisRequest], object]
    say: Callable[[SynthesisRequest], int]


_WORDS = (
    "the old man walked slowly along the river and thought about the long day while his dog ran in "
    "front of him and found a silver coin behind the church early this morning."
).split()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    synthetic.add_base_arguments(parser, rounds=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rows", default="", help="words, by commas: the rows with one of them")
    parser.add_argument("--codes", type=int, default=40, help="codes that each row says")
    parser.add_argument("--sentences", type=int, help="sentences that the embedded voice says")


def run(arguments: argparse.Namespace) -> dict[str, Mapping[str, object]]:
    """Medians of each row, with the extremes of the first audio; with --sentences, its growth."""
    possible, default = (GROWTH_ROWS, GROWTH_ROWS) if arguments.sentences else ([*ROWS], DEFAULT_ROWS)
    words = arguments.rows.split(",")
    names = [name for name in possible if any(word in name for word in words)]
    names = names if arguments.rows else default
    if arguments.sentences:
        return {name: measure_growth(name, arguments.sentences, arguments.threads) for name in names}
    with synthetic.base_model(arguments) as (base, _):
        if any(name.startswith("onnx") for name in names):
            synthetic.export_onnx(base)
        settings = (base, arguments.codes, arguments.threads)
        starts = {name: partial(measure_start, name, *settings) for name in names}
        figures_of = measuring.in_turns(starts, arguments.rounds)
    return {
        name: measuring.medians(rows) | extremes([row["first_audio"] for row in rows])
        for name, rows in figures_of.items()
    }


def extremes(seconds: Sequence[float]) -> dict[str, float]:
    return {"first_audio_least": round(min(seconds), 3), "first_audio_most": round(max(seconds), 3)}


def measure_start(name: str, folder: Path, codes: int, threads: int) -> dict[str, float]:
    """The seconds from the start of a process to each of its marks, and the figures that it reports.
    Raises ChildFailed."""
    words = map(str, (name, folder, codes, threads))
    command = [sys.executable, "-m", "benchmarks.loading", *words]
    started_at = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout is not None
    marks = {line.strip(): time.monotonic() - started_at for line in child.stdout}
    if child.wait():
        raise measuring.ChildFailed(f"{' '.join(command)} ended with {child.returncode}.")
    figures = json.loads(list(marks)[-1])
    return {
        "imported": marks["imported"],
        "loaded": marks.get("loaded", marks["imported"]),
        "first_audio": marks.get("first audio", marks["imported"]),
        **figures,
    }


def measure_growth(name: str, sentences: int, threads: int) -> dict[str, object]:
    """The peak of resident memory in each quarter, in MB, and the growth from the second quarter, when
    every length has occurred, to the last."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        base.symlink_to(DEMO)
        if name.startswith("onnx"):
            synthetic.export_onnx(base)
        result = measuring.ask("benchmarks.loading", name, base, -sentences, threads)
    sizes = result.pop("resident_mb")
    ends = [len(sizes) * part // 4 for part in range(5)]
    quarters = [max(sizes[start:end]) for start, end in itertools.pairwise(ends)]
    return {"quarters_mb": quarters, "grown_mb": round(quarters[3] - quarters[1], 1), **result}


def new_request(number: int) -> SynthesisRequest:
    """A text of 1 to 90 words, in one or several pieces of few codes each."""
    length = 1 + 7 * number % 30 + (60 if number % 10 == 9 else 0)
    words = [_WORDS[(number + position) % len(_WORDS)] for position in range(length)]
    return SynthesisRequest(" ".join(words), "en", number, max_codes=6 + 11 * number % 60)


# ---- the child: prints each mark when it is reached, then a line of JSON ----


def _run_child(name: str, folder: Path, codes: int, threads: int) -> dict[str, object]:
    """Memory in 10^9 bytes, and CPU seconds to the first audio. codes: minus the number of sentences
    if growth is measured."""
    backend, precision = ROWS[name]
    limit_onednn_cache()  # as every process that speaks
    load = _import_backend(backend, precision, low_memory="LOW_MEMORY" in name)
    print("imported", flush=True)
    cpu_seconds = time.process_time()
    if precision:
        speaker = load(folder, codes, threads)
        print("loaded", flush=True)
        if codes < 0:
            return _speak_sentences(speaker, -codes)
        request = SynthesisRequest(synthetic.TEXT, "en", max_codes=codes)
        speaker.begin(request)
        print("first audio", flush=True)
        cpu_seconds = time.process_time()
        speaker.say(request)
    if backend == "onnx" and "torch" in sys.modules:
        raise RuntimeError("torch was imported, so this is not what ONNX Runtime takes alone")
    peak, resident = (measuring.memory_bytes(size) / 1e9 for size in ("VmHWM", "VmRSS"))
    return {"cpu": cpu_seconds, "peak_gb": peak, "rest_gb": resident}


def _speak_sentences(speaker: Speaker, count: int) -> dict[str, object]:
    started_at, num_samples, sizes = time.perf_counter(), 0, []
    for number in range(count):
        num_samples += speaker.say(new_request(number))
        sizes.append(round(measuring.memory_bytes("VmRSS") / 1e6, 1))
    seconds = round(time.perf_counter() - started_at, 1)
    return {"resident_mb": sizes, "audio_seconds": round(num_samples / 24_000, 1), "seconds": seconds}


def _import_backend(backend: str, precision: str, *, low_memory: bool) -> Callable[[Path, int, int], Speaker]:
    """Imports what a backend needs; returns the function that loads a speaker from a folder, for a
    number of codes and of threads."""
    if backend == "onnx":
        from extras.onnx.speech import backend as _onnx_backend  # noqa: F401 - it is measured

        def load_onnx(folder: Path, _: int, threads: int) -> Speaker:
            voice = synthetic.onnx_voice(folder, precision, threads, low_memory=low_memory)
            return Speaker(voice.begin, voice.say)

        return load_onnx
    import torch

    if backend == "coqui":
        from TTS.tts.models.xtts import Xtts  # noqa: F401 - the import is what is measured

        return _load_coqui
    if precision:
        from xtts.inference import speech, torch_backend, voice  # noqa: F401 - as above
        from xtts.model import loading  # noqa: F401

    def load_torch(folder: Path, _: int, threads: int) -> Speaker:
        torch.set_num_threads(threads)
        voice = synthetic.torch_voice(folder, precision, low_memory=low_memory)
        return Speaker(voice.begin, voice.say)

    return load_torch


def _load_coqui(folder: Path, codes: int, threads: int) -> Speaker:
    """Coqui's model, whose first chunk is all of the sound."""
    import torch

    torch.set_num_threads(threads)
    xtts = synthetic.load_coqui(folder, codes)
    latents = synthetic.voice_latents(xtts.config.model_args.gpt_n_model_channels)
    return Speaker(
        lambda request: xtts.inference(request.text, "en", *latents, repetition_penalty=5.0), lambda _: 0
    )


if __name__ == "__main__":
    child, base, codes_, threads_ = sys.argv[1:]
    print(json.dumps(_run_child(child, Path(base), int(codes_), int(threads_))), flush=True)
