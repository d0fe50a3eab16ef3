"""The folder of takes: each spoken sentence is a WAV file, named by a hash of its inputs.

A take exists when its JSON file does, which is written after the sound. A killed process loses only
the sentences that it was speaking, and the next process speaks them again with the same result.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from machine.storage.files import make_folder, read_json, write_json
from xtts import encoding
from xtts.marks import UNNAMED, Mark
from xtts.model.shapes import VOCODER_RATE

SCHEMA = 1


def key_of(inputs: Mapping[str, object]) -> str:
    """The name of a take: the hash of everything that its sound depends on."""
    text = json.dumps(inputs, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:40]


@dataclass(frozen=True)
class Take:
    """A spoken sentence.

    Attributes:
        key: From `key_of`.
        text: The sentence.
        num_samples: The number of samples at 24,000 Hz.
        words: (word, start, end) with times in seconds; None if the times are unknown.
        faults: The endings of pieces that ended badly, with their reasons.
        attempts: The number of attempts at the piece that needed most.
        left_out: Words that this voice cannot read.
    """

    key: str
    text: str
    num_samples: int
    words: Sequence[tuple[str, float, float]] | None
    faults: Sequence[str] = ()
    attempts: int = 1
    left_out: Sequence[str] = ()

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return self.num_samples / VOCODER_RATE


class TakeFolder:
    """The takes of a book, in `folder`."""

    def __init__(self, folder: Path, mark: Mark = UNNAMED) -> None:
        self.folder, self.mark = folder, mark

    def sound_path(self, key: str) -> Path:
        """The path of a take's WAV file, which may not exist."""
        return self.folder / key[:2] / f"{key}.wav"

    def find(self, key: str) -> Take | None:
        """A finished take; None if it does not exist or its sound is incomplete."""
        import soundfile

        fields = read_json(self.sound_path(key).with_suffix(".json"))
        try:
            if fields.pop("schema") != SCHEMA:
                return None
            take = Take(num_samples=fields.pop("samples"), **fields)
            is_complete = soundfile.info(self.sound_path(key)).frames == take.num_samples
        except (OSError, TypeError, KeyError, soundfile.LibsndfileError):
            return None
        return take if is_complete and take.key == key else None

    def store(self, take: Take, waveform: np.ndarray) -> None:
        """Writes a take. Raises DiskFull, WriteError."""
        path = self.sound_path(take.key)
        make_folder(path.parent)
        encoding.write_wav(path, waveform, VOCODER_RATE, self.mark)
        fields = asdict(take)
        fields["samples"] = fields.pop("num_samples")
        write_json(path.with_suffix(".json"), {"schema": SCHEMA, **fields})

    def misheard_words(self, key: str, recogniser: str) -> int | None:
        """The number of words in a take that a recogniser misheard; None if it was not run."""
        count = read_json(self.sound_path(key).with_suffix(".heard.json")).get(recogniser)
        return count if isinstance(count, int) else None

    def store_misheard_words(self, key: str, recogniser: str, count: int) -> None:
        """Stores the number of misheard words."""
        path = self.sound_path(key).with_suffix(".heard.json")
        write_json(path, {**read_json(path), recogniser: count})

    def read_samples(self, take: Take) -> np.ndarray:
        """The sound of a take, `[samples]`."""
        import soundfile

        samples, _ = soundfile.read(self.sound_path(take.key), dtype="int16")
        return np.asarray(samples, np.int16)
