"""`python -m benchmarks loading` measures the time to the first audio, and memory.

Sotaque and Coqui's `Xtts` run in processes of their own, in turns. The files are in the page cache
after the first round, which is not measured. `--full` is XTTS-v2's size. Sotaque speaks under the
guard.
"""

import argparse
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from benchmarks import measuring, synthetic

SIDES = ("torch alone", "coqui", "ours fp32", "ours auto")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    synthetic.add_base_arguments(parser, rounds=5)
    parser.add_argument("--codes", type=int, default=40)


def run(arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Medians of each side, with the least and the most of the first audio."""
    with synthetic.base_model(arguments) as (base, _):
        starts = {side: partial(started, side, base, arguments.codes) for side in SIDES}
        seen = measuring.in_turns(starts, arguments.rounds)
    return {
        side: measuring.medians(rows) | measuring.extremes(rows, "first_audio")
        for side, rows in seen.items()
    }


def started(side: str, folder: Path, codes: int) -> dict[str, float]:
    """One process: seconds from its start to each mark, CPU seconds, and its peak memory. Raises
    ChildFailed."""
    command = [sys.executable, "-m", "benchmarks.loading", side, str(folder), str(codes)]
    began = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout is not None
    marks = {line.strip(): time.monotonic() - began for line in child.stdout}
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise measuring.ChildFailed(f"{' '.join(command)} ended with {child.returncode}.")
    return {
        "imported": marks["imported"],
        "loaded": marks.get("loaded", marks["imported"]),
        "first_audio": marks.get("first audio", marks["imported"]),
        "cpu": usage.ru_utime + usage.ru_stime,
        "peak_gb": usage.ru_maxrss * 1024 / 1e9,
    }


# ---- the child: prints each mark when it is reached ----


def ours(folder: Path, codes: int, precision: str) -> None:
    """Loads and speaks the first chunk, as a stream does."""
    from xtts.inference import speech, torch_backend, voice  # noqa: F401 - they are what is measured
    from xtts.inference.synthesis_request import SynthesisRequest
    from xtts.model import loading  # noqa: F401

    print("imported", flush=True)
    loaded = synthetic.torch_voice(folder, precision)
    print("loaded", flush=True)
    loaded.begin(SynthesisRequest(synthetic.TEXT, "en", max_codes=codes))
    print("first audio", flush=True)


def coquis(folder: Path, codes: int) -> None:
    """Loads and speaks; the first audio is the whole."""
    from TTS.tts.models.xtts import Xtts  # noqa: F401 - the import is what is measured

    print("imported", flush=True)
    xtts = synthetic.load_coqui(folder, codes)
    print("loaded", flush=True)
    width = xtts.config.model_args.gpt_n_model_channels
    xtts.inference(synthetic.TEXT, "en", *synthetic.voice_latents(width))
    print("first audio", flush=True)


def _start(side: str, folder: Path, codes: int) -> None:
    if side == "coqui":
        coquis(folder, codes)
    elif side == "torch alone":
        import torch  # noqa: F401 - the import is what is measured

        print("imported", flush=True)
    else:
        ours(folder, codes, side.removeprefix("ours "))


if __name__ == "__main__":
    _start(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
