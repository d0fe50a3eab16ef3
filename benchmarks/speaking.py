"""`python -m benchmarks speaking` measures the seconds that a sentence takes, beside Coqui.

Coqui's side is `Xtts.inference`, on the same random weights, in the same process, in turns. Both
say exactly the same number of codes (`benchmarks.synthetic`), with the same sampling and as many
threads. Sotaque speaks under the guard, which Coqui does not have. `--full` is XTTS-v2's size and
151 codes, 7 s; without it a small model takes under a minute. RTF is the real-time factor: seconds
of work for a second of sound.

With `--layers 15`, a model with as many of the layers speaks too, as `train distil` makes them.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks import measuring, synthetic
from benchmarks.synthetic import TEXT
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE
from xtts.inference.synthesis_request import SynthesisRequest


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


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """One row for each contestant."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    codes = arguments.codes or (151 if arguments.full else 40)
    audio_seconds = codes * SAMPLES_PER_CODE / CODE_RATE
    with synthetic.base_model(arguments) as (base, work):
        contestants = {"coqui": _coqui(base, codes)}
        contestants |= _contestants(base, codes, arguments.precisions.split(","))
        if arguments.layers:
            small = synthetic.smaller_base(base, work / "small", arguments.layers)
            ours = _contestants(small, codes, arguments.small_precisions.split(","))
            contestants |= {
                f"{name}, {arguments.layers} layers": contestant for name, contestant in ours.items()
            }
        times_of = measuring.in_turns(contestants, arguments.rounds)
    coqui_seconds = statistics.median(times.speech for times in times_of["coqui"])
    return {
        "codes": codes,
        "audio_seconds": round(audio_seconds, 2),
        "rounds": arguments.rounds,
        "threads": torch.get_num_threads(),
        "rows": {name: row(times, audio_seconds, coqui_seconds) for name, times in times_of.items()},
    }


class SpeakingTimes(NamedTuple):
    """The seconds of a whole speech, and those until the first chunk of a stream."""

    speech: float
    first_chunk: float


def row(all_times: Sequence[SpeakingTimes], audio_seconds: float, peer_seconds: float) -> dict[str, float]:
    """The figures of a contestant; `times` says how many times as fast as the peer it is."""
    seconds = [times.speech for times in all_times]
    median = statistics.median(seconds)
    return {
        "seconds": round(median, 3),
        "rtf": round(median / audio_seconds, 3),
        "times": round(peer_seconds / median, 2),
        "first_audio_seconds": round(statistics.median(times.first_chunk for times in all_times), 3),
        "least": round(min(seconds), 3),
        "most": round(max(seconds), 3),
    }


def _contestants(base: Path, codes: int, precisions: Sequence[str]) -> dict[str, Callable[[], SpeakingTimes]]:
    contestants: dict[str, Callable[[], SpeakingTimes]] = {}
    request = SynthesisRequest(TEXT, "en", max_codes=codes)
    for precision in precisions:
        kind = precision.removeprefix("onnx-")
        if kind != precision:
            voice = synthetic.onnx_voice(base, kind, torch.get_num_threads())
        else:
            voice = synthetic.torch_voice(base, precision)
        name = f"ours {precision}" if kind == precision else precision
        contestants[name] = partial(_measure, voice, request)
    return contestants


def _coqui(folder: Path, codes: int) -> Callable[[], SpeakingTimes]:
    xtts = synthetic.load_coqui(folder, codes)
    latents, speaker = synthetic.voice_latents(xtts.config.model_args.gpt_n_model_channels)

    def speak() -> SpeakingTimes:
        torch.manual_seed(0)
        seconds = measuring.seconds_of(
            lambda: xtts.inference(TEXT, "en", latents, speaker, repetition_penalty=5.0)
        )
        return SpeakingTimes(seconds, seconds)  # its first chunk is all of the sound

    return speak


def _measure(voice: synthetic.FixedVoice, request: SynthesisRequest) -> SpeakingTimes:
    seconds = measuring.seconds_of(lambda: voice.say(request))
    return SpeakingTimes(seconds, measuring.seconds_of(lambda: voice.begin(request)))
