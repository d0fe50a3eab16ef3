"""Transcripts by a recogniser that the user names; clipped sound."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from extras.cut import cutter
from extras.cut.cutter import clipping_warning, transcript_of
from extras.cut.profile import SoundProfile
from tests.extras.cut.recordings import account_of, cut
from tests.tapes import join_demo
from train.dataset.metadata import read_entries

NUMBERS = [1, 2, 3, 5, 7, 8]


class Ear:
    """Transcribes each clip as its length, except the second, in which it recognises nothing."""

    def __init__(self, fails_at: int = 99) -> None:
        self.heard = list[float]()
        self._fails_at = fails_at

    def hear(self, samples: np.ndarray) -> str:
        if len(self.heard) + 1 == self._fails_at:
            raise KeyboardInterrupt
        self.heard.append(len(samples) / 16_000)
        return "[Music]" if len(self.heard) == 2 else f"Ouço {len(samples)} valores."


def folder_of_weights(top: Path) -> Path:
    (top / "ear").mkdir()
    (top / "ear/model.safetensors").write_bytes(b"weights")
    return top / "ear"


def test_clips_get_what_was_heard_and_the_others_are_left_out(tmp_path, monkeypatch, caplog):
    join_demo(tmp_path / "fita.wav", NUMBERS)
    ear, asked = Ear(), list[tuple[str, str]]()

    def opened(name: str, language: str, _threads: int) -> Ear:
        asked.append((name, language))
        return ear

    monkeypatch.setattr(cutter.recognisers, "open_recogniser", opened)
    monkeypatch.setattr("train.progress._TELL_EVERY_SECONDS", 0.0)
    folder, to = folder_of_weights(tmp_path), tmp_path / "out"
    assert cut(tmp_path / "fita.wav", to, "--language", "pt", "--recogniser", folder) == 0
    assert asked == [(str(folder), "pt")]
    assert "ear wrote their transcripts" in caplog.text
    entries = read_entries(to, "auto", "pt")
    assert len(entries) == len(ear.heard) - 1 >= 2
    assert all(entry.text.startswith("Ouço ") for entry in entries)
    (unsure,) = [row for row in account_of(to) if row["text"] == "[Music]"]
    assert unsure["reason"] == "unsure words"
    assert float(unsure["seconds"]) == pytest.approx(ear.heard[1], abs=0.02)
    # It logs its progress and the time left.
    lines = [line for line in caplog.messages if ", left 0:0" in line]
    seconds = soundfile.info(str(tmp_path / "fita.wav")).duration
    assert f"Listening: {seconds:.0f} of {seconds:.0f} s, left 0:00:00" in lines
    assert lines[-1].startswith("Transcribing: ") and lines[-1].endswith("clips, left 0:00:00")


def test_what_was_heard_before_a_stop_is_not_heard_again(tmp_path, monkeypatch):
    join_demo(tmp_path / "tape.wav", NUMBERS)
    folder = folder_of_weights(tmp_path)
    ears = [Ear(fails_at=3), Ear(), Ear()]
    monkeypatch.setattr(cutter.recognisers, "open_recogniser", lambda *_: ears[0])

    def cut_to(to: str) -> int:
        return cut(tmp_path / "tape.wav", tmp_path / to, "--recogniser", folder)

    assert cut_to("a") == 130
    del ears[0]
    ears[0].heard += [0.0, 0.0]  # the two clips that the first one recognised
    assert cut_to("a") == 0
    resumed = ears.pop(0).heard[2:]
    assert cut_to("b") == 0
    assert resumed == ears[0].heard[2:] != []
    first, other = ((tmp_path / to / "metadata.csv").read_bytes() for to in ("a", "b"))
    assert first == other
    assert json.loads((tmp_path / "a/cut.json").read_text())["recordings"][0]["clips"]


@pytest.mark.parametrize(
    ("heard", "seconds", "text"),
    [
        (" Good  morning. ", 2.0, "Good morning."),
        ("[Applause] Good morning (laughs).", 2.0, "Good morning ."),
        ("今日は良い天気です。", 2.0, "今日は良い天気です。"),
        ("Thank you. " * 20, 10.0, None),
        ("♪ la la la ♪", 5.0, None),
        ("...", 5.0, None),
        ("", 5.0, None),
        ("A sentence of forty characters and more.", 1.0, None),
    ],
)
def test_what_cannot_be_said_is_no_transcript(heard, seconds, text):
    assert transcript_of(heard, seconds) == text


def test_a_text_needs_no_recogniser_and_a_folder_must_hold_one(tmp_path, capsys):
    join_demo(tmp_path / "tape.wav", NUMBERS[:2])
    (tmp_path / "text.txt").write_text("Some words.")
    tape, to = tmp_path / "tape.wav", tmp_path / "out"
    assert cut(tape, to, "--text", tmp_path / "text.txt", "--recogniser", "x") == 2
    assert "Leave one of them out" in capsys.readouterr().err
    assert cut(tape, to, "--recogniser", tmp_path) == 2
    assert "--recogniser: " in (told := capsys.readouterr().err) and "not a folder with a" in told
    assert not (tmp_path / "out").exists()


def profile(clipped_share: float) -> SoundProfile:
    clipped = np.zeros(320, bool)
    clipped[: round(320 * clipped_share)] = True
    return SoundProfile(np.full(320, -20.0), np.ones(100), clipped)


def test_clipping_is_a_cause_from_a_twentieth_of_the_speech():
    assert clipping_warning([profile(0.02)]) == ""
    assert "50% of the speech is clipped" in clipping_warning([profile(0.5)])
    assert "25% of" in clipping_warning([profile(0.5), profile(0.0)])
    silent = SoundProfile(np.full(320, -80.0), np.zeros(100), np.ones(320, bool))
    assert clipping_warning([silent]) == ""
