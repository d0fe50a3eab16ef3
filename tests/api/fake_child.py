"""A speaking child without a model or torch, but with the real loop and protocol.

The text of a request decides what happens at its third step. Any other text is "spoken": a chunk of
20 ms for each character, one per step, with samples from text and seed, and after `!who` from the
speaking voice. A piece has PIECE characters.
"""

import argparse
import atexit
import os
import re
import signal
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from xtts.workers import server_main

Frame = tuple[dict[str, Any], bytes]
CHUNK = 480
# Seconds per step.
STEP = float(os.environ.get("FAKE_STEP", "0.002"))
PIECE = int(os.environ.get("FAKE_PIECE", "250"))
CUFFT = "cuFFT error: CUFFT_INVALID_SIZE"

# Failures that end a request but not the child: code and sentence.
FAILURES = {
    "!nan": ("not_finite", "The model's output is not a number."),
    "!internal": ("internal", "This request caused an internal error (KeyError in x.py:1)."),
    "!refuse": ("refused", "There is nothing to speak in /etc/passwd."),
}


def frame(say: str, name: str, **more: Any) -> Frame:
    """A frame with a header and no bytes."""
    return {"say": say, "id": name, **more}, b""


def pieces_of(text: str) -> list[dict[str, object]]:
    """The guard's report: `!broken` stays unfinished, `!again` succeeds at the second attempt."""
    broken, again = text.startswith("!broken"), text.startswith("!again")
    return [
        {
            "ending": "unfinished" if broken else "good",
            "cut_off": False,
            "aligned": True,
            "reason": "it stopped after 57% of the text" if broken else "",
            "attempts": 3 if broken else 1 + again,
        }
    ]


def words_of(text: str, start: int, stop: int) -> list[list[object]]:
    """The words that end within these characters, at 20 ms per character."""
    if text.startswith("!untimed"):
        return []
    return [
        [word[0], word.start() * 0.02, word.end() * 0.02]
        for word in re.finditer(r"\S+", text)
        if start < word.end() <= stop
    ]


class AcceleratorError(RuntimeError):
    """Recognised by its name and number, like torch's."""

    error_code = 710


class OutOfMemoryError(RuntimeError):
    """Recognised by its name, like torch's."""


def sound_of(text: str, seed: int, number: int) -> bytes:
    """The chunk of step `number`."""
    value = zlib.crc32(f"{text}/{seed}/{number}".encode()) & 0x7FFF
    return value.to_bytes(2, "little") * CHUNK


class FakeEnsemble:
    """Speaks numbers, or fails as requested."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        # Do not check whether a GPU responds.
        arguments.compute = replace(arguments.compute, device="cpu", mel_device="cpu")
        if os.environ.get("FAKE_BROKEN"):
            raise RuntimeError("no such library")
        self._speeches: dict[str, tuple[str, int, int]] = {}
        self._slots = arguments.slots
        self._names: dict[str, str] = {}
        self._mute = set[str]()
        self._paused = set[str]()
        self._backend = arguments.compute.backend

    @property
    def busy(self) -> bool:
        return len(self._speeches) > len(self._paused)

    @property
    def waiting(self) -> bool:
        return False

    def take(self, message: Mapping[str, Any]) -> Iterator[Frame]:
        name = message.get("id", "")
        if message["do"] == "open":
            yield from self._open(name, message)
        elif message["do"] == "speak":
            assert len(self._speeches) - len(self._paused) < self._slots
            if message["key"] in self._mute and not (message["micro"] or message["recording"]):
                yield frame(
                    "failed", name, reason_code="no_reference", reason="It holds no recording of its own."
                )
                return
            text, who = message["ask"]["text"], self._names[message["key"]]
            text = f"{text} {who}" if text == "!who" else text
            self._speeches[name] = (text, message["ask"]["seed"], 0)
        elif message["do"] == "close":
            del self._names[message["key"]]
        elif message["do"] == "go_on":
            self._paused.discard(name)
            assert len(self._speeches) - len(self._paused) <= self._slots
        elif message["do"] == "cancel":
            self._paused.discard(name)
            if self._speeches.pop(name, None):
                yield frame("cancelled", name)

    def _open(self, name: str, message: Mapping[str, Any]) -> Iterator[Frame]:
        voice = message["voice"]["name"]
        if "bad" in voice:
            reason = f"{Path('/secret') / voice} is damaged."
            yield frame("failed", name, reason_code="refused", reason=reason)
            return
        if is_deadly(voice):
            os.kill(os.getpid(), signal.SIGSEGV)
        base = " base" if message["voice"].get("base_only") else ""
        self._names[message["key"]] = Path(voice).name + base
        if "mute" in voice:
            self._mute.add(message["key"])
        sha256 = "0" * 64 if base else sha_of(voice)
        from xtts.voices import speakers  # a tenth of a second, and not every test opens a voice

        named = {who: str(path) for who, path in speakers.read(Path(voice)).items()}
        yield frame(
            "opened",
            name,
            licence="free",
            sha256=sha256,
            languages=["en", "pt", *(["el"] if Path(voice).name == "greek" else [])],
            own_voice="mute" not in voice,
            precision="fp32",
            placed=self._placed(),
            own_name=next(iter(named), ""),
            speakers=named,
        )

    def _placed(self) -> dict[str, str]:
        if self._backend != "onnx":
            return {}
        return {
            "device": "cpu",
            "execution_provider": "CPUExecutionProvider",
            "requested_provider": "CPUExecutionProvider",
            "message": "",
            "reason_code": "",
        }

    def step(self) -> Iterator[Frame]:
        if self.busy:
            time.sleep(STEP)
        for name, (text, seed, number) in list(self._speeches.items()):
            if name in self._paused:
                continue
            if number == 2:
                yield from self._do(name, text)
            if name not in self._speeches:
                continue
            if number + 1 == len(text) or (number + 1) % PIECE == 0:
                if words := words_of(text, number // PIECE * PIECE, number + 1):
                    yield frame("words", name, words=words)
            yield {"say": "sound", "id": name}, sound_of(text, seed, number)
            self._speeches[name] = (text, seed, number + 1)
            if number + 1 >= len(text):
                del self._speeches[name]
                yield frame(
                    "done",
                    name,
                    codes=number + 1,
                    seconds=STEP,
                    cut_pieces=int(text.startswith("!limit")),
                    timed=not text.startswith("!untimed"),
                    pieces=pieces_of(text),
                )
            elif (number + 1) % PIECE == 0:
                self._paused.add(name)
                yield frame("paused", name)

    def _do(self, name: str, text: str) -> Iterator[Frame]:
        word, _, rest = text.partition(" ")
        if word == "!cufft":
            raise RuntimeError(CUFFT)
        if word == "!710":
            raise AcceleratorError("CUDA error: device-side assert triggered")
        if word == "!memory":
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        if word == "!signal":
            os.kill(os.getpid(), signal.Signals[rest])
            time.sleep(5)
        if word == "!hang":
            time.sleep(3600)
        if word == "!lingers":  # ends, but slowly
            atexit.register(time.sleep, 1.0)
            raise KeyError("nothing of a GPU")
        if word in FAILURES:
            del self._speeches[name]
            code, reason = FAILURES[word]
            yield frame("failed", name, reason_code=code, reason=reason)


def sha_of(voice: str) -> str:
    """The real hash of a test checkpoint, whose content is its name."""
    import hashlib

    path = Path(voice)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "0" * 64


def is_deadly(voice: str) -> bool:
    """Whether opening this voice kills the child."""
    path = Path(voice)
    return path.is_file() and path.read_bytes().startswith(b"deadly")


if __name__ == "__main__":
    sys.exit(server_main.main(FakeEnsemble))
