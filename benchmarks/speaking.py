"""`python -m benchmarks speaking`: seconds that a sentence takes, ours against Coqui's
`Xtts.inference`, on the same random weights, in one process, in turns.

Both say exactly the same number of codes (`benchmarks.fixed_length`), with the same rules of
sampling and as many threads; ours under the guard, which Coqui has not. `--full` is XTTS-v2's size
and 151 codes, 7 s; without it a small model in under a minute. RTF: seconds of work for a second of
sound.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks import bases, coqui, hour, onnx_voice
from benchmarks.fixed_length import TEXT, judged_once, suppress_stop
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE
from xtts.inference import speech, voice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import TorchBackend
from xtts.model import loading as model


@dataclass(frozen=True)
class Timed:
    """seconds of each round; first_seconds: until the first chunk of a stream, in each round."""

    name: str
    seconds: list[float]
    first_seconds: list[float]

    def row(self, audio_seconds: float, peer: float) -> dict[str, Any]:
        """Medians, and how many times as fast as the peer's median."""
        median = statistics.median(self.seconds)
        return {
            "name": self.name,
            "seconds": round(median, 3),
            "rtf": round(median / audio_seconds, 3),
            "times": round(peer / median, 2),
            "first_audio_seconds": round(statistics.median(self.first_seconds), 3),
            "least": round(min(self.seconds), 3),
            "most": round(max(self.seconds), 3),
        }


def main(argv: Sequence[str]) -> int:
    """Prints the table, or JSON."""
    arguments = _parser().parse_args(argv)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.hour:
        told = hour.spoken(60 * arguments.minutes)
        print(json.dumps(told, indent=1) if arguments.json else hour.told(told))
        return 0
    codes = arguments.codes or (151 if arguments.full else 40)
    with tempfile.TemporaryDirectory() as name:
        folder = bases.write(arguments.folder or Path(name) / "base", full=arguments.full)
        found = compared(folder, codes, arguments.rounds, arguments.precisions.split(","))
    found["threads"] = torch.get_num_threads()
    print(json.dumps(found, indent=1) if arguments.json else _told(found))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks speaking", description=__doc__)
    parser.add_argument("--full", action="store_true", help="XTTS-v2's size")
    parser.add_argument("--codes", type=int, help="how many each says")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument(
        "--precisions", default="fp32,int8,int4,auto", help="also onnx-fp32 and onnx-int8"
    )
    parser.add_argument("--folder", type=Path, help="where the base model is kept")
    parser.add_argument("--hour", action="store_true", help="memory over an hour, embedded voice")
    parser.add_argument("--minutes", type=float, default=60.0, help="of --hour")
    parser.add_argument("--json", action="store_true")
    return parser


def compared(folder: Path, codes: int, rounds: int, precisions: Sequence[str]) -> dict[str, Any]:
    """Every contestant once a round, in the same order; the first, unmeasured, warms up."""
    contestants: dict[str, Callable[[], tuple[float, float]]] = {"coqui": _coqui(folder, codes)}
    for precision in precisions:
        if precision.startswith(onnx_voice.PREFIX):
            kind, threads = precision.removeprefix(onnx_voice.PREFIX), torch.get_num_threads()
            contestants[precision] = onnx_voice.contestant(folder, codes, kind, TEXT, threads)
        else:
            contestants[f"ours {precision}"] = _ours(folder, codes, precision)
    timed = {name: Timed(name, [], []) for name in contestants}
    for number in range(rounds + 1):
        for name, contestant in contestants.items():
            seconds, first = contestant()
            if number:
                timed[name].seconds.append(seconds)
                timed[name].first_seconds.append(first)
    audio_seconds = codes * SAMPLES_PER_CODE / CODE_RATE
    peer = statistics.median(timed["coqui"].seconds)
    return {
        "codes": codes,
        "audio_seconds": round(audio_seconds, 2),
        "rounds": rounds,
        "rows": [found.row(audio_seconds, peer) for found in timed.values()],
    }


def _coqui(folder: Path, codes: int) -> Callable[[], tuple[float, float]]:
    xtts = coqui.load(folder)
    coqui.never_stop(xtts, codes)
    latents, speaker = whose(xtts.config.model_args.gpt_n_model_channels)

    def speaks() -> tuple[float, float]:
        torch.manual_seed(0)
        started = time.perf_counter()
        xtts.inference(TEXT, "en", latents, speaker, repetition_penalty=5.0)
        seconds = time.perf_counter() - started
        return seconds, seconds  # the whole is its first sound

    return speaks


def _ours(folder: Path, codes: int, precision: str) -> Callable[[], tuple[float, float]]:
    loaded = model.load_model(folder, precision=precision)
    suppress_stop(loaded)
    speaker = voice.Voice(*whose(loaded.config.gpt.width))
    backend, request = TorchBackend(loaded), SynthesisRequest(TEXT, "en", max_codes=codes)

    def speaks() -> tuple[float, float]:
        started = time.perf_counter()
        speech.synthesize(backend, speaker, request, judged_once(loaded))
        seconds = time.perf_counter() - started
        started = time.perf_counter()
        next(speech.stream(backend, speaker, request, judged_once(loaded)))
        return seconds, time.perf_counter() - started

    return speaks


def whose(width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Latents and speaker embedding that both sides are given; drawn, as the weights are."""
    generator = torch.Generator().manual_seed(0)
    speaker = torch.randn(1, 512, 1, generator=generator)
    latents = torch.randn(1, 32, width, generator=generator)
    return latents, torch.nn.functional.normalize(speaker, dim=1)


def _told(found: dict[str, Any]) -> str:
    lines = [
        f"{found['codes']} codes = {found['audio_seconds']} s, {found['threads']} threads, "
        f"median of {found['rounds']} rounds",
        f"{'':12} {'seconds':>8} {'RTF':>6} {'times':>6} {'first audio':>12} {'spread':>14}",
    ]
    lines += [
        f"{row['name']:12} {row['seconds']:8.2f} {row['rtf']:6.2f} {row['times']:6.2f} "
        f"{row['first_audio_seconds']:10.2f} s {row['least']:6.2f}-{row['most']:.2f}"
        for row in found["rows"]
    ]
    return "\n".join(lines)
