"""Trainers that start without delay, forked from a process that has already imported torch.

A new interpreter would import for seconds before a test could kill it.
`python -m tests.train.nursery` reads a line of JSON per trainer, `{"words": [...],
"environ": {...}, "poison": name, "told": path}`. It answers with the trainer's process id and, at
its end, with its exit code; the caller may kill the trainer. poison: calls to functions of
`tests.train.poisons` that run first, separated by `; `.
"""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.datasets import make_dataset
from tests.models import tiny_base

EPOCHS, STEPS_PER_EPOCH = 2, 3
# Modules that a run imports late.
_LATER = (
    "train.setup",
    "torch.utils.tensorboard",
    "soundfile",
    "torchaudio.functional",
    "tqdm",
    "TTS.tts.layers.xtts.dvae",
    "TTS.tts.layers.xtts.tokenizer",
    "torch._weights_only_unpickler",
)


def main() -> None:
    for name in _LATER:
        importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if not child:
            os._exit(_train(**asked))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _train(words: list[str], environ: dict[str, str], poison: str, told: str) -> int:
    from tests.train import poisons
    from train.__main__ import main as train

    os.setsid()
    with open(told, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(environ)
    try:
        for one in filter(None, poison.split("; ")):
            name, *arguments = one.split()
            getattr(poisons, name)(*arguments)
        return train(words)
    except BaseException:
        import traceback

        traceback.print_exc()
        return 1


class Nursery:
    """The client; runs one trainer at a time."""

    def __init__(self, folder: Path) -> None:
        self.told = folder / "told.log"
        self._server = subprocess.Popen(
            (sys.executable, "-m", "tests.train.nursery"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.running = False
        self._answer()

    def start(self, words: Sequence[str], environ: Mapping[str, str], poison: str = "") -> int:
        """Starts a trainer; returns its process id, which is also its process group's."""
        assert self._server.stdin is not None and not self.running
        asked = {"words": list(words), "environ": dict(environ), "poison": poison, "told": str(self.told)}
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()
        self.running = True
        return int(self._answer())

    def end(self) -> int:
        """Waits for the trainer; returns its exit code, -9 if it was killed."""
        code = int(self._answer())
        self.running = False
        return code

    def close(self) -> None:
        """Ends the server."""
        self._server.kill()
        self._server.communicate()

    def _answer(self) -> Any:
        assert self._server.stdout is not None
        return self._server.stdout.readline().strip()


class Ground:
    """A base, a dataset and a nursery; each run has two epochs of three steps and takes 0.6 s."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nursery = Nursery(folder)
        self.base = tiny_base(folder / "base", layers=1, width=32)
        self.dataset = make_dataset(folder / "data", clips=9, seconds=0.6)
        self._told_before = 0

    def words(self, name: str, **settings: object) -> list[str]:
        """The command line for the run in the folder `name`."""
        own = {
            "BASE_MODEL": self.base,
            "DATASET_DIR": self.dataset,
            "CACHE_DIR": self.folder / "cache",
            "OUTPUT_DIR": self.folder / name,
            "RUNS_DIR": self.folder / name / "events",
            "NUM_EPOCHS": EPOCHS,
            "SEED": 5,
            "BATCH_SECONDS": 2.2,
            "NUM_THREADS": 1,
            "DEVICE": "cpu",
            "SAMPLE_DEVICE": "off",
            "TENSORBOARD": "off",
            "EVALUATE_RECOGNISER": "off",
            "EVALUATE_NATURALNESS": "off",
            "LEARN_DECODER": "off",
        }
        return [f"--{key.lower().replace('_', '-')}={value}" for key, value in (own | settings).items()]

    def start(self, name: str, crash_at: str = "", poison: str = "", **settings: object) -> int:
        """Starts a trainer and returns its process id; `nursery.end` waits for it."""
        if self.nursery.told.exists():
            self._told_before = self.nursery.told.stat().st_size
        environ = {"SOTAQUE_CRASH_AT": crash_at}
        return self.nursery.start(self.words(name, **settings), environ, poison)

    def run(self, name: str, crash_at: str = "", poison: str = "", **settings: object) -> int:
        """Runs a trainer to its end; returns its exit code."""
        self.start(name, crash_at, poison, **settings)
        return self.nursery.end()

    def told(self) -> str:
        """The latest trainer's console output."""
        return self.nursery.told.read_bytes()[self._told_before :].decode(errors="replace")


if __name__ == "__main__":
    main()
