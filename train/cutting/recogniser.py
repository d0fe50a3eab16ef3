"""Recognises words with pocketsphinx and a language model of the manuscript near the position.

The model knows nothing but the manuscript's words and sequences, so it never gives a text: it says
where the manuscript is heard (Moreno et al. 1998, "A recursive algorithm for the forced alignment
of very long audio segments"). `certainty` compares words with a free loop over phones, the
goodness of pronunciation of Witt and Young (2000).
"""

import importlib
import io
import math
import re
import tempfile
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from train.cutting.recordings import LISTENING_RATE, CuttingError
from xtts.text.phonemes import PHONES, to_phones

_FRAME_SECONDS = 0.01
# The free loop's scores come divided by 2^10, those of an alignment whole.
_FREE_SCALE = 1024.0
# A short word has too few frames to be judged by their mean.
_FEWEST_FRAMES = 20
_FILLERS = "<[("
_ARPABET = {letter: "AH" if phone == "AX" else phone for phone, letter in PHONES.items()}
_LOUDNESS = 0.7


class HeardWord(NamedTuple):
    """A word with its start and end in seconds; certainty: nats a frame against any phones, nearer
    to 0 is surer, None where it was not computed."""

    text: str
    start: float
    end: float
    certainty: float | None = None


class TextRecogniser:
    """pocketsphinx, for English. Raises CuttingError where it is not installed."""

    def __init__(self) -> None:
        try:
            # By name: an extra that the programs run without.
            self._sphinx: Any = importlib.import_module("pocketsphinx")
        except ImportError:
            raise CuttingError(
                "A text without times needs pocketsphinx, which is not installed. It has "
                "wheels for Python 3.11 and 3.13. Install it with: .venv/bin/python -m pip install "
                "pocketsphinx, or give a text with times (srt, vtt, lab, TextGrid)."
            ) from None
        self._expected: Any = None
        self._words: tuple[str, ...] | None = None

    def hear(self, expected: Sequence[str], samples: np.ndarray, start: float) -> list[HeardWord]:
        """The words in [samples] at 16 kHz, which begin at `start` seconds, by a language model of
        those that may come next."""
        if self._words != tuple(expected):
            self._expect(expected)
        _listen(self._expected, samples)
        return [
            HeardWord(_spelled(one.word), start + one.start_frame * _FRAME_SECONDS,
                      start + (one.end_frame + 1) * _FRAME_SECONDS)
            for one in self._expected.seg() or ()
            if one.word[0] not in _FILLERS
        ]  # fmt: skip

    def align(self, samples: np.ndarray, words: Sequence[str], start: float) -> list[HeardWord]:
        """Each of `words` where it is in [samples], with its certainty; none where it cannot be."""
        for word in set(words):
            if self._dictionary.lookup_word(word) is None:
                self._dictionary.add_word(word, _pronounced(word))
        try:
            self._dictionary.set_align_text(" ".join(words))
            _listen(self._dictionary, samples)
            segments = [one for one in self._dictionary.seg() or () if one.word[0] not in _FILLERS]
        except RuntimeError:
            return []
        if [_spelled(one.word) for one in segments] != list(words):
            return []
        free = self._free_scores(samples)
        return [_certain(one, free, start) for one in segments]

    def _expect(self, words: Sequence[str]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            model, dictionary = Path(folder) / "words.lm", Path(folder) / "words.dict"
            self._write_dictionary(sorted(set(words)), dictionary)
            trigrams = importlib.import_module("pocketsphinx.lm").ArpaBoLM()
            trigrams.read_corpus(io.StringIO(f"<s> {' '.join(words)} </s>\n"))
            trigrams.compute()
            with model.open("w", encoding="utf-8") as file:
                trigrams.write(file)
            # One pass: the second and third cost twice the time and find the same words.
            self._expected = self._sphinx.Decoder(
                samprate=LISTENING_RATE, loglevel="FATAL", lm=str(model), dict=str(dictionary),
                fwdflat=False, bestpath=False,
            )  # fmt: skip
        self._words = tuple(words)

    def _free_scores(self, samples: np.ndarray) -> np.ndarray:
        """Nats of each frame of 10 ms by whatever phones fit best."""
        _listen(self._phones, samples)
        scores = np.zeros(len(samples) // 160 + 8)
        for one in self._phones.seg() or ():
            frames = slice(one.start_frame, one.end_frame + 1)
            scores[frames] = _FREE_SCALE * _nats(one) / (one.end_frame + 1 - one.start_frame)
        return scores

    def _write_dictionary(self, words: Sequence[str], path: Path) -> None:
        lines = list[str]()
        for word in words:
            known = self._dictionary.lookup_word(word)
            lines.append(f"{word} {known or _pronounced(word)}")
            number = 2
            while known and (other := self._dictionary.lookup_word(f"{word}({number})")):
                lines.append(f"{word}({number}) {other}")
                number += 1
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    @cached_property
    def _dictionary(self) -> Any:
        return self._sphinx.Decoder(samprate=LISTENING_RATE, loglevel="FATAL", lm=None)

    @cached_property
    def _phones(self) -> Any:
        phones = self._sphinx.get_model_path("en-us/en-us-phone.lm.bin")
        return self._sphinx.Decoder(
            samprate=LISTENING_RATE, loglevel="FATAL", lm=None, allphone=phones, lw=2.0,
            beam=1e-20, pbeam=1e-20,
        )  # fmt: skip


def heard_words(expected: Sequence[str], samples: np.ndarray, start: float) -> list[HeardWord]:
    """What of the expected words is heard in [samples] at 16 kHz. Pure, so that it is a step."""
    return text_recogniser().hear(expected, samples, start)


def aligned_words(words: Sequence[str], samples: np.ndarray, start: float) -> list[HeardWord]:
    """As `TextRecogniser.align`. Pure, so that it is a step."""
    return text_recogniser().align(samples, words, start)


@cache
def text_recogniser() -> TextRecogniser:
    """This process's own: its models take a second to load."""
    return TextRecogniser()


def _listen(decoder: Any, samples: np.ndarray) -> None:
    # Afresh each time: it would carry its estimate of the noise along, and a run that was killed
    # and begun again would hear otherwise than one that was not.
    decoder.reinit_feat()
    loud = samples / max(float(np.abs(samples).max(initial=0.0)), 1e-4) * _LOUDNESS
    decoder.start_utt()
    decoder.process_raw((loud * 32767).astype("<i2").tobytes(), full_utt=True)
    decoder.end_utt()


def _certain(segment: Any, free: np.ndarray, start: float) -> HeardWord:
    frames = slice(segment.start_frame, segment.end_frame + 1)
    length = segment.end_frame + 1 - segment.start_frame
    certainty = (_nats(segment) - float(free[frames].sum())) / max(length, _FEWEST_FRAMES)
    begins = start + segment.start_frame * _FRAME_SECONDS
    return HeardWord(_spelled(segment.word), begins, begins + length * _FRAME_SECONDS, certainty)


def _nats(segment: Any) -> float:
    return math.log(max(segment.ascore, 1e-300))


def _spelled(word: str) -> str:
    return re.sub(r"\(\d+\)$", "", word)


def _pronounced(word: str) -> str:
    """A word that the dictionary lacks, by the rules of our own front-end."""
    letters = [_ARPABET[letter] for letter in to_phones(word) if letter in _ARPABET]
    return " ".join(letters) or "AH"
