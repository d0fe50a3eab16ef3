"""Trainers that start at once: a process with torch imported, which forks a true one for each.

`python -m tests.train.nursery` reads a line of JSON a trainer, `{"words": [...], "environ": {...},
"told": path}`; answers with its process id, then, when it has ended, with its exit code. Whoever
asked may kill it meanwhile. A new interpreter would import for seconds before it could be killed.
"""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# What a run imports when it comes to it.
_LATER = (
    "train.run", "torch.utils.tensorboard", "soundfile", "torchaudio.functional", "tqdm",
    "TTS.tts.layers.xtts.dvae", "TTS.tts.layers.xtts.tokenizer", "torch._weights_only_unpickler",
    "torch._dynamo",  # by AdamW; with what it imports in turn, seconds
)  # fmt: skip


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


def _train(words: list[str], environ: dict[str, str], told: str) -> int:
    from train.__main__ import main as train

    os.setsid()
    with open(told, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(environ)
    try:
        return train(words)
    except BaseException:
        import traceback

        traceback.print_exc()
        return 1


class Nursery:
    """The asking side; one trainer at a time."""

    def __init__(self, folder: Path) -> None:
        self.told = folder / "told.log"
        self._server = subprocess.Popen(
            (sys.executable, "-m", "tests.train.nursery"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.running = False
        self._answer()

    def start(self, words: Sequence[str], environ: Mapping[str, str] | None = None) -> int:
        """Starts a trainer; its process id, which is also its process group's."""
        assert self._server.stdin is not None and not self.running
        asked = {"words": list(words), "environ": dict(environ or {}), "told": str(self.told)}
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()
        self.running = True
        return int(self._answer())

    def end(self) -> int:
        """Waits for the trainer; its exit code, -9 when it was killed."""
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


if __name__ == "__main__":
    main()
