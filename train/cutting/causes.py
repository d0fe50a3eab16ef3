"""Why little or nothing could be cut, and what to do about it. Pure."""

import itertools
from collections.abc import Sequence

import numpy as np

from train.cutting.manuscript import Manuscript
from train.cutting.planning import CLIPPED, IN_A_CLIP, NOISE, SILENCE, TOO_LONG, TOO_SHORT, UNSURE
from train.cutting.profile import LEVEL_SECONDS, SoundProfile, speech_spans
from train.cutting.recogniser import HeardWord

# Of 10 ms frames of speech: a loud take has under 1 %.
_CLIPPED_SHARE = 0.05
# Shorter sentences are heard by chance in any recording.
_FEWEST_WORDS = 4
_LITTLE_SHARE = 0.5
_REMEDIES = {
    UNSURE: "compare the text with what is said there (report.html), mend it, and cut again",
    TOO_LONG: "it has no pauses of 0.12 s; record with pauses, and without music under the voice",
    TOO_SHORT: "whole sentences are needed, not single words",
    CLIPPED: "it was recorded too loud; record it again at a lower level",
}


def clipping(profiles: Sequence[SoundProfile]) -> str:
    """A sentence where so much of the speech is clipped that its words cannot be heard; else ""."""
    frames = [
        one.clipped[int(start / LEVEL_SECONDS) : int(end / LEVEL_SECONDS)]
        for one in profiles
        for start, end in speech_spans(one.speech)
    ]
    share = float(np.concatenate(frames).mean()) if frames else 0.0
    if share < _CLIPPED_SHARE:
        return ""
    return (
        f" {share:.0%} of the speech is clipped: it was recorded too loud, and its words cannot be "
        "heard surely. Record it again at a lower level."
    )


def heard_whole(heard: Sequence[HeardWord], text: Manuscript) -> list[int]:
    """The sentences that are heard word by word exactly once, in the order of the recording, be it
    that of the text or not."""
    said = [one.text for one in heard]
    places: dict[tuple[str, ...], list[int]] = {}
    for words in text.words_of_sentence:
        if len(words) >= _FEWEST_WORDS:
            places.setdefault(tuple(text.words[word] for word in words), [])
    for length in {len(words) for words in places}:
        for place in range(len(said) - length + 1):
            if (found := places.get(tuple(said[place : place + length]))) is not None:
                found.append(place)
    at = {}
    for number, words in enumerate(text.words_of_sentence):
        found = places.get(tuple(text.words[word] for word in words), [])
        if len(found) == 1:
            at[number] = found[0]
    return sorted(at, key=lambda number: at[number])


def wrong_order(heard: Sequence[HeardWord], text: Manuscript) -> str:
    """A sentence where most of the text is heard, in another order than it is written; else ""."""
    order = heard_whole(heard, text)
    if 2 * len(order) < len(text.sentences):
        return ""
    for early, later in itertools.pairwise(order):
        if later < early:
            return (
                " Its sentences are spoken in another order than they are written: sentence "
                f"{early + 1} before sentence {later + 1}. Put the text in the order of the "
                "recording."
            )
    return ""


def little_kept(totals: Sequence[dict[str, float]]) -> str:
    """A sentence where less than half of the speech is in clips; else "". totals: of each
    recording, seconds by reason."""
    together = summed(totals)
    speech = {
        reason: seconds
        for reason, seconds in together.items()
        if reason not in (IN_A_CLIP, SILENCE, NOISE)
    }
    kept, left = together.get(IN_A_CLIP, 0.0), sum(speech.values())
    if kept >= _LITTLE_SHARE * (kept + left):
        return ""
    worst = max(speech, key=lambda reason: speech[reason])
    return (
        f"Only {kept:.0f} of {kept + left:.0f} s of speech are in clips, which is little to train "
        f"on. Most of the rest ({speech[worst]:.0f} s) is left out as {worst!r}: "
        f"{_REMEDIES[worst]}."
    )


def summed(totals: Sequence[dict[str, float]]) -> dict[str, float]:
    """Seconds by reason of all recordings together, most first."""
    found: dict[str, float] = {}
    for one in totals:
        for reason, seconds in one.items():
            found[reason] = found.get(reason, 0.0) + seconds
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
