"""Hears the vowels of a recording whose text is known, also with noise added to it."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from extras.accent.vowel_model import RATE, VOWELS, VowelModel
from machine.errors import SotaqueError

# Noise is added at this share of the recording's level: 20 dB.
_NOISE_SHARE_OF_LEVEL = 0.1
# The moments of a vowel that are compared, as shares of its length.
_MOMENTS_OF_VOWEL = (0.35, 0.5, 0.65)
_SILENCE_PHONES = ("SIL", "+NSN+", "+SPN+")
# Words with another vowel in southern England than in America. The dictionary has America's, of *trap*.
_BATH_WORDS = frozenset(
    """after afternoon answer ask asked bath can't chance class dance fast glass grass half last laugh laughed
    laughing master pass passed past path plant rather""".split()
)


@dataclass(frozen=True)
class HeardVowels:
    """The vowels of one recording.

    Attributes:
        vowels: The class of each.
        words: The word of each.
        likeness: As `VowelModel.likeness`: of the recording, with white noise, and with pink noise.
    """

    vowels: tuple[str, ...]
    words: tuple[str, ...]
    likeness: tuple[np.ndarray, ...]


class _Phone(NamedTuple):
    """A phone of a recording, at 100 frames per second."""

    word: str
    name: str
    start: int
    frames: int


class Listener:
    """Aligns phones with pocketsphinx, and classifies vowels with its Gaussians."""

    def __init__(self) -> None:
        try:
            import pocketsphinx
        except ImportError as error:
            raise SotaqueError(
                "A judge of accent needs pocketsphinx, which is not installed; it has wheels for Python "
                "3.11 and 3.13."
            ) from error
        wide_beams = {"beam": 1e-80, "wbeam": 1e-60, "pbeam": 1e-80}
        self._decoder = pocketsphinx.Decoder(
            samprate=RATE, loglevel="FATAL", lm=None, bestpath=False, **wide_beams
        )
        self._model = VowelModel(Path(pocketsphinx.__file__).parent / "model" / "en-us" / "en-us")

    def hear(self, samples: np.ndarray, text: str) -> HeardVowels | None:
        """The vowels of a recording at 16 kHz; None if it has a word that the dictionary lacks, or cannot be
        aligned."""
        try:
            phones = self._align(samples, text)
        except RuntimeError:
            return None
        vowel_indices = [index for index, phone in enumerate(phones) if phone.name in VOWELS]
        if not vowel_indices:
            return None
        vowels = [phones[index] for index in vowel_indices]
        moments = np.array(
            [[int(vowel.start + vowel.frames * share) for share in _MOMENTS_OF_VOWEL] for vowel in vowels]
        )
        speech = [phone for phone in phones if phone.name not in _SILENCE_PHONES]
        spoken = np.concatenate([np.arange(phone.start, phone.start + phone.frames) for phone in speech])
        return HeardVowels(
            tuple(_vowel_class(phones, index) for index in vowel_indices),
            tuple(vowel.word for vowel in vowels),
            tuple(self._model.likeness(sound, spoken, moments) for sound in _with_noises(samples, text)),
        )

    def _align(self, samples: np.ndarray, text: str) -> list[_Phone]:
        decoder = self._decoder
        sound = (np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()
        decoder.reinit_feat()
        decoder.set_align_text(" ".join(re.findall(r"[a-z']+", text.lower())))
        for is_by_phone in (False, True):
            if is_by_phone:
                decoder.set_alignment()
            decoder.start_utt()
            decoder.process_raw(sound, full_utt=True)
            decoder.end_utt()
        return [
            _Phone(re.sub(r"\(\d+\)", "", word.name), phone.name, phone.start, phone.duration)
            for word in decoder.get_alignment()
            for phone in word
        ]


def _vowel_class(phones: list[_Phone], index: int) -> str:
    """The vowel's name; some vowels have an own class in a *bath* word, at a word's end and before R."""
    vowel = phones[index]
    following = phones[index + 1] if index + 1 < len(phones) else None
    is_last = (
        following is None or following.word != vowel.word or following.start < vowel.start + vowel.frames
    )
    if vowel.name == "AE" and vowel.word in _BATH_WORDS:
        return "BATH"
    if vowel.name == "ER":
        return "ER." if is_last else vowel.name
    return f"{vowel.name}R" if following and not is_last and following.name == "R" else vowel.name


def _with_noises(samples: np.ndarray, text: str) -> tuple[np.ndarray, ...]:
    """The recording, and copies with white and with pink noise, which the text seeds."""
    rng = np.random.default_rng(list(hashlib.sha256(text.encode()).digest()[:8]))
    level = _NOISE_SHARE_OF_LEVEL * float(samples.std())
    white = rng.standard_normal(len(samples))
    spectrum = np.fft.rfft(rng.standard_normal(len(samples)))
    pink = np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(len(spectrum)), 1)), len(samples))
    return samples, samples + level * white, samples + level * pink / max(float(pink.std()), 1e-9)
