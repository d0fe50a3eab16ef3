"""The accent of a run's candidates, as a further judge of its evaluation.

It hears the validation clips that pocketsphinx can align, and each candidate's sounds of their
texts (`train.evaluation.further_judges`).
"""

import importlib.util
import logging
from collections.abc import Sequence
from pathlib import Path

from extras.accent.chart import chart_vowels, example_word
from extras.accent.child import ListeningChild
from extras.accent.hearing import HeardVowels
from extras.accent.vowel_model import RATE
from extras.accent.way import MIN_SENTENCES, AccentFigure, VowelSums
from machine.text import enumeration, quantity
from train.dataset.dataset import Clip
from xtts.voices.evaluation_file import FurtherFigure, JudgeDescription

log = logging.getLogger("train")

# With fewer, chosen_clip person in ten is taken for another (docs/develop/evaluation.md).
MIN_CLIPS, MIN_SECONDS = 10, 40.0
# More clips than are needed, because a candidate may fail some.
_SPARE_CLIPS = 2
_MEANING = (
    "How far the vowels are on the way from the base's (0) to the person's (1), by the sentences of clips "
    "that nothing learned from. It is measured to inform, and does not choose the best."
)


class AccentJudge:
    """As `train.evaluation.further_judges.FurtherJudge`; it chooses among `clips`."""

    name = "accent"

    def __init__(self, clips: Sequence[Clip], language: str) -> None:
        self._listener = ListeningChild()
        self._heard: dict[Path, HeardVowels | None] = {}
        self._has_logged_no_accent = False
        self.clips: Sequence[Clip] = ()
        # Too few clips need no listening, which takes seconds.
        absence_reason = _cannot_judge(language) or _too_little_speech(clips)
        if absence_reason is None:
            chosen = self._choose_clips(clips)
            absence_reason = _too_little_speech(chosen)
            self.clips = () if absence_reason else chosen
        self.description = JudgeDescription("share", "higher", _MEANING, absent=absence_reason, further=True)

    def figure(self, base: Sequence[Path], candidate: Sequence[Path]) -> FurtherFigure | None:
        """A candidate's figure; None if too few sentences are left, or base and person sound alike."""
        person = [clip.path for clip in self.clips]
        rows = [self._hear_sentence(*row) for row in zip(base, person, candidate, self.clips, strict=True)]
        voices = [list(voice) for voice in zip(*filter(None, rows), strict=True)]
        if not voices or len(voices[0]) < MIN_SENTENCES:
            return None
        figure = VowelSums(*voices).accent_figure()
        if figure is not None:
            low, high = figure.interval
            return FurtherFigure(
                round(figure.place, 4),
                round(low, 4),
                round(high, 4),
                len(voices[0]),
                _note(figure),
                {"vowels": chart_vowels(figure, *voices)},
            )
        if not self._has_logged_no_accent:
            self._has_logged_no_accent = True
            log.info("No accent: base and person cannot be distinguished by %d sentences.", len(voices[0]))
        return None

    def _choose_clips(self, clips: Sequence[Clip]) -> list[Clip]:
        """The first clips that can be aligned, until they are enough."""
        chosen = list[Clip]()
        for clip in clips:
            seconds = sum(clip.seconds for clip in chosen)
            if len(chosen) >= MIN_CLIPS + _SPARE_CLIPS and seconds >= MIN_SECONDS:
                break
            if self._hear(clip.path, clip.text):
                chosen.append(clip)
        return chosen

    def _hear_sentence(
        self, base: Path, person: Path, candidate: Path, clip: Clip
    ) -> list[HeardVowels] | None:
        """The three voices' vowels of a sentence; None if one of them cannot be heard."""
        heard = [self._hear(path, clip.text) for path in (base, person, candidate)]
        return [sentence for sentence in heard if sentence] if all(heard) else None

    def _hear(self, path: Path, text: str) -> HeardVowels | None:
        from xtts import audio

        if path not in self._heard and path.is_file():
            self._heard[path] = self._listener.hear(audio.read(path, RATE).numpy(), text)
        return self._heard.get(path)


def judge_of(clips: Sequence[Clip], language: str) -> AccentJudge:
    """The judge of a person."""
    return AccentJudge(clips, language)


def _cannot_judge(language: str) -> str | None:
    if language.split("-")[0] != "en":
        return "it is measured in English only"
    if importlib.util.find_spec("pocketsphinx") is None:
        return "pocketsphinx is not installed; it has wheels for Python 3.11 and 3.13"
    return None


def _too_little_speech(clips: Sequence[Clip]) -> str | None:
    seconds = sum(clip.seconds for clip in clips)
    if len(clips) >= MIN_CLIPS and seconds >= MIN_SECONDS:
        return None
    return (
        f"it needs {MIN_CLIPS} validation clips of {MIN_SECONDS:.0f} s in all; "
        f"{quantity(len(clips), 'validation clip')} of {seconds:.0f} s can be used"
    )


def _note(figure: AccentFigure) -> str:
    words = [example_word(vowel) for vowel in figure.reached]
    if not words:
        return ""
    verb = "vowel of {} is" if len(words) == 1 else "vowels of {} are"
    return f"The {verb.format(enumeration(words))} now nearer to the person's than to the base's."
