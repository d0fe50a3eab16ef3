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
# What speaks a request's first chunk, and what speaks the whole and returns its samples.
Speaks = tuple[Callable[[SynthesisRequest], object], Callable[[SynthesisRequest], int]]
# The rows that are measured without --rows.
STARTING = ["torch alone", "coqui", "ours fp32", "ours auto"]
# The rows that can speak with the embedded voice: Coqui's vocoder has other sizes.
GROWING = [name for name in ROWS if name not in ("torch alone", "coqui", "ours auto")]
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
    """Medians of each row, with the least and the most of the first audio; or its growth."""
    possible, usual = (GROWING, GROWING) if arguments.sentences else ([*ROWS], STARTING)
    words = arguments.rows.split(",")
    names = [name for name in possible if any(word in name for word in words)]
    names = names if arguments.rows else usual
    if arguments.sentences:
        return {name: growth(name, arguments.sentences, arguments.threads) for name in names}
    with synthetic.base_model(arguments) as (base, _):
        if any(name.startswith("onnx") for name in names):
            synthetic.export_onnx(base)
        given = (base, arguments.codes, arguments.threads)
        starts = {name: partial(started, name, *given) for name in names}
        seen = measuring.in_turns(starts, arguments.rounds)
    return {
        name: measuring.medians(rows) | extremes([row["first_audio"] for row in rows])
        for name, rows in seen.items()
    }


def extremes(seconds: Sequence[float]) -> dict[str, float]:
    return {"first_audio_least": round(min(seconds), 3), "first_audio_most": round(max(seconds), 3)}


def started(name: str, folder: Path, codes: int, threads: int) -> dict[str, float]:
    """One process: seconds from its start to each mark, and what it reports of itself. Raises
    ChildFailed."""
    words = map(str, (name, folder, codes, threads))
    command = [sys.executable, "-m", "benchmarks.loading", *words]
    began = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout is not None
    marks = {line.strip(): time.monotonic() - began for line in child.stdout}
    if child.wait():
        raise measuring.ChildFailed(f"{' '.join(command)} ended with {child.returncode}.")
    told = json.loads(list(marks)[-1])
    return {
        "imported": marks["imported"],
        "loaded": marks.get("loaded", marks["imported"]),
        "first_audio": marks.get("first audio", marks["imported"]),
        **told,
    }


def growth(name: str, sentences: int, threads: int) -> dict[str, object]:
    """The most that was resident in each quarter, in MB; grown: the last against the second, when
    every length has come once."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        base.symlink_to(DEMO)
        if name.startswith("onnx"):
            synthetic.export_onnx(base)
        result = measuring.ask("benchmarks.loading", name, base, -sentences, threads)
    seen = result.pop("resident_mb")
    ends = [len(seen) * part // 4 for part in range(5)]
    quarters = [max(seen[a:b]) for a, b in itertools.pairwise(ends)]
    return {"quarters_mb": quarters, "grown_mb": round(quarters[3] - quarters[1], 1), **result}


def sentence(number: int) -> SynthesisRequest:
    """A text of 1 to 90 words, in one or several pieces of few codes each."""
    length = 1 + 7 * number % 30 + (60 if number % 10 == 9 else 0)
    words = [_WORDS[(number + place) % len(_WORDS)] for place in range(length)]
    return SynthesisRequest(" ".join(words), "en", number, max_codes=6 + 11 * number % 60)


# ---- the child: prints each mark when it is reached, then a line of JSON ----


def _start(name: str, folder: Path, codes: int, threads: int) -> dict[str, object]:
    """Memory in 10^9 bytes, CPU seconds to the first audio. codes: below 0, so many sentences."""
    backend, precision = ROWS[name]
    limit_onednn_cache()  # as every process that speaks
    load = _importing(backend, precision, low="LOW_MEMORY" in name)
    print("imported", flush=True)
    used = time.process_time()
    if precision:
        begin, say = load(folder, codes, threads)
        print("loaded", flush=True)
        if codes < 0:
            return _sentences(say, -codes)
        request = SynthesisRequest(synthetic.TEXT, "en", max_codes=codes)
        begin(request)
        print("first audio", flush=True)
        used = time.process_time()
        say(request)
    if backend == "onnx" and "torch" in sys.modules:
        raise RuntimeError("torch was imported, so this is not what ONNX Runtime takes alone")
    peak, rest = (measuring.memory_bytes(size) / 1e9 for size in ("VmHWM", "VmRSS"))
    return {"cpu": used, "peak_gb": peak, "rest_gb": rest}


def _sentences(say: Callable[[SynthesisRequest], int], count: int) -> dict[str, object]:
    started, samples, seen = time.perf_counter(), 0, []
    for number in range(count):
        samples += say(sentence(number))
        seen.append(round(measuring.memory_bytes("VmRSS") / 1e6, 1))
    seconds = round(time.perf_counter() - started, 1)
    return {"resident_mb": seen, "audio_seconds": round(samples / 24_000, 1), "seconds": seconds}


def _importing(backend: str, precision: str, *, low: bool) -> Callable[[Path, int, int], Speaks]:
    """Imports what a backend needs; returns what loads (folder, codes, threads) and gives what
    speaks a request's first chunk, and the whole."""
    if backend == "onnx":
        from extras.onnx.speech import backend as _onnx_backend  # noqa: F401 - it is measured

        return lambda folder, _, threads: _speaks(synthetic.onnx_voice(folder, precision, threads, low=low))
    import torch

    if backend == "coqui":
        from TTS.tts.models.xtts import Xtts  # noqa: F401 - the import is what is measured

        return _coqui
    if precision:
        from xtts.inference import speech, torch_backend, voice  # noqa: F401 - as above
        from xtts.model import loading  # noqa: F401

    def load(folder: Path, _: int, threads: int) -> Speaks:
        torch.set_num_threads(threads)
        return _speaks(synthetic.torch_voice(folder, precision, low=low))

    return load


def _speaks(voice: synthetic.FixedVoice) -> Speaks:
    return voice.begin, voice.say


def _coqui(folder: Path, codes: int, threads: int) -> Speaks:
    """Its first audio is the whole."""
    import torch

    torch.set_num_threads(threads)
    xtts = synthetic.load_coqui(folder, codes)
    latents = synthetic.voice_latents(xtts.config.model_args.gpt_n_model_channels)
    return (lambda request: xtts.inference(request.text, "en", *latents, repetition_penalty=5.0), lambda _: 0)


if __name__ == "__main__":
    child, base, codes_, threads_ = sys.argv[1:]
    print(json.dumps(_start(child, Path(base), int(codes_), int(threads_))), flush=True)
