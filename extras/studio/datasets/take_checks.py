"""Checks a take, trims it and describes its faults in sentences; runs only in the child process.

A take is one sentence, read aloud. All functions are pure except for the given recogniser.
"""

import re
from collections.abc import Callable, Mapping

import numpy as np

from api.voices import decoding, samples
from api.voices.samples import resampled
from train.dataset.entries import MAX_CLIP_SECONDS, MIN_CLIP_SECONDS
from xtts.evaluation.recogniser import RATE, num_errors
from xtts.speech_span import HOP_SECONDS, SILENT_PEAK, frame_levels, spoken_frames
from xtts.text.normalization.registry import rules_of

Array = np.ndarray
Finding = tuple[str, str]

MARGIN_SECONDS = 0.15
# A take with one of these findings cannot be a clip.
UNUSABLE_KINDS = frozenset({"silent", "no_speech", "short", "long"})
# A take is cut off if its first or last EDGE_SECONDS have MIN_EDGE_FRAMES with speech in a row. The
# click of a key is shorter. These values and MAX_WRONG_SHARE were chosen on other sentences than
# those of the published figures: `tests/extras/studio/datasets/takes.py`.
EDGE_SECONDS, MIN_EDGE_FRAMES = 0.12, 3
# The lowest level of speech, relative to the loud frames and to the quiet ones.
MIN_OVER_LOUD_DB, MIN_OVER_NOISE_DB = -30.0, 10.0
# The maximum share of the sentence's words that may be recognised wrongly: the recogniser makes
# mistakes too.
MAX_WRONG_SHARE = 0.7
_MAX_PAGE_LEVELS = 120


def check(
    mono: Array, rate: int, text: str, language: str, hear: Callable[[Array], str] | None
) -> tuple[bytes, dict[str, object]]:
    """A take without the silence around it, and the findings.

    Args:
        mono: The recorded samples `[n]`, -1..1.
        rate: Samples per second.
        text: The sentence to read.
        language: The code of its language.
        hear: Recognises the words of samples at 16 kHz; None without a recogniser for the language.

    Returns:
        A mono 16-bit WAV file, empty without speech; and the fields of
        `extras.studio.take_schemas.CheckedTake`.
    """
    if not len(mono) or float(np.abs(mono).max()) < SILENT_PEAK:
        sentence = f"{decoding.SILENCE} Check that the right microphone is chosen and not muted."
        return b"", _findings_row([("silent", sentence)], 0.0, [], "")
    try:
        measured = samples.measure(mono, rate)
    except ValueError:
        sentence = "It holds a steady tone or noise, and no speech. Check the microphone."
        return b"", _findings_row([("no_speech", sentence)], 0.0, [], "")
    levels = frame_levels(mono, rate)
    trimmed = _trim(mono, rate, levels)
    seconds = len(trimmed) / rate
    findings = [*_length_findings(seconds), *_sound_findings(measured), *_edge_findings(levels)]
    heard = ""
    if hear and seconds <= MAX_CLIP_SECONDS:
        heard = hear(resampled(trimmed, rate, RATE))
        findings += _word_findings(text, heard, language)
    return samples.wav_of(trimmed, rate), _findings_row(
        findings, seconds, _levels_for_page(trimmed, rate), heard
    )


def _findings_row(
    findings: list[Finding], seconds: float, levels: list[int], heard: str
) -> dict[str, object]:
    return {
        "findings": [{"kind": kind, "sentence": sentence} for kind, sentence in findings],
        "usable": not UNUSABLE_KINDS & {kind for kind, _ in findings},
        "seconds": round(seconds, 3),
        "levels": levels,
        "heard": heard,
    }


def _trim(mono: Array, rate: int, levels: Array) -> Array:
    first, last = spoken_frames(levels)
    start = max(0.0, first * HOP_SECONDS - MARGIN_SECONDS)
    end = (last + 1) * HOP_SECONDS + MARGIN_SECONDS
    return mono[round(start * rate) : round(end * rate)]


def _length_findings(seconds: float) -> list[Finding]:
    if seconds > MAX_CLIP_SECONDS:
        limit = f"a clip has at most {MAX_CLIP_SECONDS:g} s"
        advice = "Read it faster, or skip this sentence."
        return [("long", f"It is {seconds:.1f} s long; {limit}. {advice}")]
    if seconds < MIN_CLIP_SECONDS:
        limit = f"a clip needs {MIN_CLIP_SECONDS:g} s"
        return [("short", f"It has {seconds:.1f} s of sound; {limit}. Read the whole sentence.")]
    return []


def _sound_findings(measured: Mapping[str, float]) -> list[Finding]:
    """Findings by the limits for recordings of voices."""
    findings = []
    level_db, snr_db = measured["level_db"], measured["snr_db"]
    if level_db < samples.GOOD_LEVEL_DB:
        findings.append(
            ("quiet", f"It is quiet ({level_db:.0f} dB). Come closer to the microphone, or raise its level.")
        )
    if snr_db < samples.GOOD_SNR_DB:
        findings.append(
            (
                "noisy",
                f"The voice is only {snr_db:.0f} dB over the noise; the trained "
                "voice would learn the noise too. Record in a quiet room.",
            )
        )
    if (clipped := measured["clipped_share"]) > samples.MAX_CLIPPED:
        findings.append(
            (
                "clipped",
                f"It is clipped ({clipped:.1%} of its samples). Lower the level "
                "of the microphone, or move away from it.",
            )
        )
    return findings


def _edge_findings(levels: Array) -> list[Finding]:
    edge_frames = round(EDGE_SECONDS / HOP_SECONDS)
    loud, quiet = np.percentile(levels, 95), np.percentile(levels, 5)
    active = levels > max(loud + MIN_OVER_LOUD_DB, quiet + MIN_OVER_NOISE_DB)
    findings = []
    if _has_long_run(active[:edge_frames]):
        findings.append(
            (
                "cut_start",
                "It begins in the middle of speech. Wait half a second between "
                "starting the recording and reading.",
            )
        )
    if _has_long_run(active[-edge_frames:]):
        findings.append(
            ("cut_end", "It ends in the middle of speech. Wait half a second before stopping the recording.")
        )
    return findings


def _has_long_run(active: Array) -> bool:
    runs = np.convolve(active, np.ones(MIN_EDGE_FRAMES), "valid")
    return bool((runs >= MIN_EDGE_FRAMES).any())


def _word_findings(text: str, heard: str, language: str) -> list[Finding]:
    expected, words = words_in(text, language), words_in(heard, language)
    errors = num_errors(expected, words)
    if not expected or errors / len(expected) <= MAX_WRONG_SHARE:
        return []
    result = f"heard “{heard}”" if words else "heard no words"
    return [
        (
            "words",
            f"These are probably not the words of the sentence: the recogniser {result}. "
            "Read it again, or keep it if you read it correctly.",
        )
    ]


def words_in(text: str, language: str) -> list[str]:
    """The words of a text in lower case, with numbers as words."""
    rules = rules_of(language.partition("-")[0])
    read = rules.read(text) if rules else text
    return re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)*", read.lower())


def _levels_for_page(samples: Array, rate: int) -> list[int]:
    """The waveform for the page: at most `_MAX_PAGE_LEVELS` levels in dB."""
    levels = frame_levels(samples, rate)
    return [round(float(part.max())) for part in np.array_split(levels, min(_MAX_PAGE_LEVELS, len(levels)))]
