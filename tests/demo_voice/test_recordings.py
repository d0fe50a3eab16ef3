"""Real people's recordings become phrases with their words."""

import math

import soundfile
import torch

from demo_voice.teachers import recordings
from demo_voice.teachers.hibari import RATE


def speech(*seconds: float) -> torch.Tensor:
    """Sound and silence in turn."""
    parts = []
    for number, length in enumerate(seconds):
        time = torch.arange(int(length * RATE)) / RATE
        parts.append((number % 2 == 0) * 0.3 * torch.sin(2 * math.pi * 150 * time))
    return torch.cat(parts)


def test_a_reading_is_divided_at_the_pause_that_fits_its_comma():
    sound = speech(3.0, 0.4, 3.0)
    words = "She waited for the early train to come home, and then he read the paper by the window."
    (first, before), (second, after) = recordings.split_at_pauses(sound, words)
    assert (before[-5:], after[:3]) == ("home,", "and")
    assert abs(len(first) / RATE - 3.2) < 0.1
    assert abs(len(second) / RATE - 3.2) < 0.1


def test_a_pause_that_no_mark_fits_does_not_divide():
    words = "Yes, and after that the whole of the family went slowly to the house on the hill."
    assert len(recordings.split_at_pauses(speech(3.0, 0.4, 3.0), words)) == 1


def test_words_that_cannot_be_those_of_the_sound_are_left_out():
    assert recordings.split_at_pauses(speech(6.0), "Yes.") == []


def test_a_recording_with_figures_in_its_words_is_left_out():
    words = "The days for an adult are 10 minutes, and after that they all went home."
    assert recordings.split_at_pauses(speech(6.0), words) == []


def test_a_person_with_little_speech_counts_as_five(tmp_path):
    soundfile.write(tmp_path / "a.wav", speech(4.0).numpy(), RATE)
    line = "a.wav|anna|The whole of the family went to the house on the hill.\n"
    (tmp_path / "metadata.csv").write_text(line, encoding="utf-8")
    phrases = list(recordings.read(tmp_path))
    assert [phrase.person for phrase in phrases] == [
        "anna",
        "anna@0.87",
        "anna@0.93",
        "anna@1.08",
        "anna@1.16",
    ]
    pitches = [recordings.to_clip(phrase).pitch for phrase in phrases]
    heights = [2.0 ** float(pitch[pitch > 0].mean()) for pitch in pitches]
    assert [round(height / heights[0], 2) for height in heights] == [1.0, 0.87, 0.93, 1.08, 1.16]
