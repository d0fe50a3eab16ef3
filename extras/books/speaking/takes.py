"""The folder of takes: each spoken sentence is a WAV file, named by the hash of its origin.

A take is there when its JSON file is, which is written after the sound. So a process that is killed
loses the sentences that it was speaking, and the next one says them again, with the same bytes.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from machine.storage.atomic import make_folder, write_json
from machine.storage.reading import read_json
from xtts import wav
from xtts.model.shapes import VOCODER_RATE

SCHEMA = 1


def key_of(made_from: dict[str, Any]) -> str:
    """The name of a take: the hash of everything that its sound depends on."""
    plain = json.dumps(made_from, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(plain.encode()).hexdigest()[:40]


@dataclass(frozen=True)
class Take:
    """A sentence as it was spoken.

    Attributes:
        key: As of `key_of`.
        text: The sentence.
        samples: How many there are, at 24,000 Hz.
        words: (word, start, end in seconds) for each; None if the times are unknown.
        faults: The endings of pieces that ended badly, with their reasons.
        attempts: The most attempts that a piece took.
        left_out: Words that this voice cannot read.
    """

    key: str
    text: str
    samples: int
    words: Sequence[tuple[str, float, float]] | None
    faults: Sequence[str] = ()
    attempts: int = 1
    left_out: Sequence[str] = ()

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.samples / VOCODER_RATE


class TakeFolder:
    """The takes of a book, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sound(self, key: str) -> Path:
        """The WAV file of a take, which need not exist."""
        return self.folder / key[:2] / f"{key}.wav"

    def find(self, key: str) -> Take | None:
        """A take that was finished; None if there is none, or if its sound is not whole."""
        read = read_json(self.sound(key).with_suffix(".json"))
        try:
            if read.pop("schema") != SCHEMA:
                return None
            take = Take(**read)
            whole = self.sound(key).stat().st_size == wav_bytes(take.samples)
        except (OSError, TypeError, KeyError):
            return None
        return take if whole and take.key == key else None

    def keep(self, take: Take, waveform: "np.ndarray[Any, Any]") -> None:
        """Writes a take. Raises DiskFull, WriteError."""
        path = self.sound(take.key)
        make_folder(path.parent)
        wav.write(path, waveform, VOCODER_RATE)
        write_json(path.with_suffix(".json"), {"schema": SCHEMA, **asdict(take)})

    def heard(self, key: str, recogniser: str) -> int | None:
        """How many words of a take were misheard by a recogniser; None if it has not heard it."""
        found = read_json(self.sound(key).with_suffix(".heard.json")).get(recogniser)
        return found if isinstance(found, int) else None

    def keep_heard(self, key: str, recogniser: str, errors: int) -> None:
        """Writes what `heard` returns."""
        path = self.sound(key).with_suffix(".heard.json")
        write_json(path, {**read_json(path), recogniser: errors})

    def samples(self, take: Take) -> "np.ndarray[Any, np.dtype[np.int16]]":
        """The sound of a take, `[samples]`."""
        import soundfile

        sound, _ = soundfile.read(self.sound(take.key), dtype="int16")
        return np.asarray(sound, np.int16)


def wav_bytes(samples: int) -> int:
    """The size of a WAV file of 16-bit samples."""
    return 44 + 2 * samples
