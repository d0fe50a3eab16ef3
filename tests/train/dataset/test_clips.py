"""One clip: what its recording and its text are, each looked at once."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from machine.storage.file_cache import FileCache
from tests.datasets import a_sound
from train.dataset import clips
from train.dataset.clips import Clip, DecodedClip, RejectedClip, check_clip, decode_clip
from train.dataset.entries import TranscriptEntry
from xtts.text.errors import TextError

RATE = 22_050
SOUND = DecodedClip(1.0, "a" * 64)


class Letters:
    """A token for each letter of a to z."""

    max_tokens = 5
    fingerprint = "letters"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, text: str, language: str) -> list[int]:
        self.asked.append(text)
        if language == "ja":
            raise TextError("Japanese needs its extra.") from ImportError("cutlet")
        if text == "cannot":
            raise TextError("This cannot be read.")
        return [ord(letter) for letter in text]

    def unknown(self, text: str, _language: str) -> list[str]:
        return [letter for letter in text if not letter.isalpha()]


def entry(path: Path = Path("a.wav"), text: str = "hello", language: str = "en") -> TranscriptEntry:
    return TranscriptEntry("a", path, text, "s", language)


def recorded(folder: Path, waveform: np.ndarray) -> TranscriptEntry:
    soundfile.write(folder / "a.wav", waveform, RATE, subtype="FLOAT")
    return entry(folder / "a.wav")


@pytest.fixture
def cache(tmp_path: Path) -> FileCache:
    return FileCache(tmp_path / "cache.json")


def test_a_recording_is_decoded_once(
    tmp_path: Path, cache: FileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = recorded(tmp_path, a_sound(1.0, RATE))
    found = decode_clip(row, cache, 11.6)
    assert (found.seconds, found.seen, len(found.sha256)) == (1.0, "", 64)
    monkeypatch.setattr(clips, "read_audio", None)
    assert decode_clip(row, cache, 11.6) == found


@pytest.mark.parametrize(
    ("waveform", "seen", "allowed"),
    [
        (a_sound(0.2, RATE), "0.20 s", "0.5 to 2.0 s"),
        (a_sound(3.0, RATE), "3.00 s", "0.5 to 2.0 s"),
        (np.zeros(RATE, np.float32), "silence (peak 0.0e+00)", "a peak above 0.001"),
        (30_000 * a_sound(1.0, RATE), "a peak of ", "samples from -1 to 1"),
    ],
)
def test_what_was_seen_of_a_bad_recording_and_what_is_allowed(
    tmp_path: Path, cache: FileCache, waveform: np.ndarray, seen: str, allowed: str
) -> None:
    found = decode_clip(recorded(tmp_path, waveform), cache, 2.0)
    assert found.seen.startswith(seen) and found.allowed == allowed


def test_a_file_that_is_not_there_is_asked_for_again(tmp_path: Path, cache: FileCache) -> None:
    row = entry(tmp_path / "a.wav")
    assert decode_clip(row, cache, 2.0).seen == f"no file {tmp_path / 'a.wav'}"
    recorded(tmp_path, a_sound(1.0, RATE))
    assert decode_clip(row, cache, 2.0).seen == ""


def test_a_text_is_read_once(cache: FileCache) -> None:
    tokenizer = Letters()
    for _ in range(2):
        found = check_clip(entry(text="abc"), SOUND, cache, tokenizer)
        assert isinstance(found, Clip) and found.tokens == (97, 98, 99)
    assert tokenizer.asked == ["abc"]


@pytest.mark.parametrize(
    ("text", "seen", "allowed"),
    [
        ("  ", "an empty text", "what is spoken in the clip"),
        ("a+b", "unknown characters '+'", "characters of the vocabulary"),
        ("abcdef", "6 tokens of text", "at most 5"),
        ("cannot", "This cannot be read.", "text that the model can read"),
    ],
)
def test_a_text_that_cannot_be_used(cache: FileCache, text: str, seen: str, allowed: str) -> None:
    found = check_clip(entry(text=text), SOUND, cache, Letters())
    assert found == RejectedClip("a", seen, allowed)


def test_a_language_without_its_extra_is_no_fault_of_the_clip(cache: FileCache) -> None:
    with pytest.raises(TextError, match="extra"):
        check_clip(entry(language="ja"), SOUND, cache, Letters())


def test_a_bad_recording_is_told_before_its_text(cache: FileCache) -> None:
    found = check_clip(
        entry(text=""), DecodedClip(seen="silence", allowed="sound"), cache, Letters()
    )
    assert found == RejectedClip("a", "silence", "sound")


def test_a_clip_is_its_content_whatever_it_is_called(cache: FileCache) -> None:
    one = check_clip(entry(text="abc"), SOUND, cache, Letters())
    assert isinstance(one, Clip)
    assert replace(one, name="other", path=Path("b.wav")).sha256 == one.sha256
    changed = [replace(one, text="abd"), replace(one, speaker="t"), replace(one, audio_sha256="b")]
    assert len({one.sha256, *(other.sha256 for other in changed)}) == 4
