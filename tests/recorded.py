"""`python -m tests.recorded FOLDER [--against BEFORE]`: results that a refactoring must not change.

Writes FOLDER/recorded.json: SHA-256 of speech by every driver, with and without the guard, and with
pieces that the guard speaks again; a run of two epochs (weights, samples, losses); losses of
training steps in each precision and with each optimizer; openapi.json, .env.example and exit codes.
`--against` computes the same again, speaks with the run of BEFORE, resumes it for another epoch,
prints each difference, and exits 1 if there is one.

The bits hold for one machine and one torch: record before a change and compare after it on the same
machine. Only `DRIVERS` and `_voice` know how the code is called today.
"""

import argparse
import copy
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import texts

SEEDS = (3, 11)
TEXTS = 40
# At this temperature the embedded voice babbles often enough that the guard repeats pieces.
BABBLING = 1.7
GUARDS = {"off": (False, None), "on": (True, None), "on, babbling": (True, BABBLING)}
STEPS = {
    "fp32": [],
    "bf16": ["--precision", "bf16"],
    "lora": ["--lora-rank", "8"],
    "8-bit": ["--optimizer", "adamw8bit"],
}
RUN = [
    "--max-train-samples",
    "24",
    "--num-epochs",
    "2",
    "--device",
    "cpu",
    "--num-threads",
    "1",
    "--tensorboard",
    "off",
    "--precision",
    "fp32",
    "--keep-checkpoints",
    "all",
]
QUICK = ["--sample-device", "off", "--evaluate-recogniser", "off"]
REFUSED = {
    "no such setting": ["train", "--num-epoch", "3"],
    "no such dataset": ["train", "--dataset-dir", "nowhere"],
    "no such verb": ["train", "learn"],
    "no text": ["xtts", "speak", "--voice", "demo", "--text", "", "--out", "none.wav"],
    "no voice": ["xtts", "speak", "--voice", "nowhere", "--text", "One.", "--out", "none.wav"],
}
PARTS = ("run", "speech", "steps", "faces", "old files")


def main() -> int:
    """Records, and compares if asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.recorded", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--against", type=Path, help="a folder that an earlier commit wrote")
    parser.add_argument("--part", action="append", choices=PARTS, help="only these")
    parser.add_argument("--texts", type=int, default=TEXTS)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    recorders: dict[str, Callable[[], dict[str, Any]]] = {
        "run": lambda: run(arguments.folder),
        "speech": lambda: speech(arguments.folder, arguments.texts),
        "steps": lambda: steps(arguments.folder),
        "faces": lambda: faces(arguments.folder),
        "old files": lambda: old_files(arguments.against or arguments.folder, arguments.folder),
    }
    file = arguments.folder / "recorded.json"
    recorded = json.loads(file.read_text()) if file.is_file() else {}
    for part in arguments.part or PARTS:
        recorded[part] = recorders[part]()
        file.write_text(json.dumps(recorded, indent=1))
    if arguments.against is None:
        return 0
    before = json.loads((arguments.against / "recorded.json").read_text())
    changed = list(differences({name: before[name] for name in recorded}, recorded))
    print("\n".join(changed) or "equal")
    return bool(changed)


def speech(folder: Path, count: int) -> dict[str, str]:
    """SHA-256 of each driver's samples, over all texts and seeds."""
    found = {}
    lines = texts.sentences("choosing")[:count]
    for kind in ("torch", "onnx fp32", "onnx int8"):
        voice = _voice(kind, folder)
        for guard, (guarded, temperature) in GUARDS.items():
            speaking = copy.copy(voice)
            speaking.guarded = guarded
            for driver, speak in DRIVERS.items():
                spoken = speak(speaking, lines, temperature)
                found[f"{kind}, {driver}, guard {guard}"] = _hash_of(spoken)
                print(kind, driver, guard, flush=True)
    return found


def _voice(kind: str, folder: Path) -> Any:
    import xtts

    if kind == "torch":
        return xtts.load_voice("demo", precision="fp32")
    precision = kind.removeprefix("onnx ")
    to = folder / f"onnx-{precision}"
    if not to.exists():
        trained = folder / "run" / "checkpoints" / "checkpoint_epoch_2.pt"
        words = ["--checkpoint", str(trained), "--to", str(to), "--onnx", precision]
        _program(["train", "export", *words], folder)
    return xtts.load_voice(to, precision=precision)


def _whole(voice: Any, lines: list[str], temperature: float | None) -> Iterator[Any]:
    import xtts

    for seed, line in itertools.product(SEEDS, lines):
        yield xtts.synthesize(voice, line, seed=seed, temperature=temperature)


def _streamed(voice: Any, lines: list[str], temperature: float | None) -> Iterator[Any]:
    import xtts

    for seed, line in itertools.product(SEEDS, lines):
        yield from xtts.stream(voice, line, seed=seed, temperature=temperature)


def _among_others(voice: Any, lines: list[str], temperature: float | None) -> Iterator[Any]:
    """Four at once, every second one `whole`; hashed in the order of the requests."""
    from xtts.inference.speech import ContinuousBatcher
    from xtts.inference.synthesis_request import SynthesisRequest

    batcher = ContinuousBatcher(voice.backend(4), voice.guard)
    waiting = [
        (f"{number}/{seed}", SynthesisRequest(line, "en", seed, temperature, whole=bool(number % 2)))
        for seed in SEEDS
        for number, line in enumerate(lines)
    ]
    said: dict[str, list[Any]] = {name: [] for name, _ in waiting}
    while waiting or not batcher.empty:
        while waiting and batcher.num_free:
            name, ask = waiting.pop(0)
            batcher.enter(name, voice.own_voice, ask)
        for output in batcher.step():
            said[output.name] += [np.asarray(chunk) for chunk in output.chunks]
            if output.speech.paused:
                batcher.begin_next_piece(output.name)
    for name in sorted(said):
        yield from said[name]


DRIVERS = {"whole": _whole, "streamed": _streamed, "among others": _among_others}


def run(folder: Path) -> dict[str, Any]:
    """A run of two epochs: its weights, codes, samples, losses and verdict."""
    output = folder / "run"
    shutil.rmtree(output, ignore_errors=True)
    _program(["train", *RUN, *_places(folder, output)], folder)
    return described(output)


def described(output: Path) -> dict[str, Any]:
    """The contents of a run's folder, without times and paths."""
    evaluation = json.loads((output / "evaluation.json").read_text())
    best = json.loads((output / "checkpoints" / "best.json").read_text())
    return {
        "weights": {path.name: _weights_hash(path) for path in (output / "checkpoints").glob("*.pt")},
        "samples": {path.name: _hash(path.read_bytes()) for path in (output / "samples").glob("*.wav")},
        "losses": _losses(output),
        "evaluation's keys": sorted(evaluation),
        "best": {name: best.get(name) for name in ("epoch", "blend", "share", "base")},
    }


def old_files(before: Path, folder: Path) -> dict[str, Any]:
    """Speaks with the run and the ONNX voices of `before`, and trains the run's third epoch."""
    found: dict[str, Any] = {}
    for name in ("run", "onnx-fp32", "onnx-int8"):
        out = folder / f"spoken-with-{name}.wav"
        words = ["--voice", str(before / name), "--text", "Made before.", "--out", str(out)]
        _program(["xtts", "speak", *words], folder)
        found[name] = _hash(out.read_bytes())
    going_on = folder / "going-on"
    shutil.rmtree(going_on, ignore_errors=True)
    shutil.copytree(before / "run", going_on)
    _program(["train", *RUN, "--num-epochs", "3", *_places(before, going_on)], folder)
    found["a third epoch"] = described(going_on)["weights"]
    return found


def steps(folder: Path) -> dict[str, Any]:
    """Losses of the steps of three epochs, in each precision and training mode."""
    found = {}
    for name, more in STEPS.items():
        output = folder / f"steps-{name}"
        shutil.rmtree(output, ignore_errors=True)
        short = [*RUN, *QUICK, "--num-epochs", "3", "--batch-seconds", "12"]
        _program(["train", *short, *more, *_places(folder, output)], folder)
        found[name] = _losses(output)
    return found


def faces(folder: Path) -> dict[str, Any]:
    """Interfaces to the outside: the API's description, the settings file, exit codes."""
    from api import app, settings

    return {
        "openapi.json": app.build(settings.load([])[0]).openapi(),
        ".env.example": Path(".env.example").read_text(),
        "exit codes": {
            name: subprocess.run(
                [sys.executable, "-m", *words], capture_output=True, env=_environment(), cwd=folder
            ).returncode
            for name, words in REFUSED.items()
        },
    }


def _places(folder: Path, output: Path) -> list[str]:
    places = {"output": output, "cache": folder / "cache", "runs": output / "tb"}
    return [word for name, path in places.items() for word in (f"--{name}-dir", str(path))]


def _program(words: list[str], folder: Path) -> None:
    log = folder / "program.log"
    with log.open("a") as file:
        done = subprocess.run([sys.executable, "-m", *words], stdout=file, stderr=file, env=_environment())
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: see {log}")


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path.cwd())}


def _losses(output: Path) -> list[Any]:
    lines = (output / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        {name: value for name, value in row.items() if "loss" in name}
        for row in rows
        if any("loss" in name for name in row)
    ]


def _weights_hash(path: Path) -> str:
    import torch

    def tensors(value: Any) -> Iterator[Any]:
        if isinstance(value, torch.Tensor):
            yield value.contiguous().view(torch.uint8 if value.dim() else value.dtype).numpy()
        elif isinstance(value, dict):
            for name in sorted(value, key=str):
                yield from tensors(value[name])

    return _hash_of(tensors(torch.load(path, weights_only=True)))


def _hash_of(arrays: Iterator[Any]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def differences(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """A line for each value that differs."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            yield from differences(before.get(name), after.get(name), f"{place}/{name}")
    elif before != after:
        yield f"{place}: {str(before)[:70]} -> {str(after)[:70]}"


if __name__ == "__main__":
    sys.exit(main())
