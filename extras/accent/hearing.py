"""Hears the vowels of a recording whose text is known, also with noise added to it."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from extras.accent.vowel_model import RATE, VOWELS, VowelModel
from machine.errors import SotaqueError

# Noise is added at this share of the recording's level: 20 dB.
_NOISE = 0.1
# The parts of a vowel that are compared.
_MOMENTS = (0.35, 0.5, 0.65)
_SILENCES = ("SIL", "+NSN+", "+SPN+")
# Words whose vowel tells southern England from America, where the dictionary has the one of *trap*.
_BATH_WORDS = frozenset(
    """after afternoon answer ask asked bath can't chance class dance fast glass grass half last laugh laughed
    laughing master pass passed past path plant rather""".split()
)


@dataclass(frozen=True)
class Heard:
    """The vowels of one recording.

    Attributes:
        vowels: The class of each.
        words: The word of each.
        likeness: As `VowelModel.likeness`: of the recording, with white noise, and with pink noise.
    """

    vowels: tuple[str, ...]
    words: tuple[str, ...]
    likeness: tuple[np.ndarray, ...]


class Listener:
    """pocketsphinx aligns the phones, and its Gaussians tell the vowels."""

    def __init__(self) -> None:
        try:
            import pocketsphinx
        except ImportError as error:
            raise SotaqueError(
                "A judge of accent needs pocketsphinx, which is not installed; it has wheels for Python "
                "3.11 and 3.13."
            ) from error
        wide = {"beam": 1e-80, "wbeam": 1e-60, "pbeam": 1e-80}
        self._decoder = pocketsphinx.Decoder(samprate=RATE, loglevel="FATAL", lm=None, bestpath=False, **wide)
        self._model = VowelModel(Path(pocketsphinx.__file__).parent / "model" / "en-us" / "en-us")

    def hear(self, samples: np.ndarray, text: str) -> Heard | None:
        """The vowels of a recording at 16 kHz; None if it has a word that the dictionary lacks, or cannot be
        aligned."""
        try:
            phones = self._align(samples, text)
        except RuntimeError:
            return None
        vowels = [
            (index, start, frames)
            for index, (_, phone, start, frames) in enumerate(phones)
            if phone in VOWELS
        ]
        if not vowels:
            return None
        moments = np.array([[int(start + frames * part) for part in _MOMENTS] for _, start, frames in vowels])
        spoken = np.concatenate(
            [np.arange(start, start + frames) for _, phone, start, frames in phones if phone not in _SILENCES]
        )
        return Heard(
            tuple(_class_of(phones, index) for index, _, _ in vowels),
            tuple(phones[index][0] for index, _, _ in vowels),
            tuple(self._model.likeness(sound, spoken, moments) for sound in _with_noises(samples, text)),
        )

    def _align(self, samples: np.ndarray, text: str) -> list[tuple[str, str, int, int]]:
        """Word, phone, first frame and number of frames of each phone."""
        decoder = self._decoder
        sound = (np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()
        decoder.reinit_feat()
        decoder.set_align_text(" ".join(re.findall(r"[a-z']+", text.lower())))
        for is_by_phones in (False, True):
            if is_by_phones:
                decoder.set_alignment()
            decoder.start_utt()
            decoder.process_raw(sound, full_utt=True)
            decoder.end_utt()
        return [
            (re.sub(r"\(\d+\)", "", word.name), phone.name, phone.start, phone.duration)
            for word in decoder.get_alignment()
            for phone in word
        ]


def _class_of(phones: list[tuple[str, str, int, int]], index: int) -> str:
    word, phone, start, frames = phones[index]
    after = phones[index + 1] if index + 1 < len(phones) else None
    is_last = after is None or after[0] != word or after[2] < start + frames
    if phone == "AE" and word in _BATH_WORDS:
        return "BATH"
    if phone == "ER":
        return "ER." if is_last else phone
    return f"{phone}R" if after and not is_last and after[1] == "R" else phone


def _with_noises(samples: np.ndarray, text: str) -> tuple[np.ndarray, ...]:
    draw = np.random.default_rng(list(hashlib.sha256(text.encode()).digest()[:8]))
    level = _NOISE * float(samples.std())
    white = draw.standard_normal(len(samples))
    spectrum = np.fft.rfft(draw.standard_normal(len(samples)))
    pink = np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(len(spectrum)), 1)), len(samples))
    return samples, samples + level * white, samples + level * pink / max(float(pink.std()), 1e-9)
