"""`python -m benchmarks speaking` measures the seconds that a sentence takes, beside Coqui.

Coqui's side is `Xtts.inference`, on the same random weights, in the same process, in turns. Both
say exactly the same number of codes (`benchmarks.synthetic`), with the same sampling and as many
threads. Sotaque speaks under the guard, which Coqui does not have. `--full` is XTTS-v2's size and
151 codes, 7 s; without it a small model takes under a minute. RTF is the real-time factor: seconds
of work for a second of sound. Each code reads all weights of the transformer once: `times_limit` is
the ratio to the time that these bytes take at the bandwidth of a sum over an array.

`--layers 15` has a model with as many of the layers speak too, as `train distil` makes them.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks import measuring, synthetic
from benchmarks.synthetic import TEXT
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model import quantization
from xtts.model.config import ModelConfig
from xtts.model.shapes import GPTShape

WEIGHT_BYTES = {"fp32": 4.0, "bf16": 2.0, "int8": 1.0, "int4": 0.5}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    synthetic.add_base_arguments(parser, rounds=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--codes", type=int, help="codes that each side says")
    parser.add_argument(
        "--precisions",
        default="fp32,int8,int4,auto",
        help="separated by commas; also onnx-fp32, onnx-int8, onnx-int4",
    )
    parser.add_argument("--layers", type=int, help="of a smaller model that speaks too")
    parser.add_argument(
        "--small-precisions", default="int8,int4", help="of the smaller model, as --precisions"
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """One row for each contestant."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    codes = arguments.codes or (151 if arguments.full else 40)
    audio_seconds = codes * SAMPLES_PER_CODE / CODE_RATE
    bytes_per_second = bandwidth()
    with synthetic.base_model(arguments) as (base, work):
        shape = ModelConfig.read(base).gpt
        contestants = {"coqui": _coqui(base, codes)}
        contestants |= _contestants(base, codes, arguments.precisions.split(","))
        if arguments.layers:
            small = synthetic.smaller_base(base, work / "small", arguments.layers)
            ours = _contestants(small, codes, arguments.small_precisions.split(","))
            contestants |= {f"{name}, {arguments.layers} layers": one for name, one in ours.items()}
        seen = measuring.in_turns(contestants, arguments.rounds)
    peer = statistics.median(seconds for seconds, _ in seen["coqui"])
    return {
        "codes": codes,
        "audio_seconds": round(audio_seconds, 2),
        "rounds": arguments.rounds,
        "threads": torch.get_num_threads(),
        "gb_per_second": round(bytes_per_second / 1e9, 1),
        "rows": [
            row(name, timed, audio_seconds, peer)
            | limit(name, timed, codes, shape, bytes_per_second)
            for name, timed in seen.items()
        ],
    }


def bandwidth() -> float:
    """The bytes that a sum over an array of 1 GB reads in a second, the best of five."""
    array = torch.ones(2**28)
    return array.nbytes / min(measuring.seconds_of(array.sum) for _ in range(5))


def limit(
    name: str, timed: Sequence[tuple[float, float]], codes: int, shape: GPTShape, bandwidth: float
) -> dict[str, Any]:
    """The GB of weights that a code reads, and how many times as long as their reading the whole
    takes."""
    kind, _, layers = name.removeprefix("ours ").removeprefix("onnx-").partition(", ")
    kind = {"coqui": "fp32"}.get(kind, kind)
    kind, _ = quantization.resolve_precision(kind, torch.device("cpu"), shape.width)
    # Attention has 4 matrices of width x width, the feed-forward layer the size of 8.
    weights = 12 * shape.width**2 * (int(layers.split()[0]) if layers else shape.layers)
    read = weights * WEIGHT_BYTES[kind]
    least = codes * read / bandwidth
    seconds = statistics.median(whole for whole, _ in timed)
    return {"gb_a_code": round(read / 1e9, 3), "times_limit": round(seconds / least, 2)}


def row(
    name: str, timed: Sequence[tuple[float, float]], audio_seconds: float, peer: float
) -> dict[str, Any]:
    """Medians of (seconds of the whole, seconds until a stream's first chunk), and how many times
    as fast as the peer's median."""
    seconds = [whole for whole, _ in timed]
    median = statistics.median(seconds)
    return {
        "name": name,
        "seconds": round(median, 3),
        "rtf": round(median / audio_seconds, 3),
        "times": round(peer / median, 2),
        "first_audio_seconds": round(statistics.median(first for _, first in timed), 3),
        "least": round(min(seconds), 3),
        "most": round(max(seconds), 3),
    }


def _contestants(
    base: Path, codes: int, precisions: Sequence[str]
) -> dict[str, Callable[[], tuple[float, float]]]:
    found: dict[str, Callable[[], tuple[float, float]]] = {}
    request = SynthesisRequest(TEXT, "en", max_codes=codes)
    for precision in precisions:
        kind = precision.removeprefix("onnx-")
        if kind != precision:
            voice = synthetic.onnx_voice(base, kind, torch.get_num_threads())
        else:
            voice = synthetic.torch_voice(base, precision)
        name = f"ours {precision}" if kind == precision else precision
        found[name] = partial(_timed, voice, request)
    return found


def _coqui(folder: Path, codes: int) -> Callable[[], tuple[float, float]]:
    xtts = synthetic.load_coqui(folder, codes)
    latents, speaker = synthetic.voice_latents(xtts.config.model_args.gpt_n_model_channels)

    def speaks() -> tuple[float, float]:
        torch.manual_seed(0)
        seconds = measuring.seconds_of(
            lambda: xtts.inference(TEXT, "en", latents, speaker, repetition_penalty=5.0)
        )
        return seconds, seconds  # the whole is its first sound

    return speaks


def _timed(voice: synthetic.FixedVoice, request: SynthesisRequest) -> tuple[float, float]:
    whole = measuring.seconds_of(lambda: voice.say(request))
    return whole, measuring.seconds_of(lambda: voice.begin(request))
