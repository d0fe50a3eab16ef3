"""Recognises words with pocketsphinx and a language model of the manuscript near the position.

The language model contains only the manuscript's words and word sequences, so the recogniser
locates the manuscript instead of transcribing freely (Moreno et al. 1998, "A recursive algorithm
for the forced alignment of very long audio segments"). `certainty` compares a word with a free
phone loop, like the goodness of pronunciation of Witt and Young (2000).
"""

import importlib
import io
import math
import re
import tempfile
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from extras.cut.recordings import LISTENING_RATE, CuttingError
from machine import commands
from xtts.text.pronunciations import PHONES, to_phones

if TYPE_CHECKING:
    from pocketsphinx import Decoder, Segment

_FRAME_SECONDS = 0.01
# The scores of the free phone loop are divided by 2^10; those of an alignment are not.
_FREE_SCORE_SCALE = 1024.0
# A shorter word has too few frames to be judged by their mean.
_MIN_JUDGED_FRAMES = 20
# Silence, noise and the start of a sentence have names such as <sil> and [NOISE].
_FILLER_BRACKETS = "<[("
_ARPABET = {letter: "AH" if phone == "AX" else phone for phone, letter in PHONES.items()}
_PEAK = 0.7


class HeardWord(NamedTuple):
    """A recognised word, with its times in seconds. certainty: nats per frame against the free
    phone loop; nearer to 0 is more certain, None if it was not computed."""

    text: str
    start: float
    end: float
    certainty: float | None = None


class TextRecogniser:
    """pocketsphinx, for English. Raises CuttingError if it is not installed."""

    def __init__(self) -> None:
        try:
            # Imported by name, because it is an optional extra.
            self._sphinx = importlib.import_module("pocketsphinx")
        except ImportError:
            raise CuttingError(
                "A text without times needs pocketsphinx, which is not installed. It has "
                "wheels for Python 3.11 and 3.13. Install it with "
                f"`{commands.install('pocketsphinx')}`, or give a text with times (srt, vtt, lab, "
                "TextGrid)."
            ) from None
        self._decoder: Decoder  # made by `_expect`
        self._expected_words: tuple[str, ...] | None = None

    def hear(self, expected: Sequence[str], samples: np.ndarray, start: float) -> list[HeardWord]:
        """Recognises [samples] at 16 kHz, which begin at `start` seconds, with a language model of
        the expected words."""
        if self._expected_words != tuple(expected):
            self._expect(expected)
        return [
            HeardWord(
                _spelling_of(segment.word),
                start + segment.start_frame * _FRAME_SECONDS,
                start + (segment.end_frame + 1) * _FRAME_SECONDS,
            )
            for segment in _word_segments(self._decoder, samples)
        ]

    def align(self, samples: np.ndarray, words: Sequence[str], start: float) -> list[HeardWord]:
        """Aligns `words` with [samples] and computes their certainty; empty if they cannot be
        aligned."""
        for word in set(words):
            if self._dictionary.lookup_word(word) is None:
                self._dictionary.add_word(word, _pronounce(word))
        try:
            self._dictionary.set_align_text(" ".join(words))
            segments = _word_segments(self._dictionary, samples)
        except RuntimeError:
            return []
        if [_spelling_of(segment.word) for segment in segments] != list(words):
            return []
        free_scores = self._free_scores(samples)
        return [_word_with_certainty(segment, free_scores, start) for segment in segments]

    def _expect(self, words: Sequence[str]) -> None:
        """Makes the decoder for a language model of these words."""
        with tempfile.TemporaryDirectory() as folder:
            model, dictionary = Path(folder) / "words.lm", Path(folder) / "words.dict"
            self._write_dictionary(sorted(set(words)), dictionary)
            trigrams = importlib.import_module("pocketsphinx.lm").ArpaBoLM()
            trigrams.read_corpus(io.StringIO(f"<s> {' '.join(words)} </s>\n"))
            trigrams.compute()
            with model.open("w", encoding="utf-8") as file:
                trigrams.write(file)
            # One pass: the second and third double the time and find the same words.
            self._decoder = self._sphinx.Decoder(
                samprate=LISTENING_RATE,
                loglevel="FATAL",
                lm=str(model),
                dict=str(dictionary),
                fwdflat=False,
                bestpath=False,
            )
        self._expected_words = tuple(words)

    def _free_scores(self, samples: np.ndarray) -> np.ndarray:
        """The log-likelihood of each 10 ms frame, in nats, by the best-fitting phones."""
        _decode(self._phone_loop, samples)
        scores = np.zeros(len(samples) // 160 + 8)
        for segment in self._phone_loop.seg() or ():
            frames = slice(segment.start_frame, segment.end_frame + 1)
            num_frames = segment.end_frame + 1 - segment.start_frame
            scores[frames] = _FREE_SCORE_SCALE * _log_score(segment) / num_frames
        return scores

    def _write_dictionary(self, words: Sequence[str], path: Path) -> None:
        lines = list[str]()
        for word in words:
            pronunciation = self._dictionary.lookup_word(word)
            lines.append(f"{word} {pronunciation or _pronounce(word)}")
            number = 2
            while pronunciation and (variant := self._dictionary.lookup_word(f"{word}({number})")):
                lines.append(f"{word}({number}) {variant}")
                number += 1
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    @cached_property
    def _dictionary(self) -> "Decoder":
        return self._sphinx.Decoder(samprate=LISTENING_RATE, loglevel="FATAL", lm=None)

    @cached_property
    def _phone_loop(self) -> "Decoder":
        phones = self._sphinx.get_model_path("en-us/en-us-phone.lm.bin")
        return self._sphinx.Decoder(
            samprate=LISTENING_RATE,
            loglevel="FATAL",
            lm=None,
            allphone=phones,
            lw=2.0,
            beam=1e-20,
            pbeam=1e-20,
        )


def heard_words(expected: Sequence[str], samples: np.ndarray, start: float) -> list[HeardWord]:
    """Recognises the expected words in [samples] at 16 kHz. Pure, so that it can be a step."""
    return text_recogniser().hear(expected, samples, start)


def aligned_words(words: Sequence[str], samples: np.ndarray, start: float) -> list[HeardWord]:
    """As `TextRecogniser.align`. Pure, so that it can be a step."""
    return text_recogniser().align(samples, words, start)


@cache
def text_recogniser() -> TextRecogniser:
    """This process's recogniser, kept because its models take a second to load."""
    return TextRecogniser()


def _decode(decoder: "Decoder", samples: np.ndarray) -> None:
    # Resets the noise estimate, so that a resumed run recognises the same words as an
    # uninterrupted one.
    decoder.reinit_feat()
    scaled = samples / max(float(np.abs(samples).max(initial=0.0)), 1e-4) * _PEAK
    decoder.start_utt()
    decoder.process_raw((scaled * 32767).astype("<i2").tobytes(), full_utt=True)
    decoder.end_utt()


def _word_segments(decoder: "Decoder", samples: np.ndarray) -> "list[Segment]":
    """The decoded words of [samples] at 16 kHz."""
    _decode(decoder, samples)
    return [segment for segment in decoder.seg() or () if segment.word[0] not in _FILLER_BRACKETS]


def _word_with_certainty(segment: "Segment", free_scores: np.ndarray, start: float) -> HeardWord:
    """A word of samples that begin at `start` seconds."""
    frames = slice(segment.start_frame, segment.end_frame + 1)
    num_frames = segment.end_frame + 1 - segment.start_frame
    gain = _log_score(segment) - float(free_scores[frames].sum())
    word_start = start + segment.start_frame * _FRAME_SECONDS
    return HeardWord(
        _spelling_of(segment.word),
        word_start,
        word_start + num_frames * _FRAME_SECONDS,
        gain / max(num_frames, _MIN_JUDGED_FRAMES),
    )


def _log_score(segment: "Segment") -> float:
    """The acoustic score in nats."""
    return math.log(max(segment.ascore, 1e-300))


def _spelling_of(word: str) -> str:
    """A word of the dictionary without the number of its pronunciation."""
    return re.sub(r"\(\d+\)$", "", word)


def _pronounce(word: str) -> str:
    """The pronunciation of a word that the dictionary lacks, by the rules of our front-end."""
    letters = [_ARPABET[letter] for letter in to_phones(word) if letter in _ARPABET]
    return " ".join(letters) or "AH"
