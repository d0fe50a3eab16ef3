"""`python -m train cut` from the command line."""

import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pytest
import soundfile

from extras.cut.cutter import CutRecording
from extras.cut.pipeline import little_used_warning, parts_without_pause, sum_by_reason, train_command
from extras.cut.planning import IN_A_CLIP, SILENCE, TOO_LONG, UNSURE, Stretch
from extras.cut.profile import SoundProfile
from extras.cut.recordings import SourceRecording
from machine.storage.checksums import FileStamp
from machine.storage.files import DiskFull
from tests.extras.cut.recordings import account_of, cut, hashes, without
from tests.tapes import demo_texts, join_demo, spoken_by
from train.__main__ import main
from train.dataset.metadata import read_entries

pytest.importorskip("pocketsphinx", reason="it has wheels for Python 3.11 and 3.13")
NUMBERS = [1, 2, 3, 5, 7, 8, 9, 11]
WRONG = "Seventeen monkeys escaped from the laboratory on Sunday."


class Ground(NamedTuple):
    recording: Path
    text: Path
    spans: list[tuple[float, float]]
    folder: Path


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A recording of eight sentences, its text with a ninth inserted, and its cut."""
    top = tmp_path_factory.mktemp("cut")
    recording, text = top / "tape one.wav", top / "text.txt"
    spans = join_demo(recording, NUMBERS)
    sentences = spoken_by(NUMBERS)
    sentences.insert(4, WRONG)
    text.write_text(" ".join(sentences), encoding="utf-8")
    assert cut(recording, top / "out", "--text", text) == 0
    yield Ground(recording, text, spans, top / "out")


def plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z']+", text.lower()))


def says_what_is_spoken(folder: Path, numbers: Sequence[int] = NUMBERS) -> bool:
    said = " ".join(entry.text for entry in read_entries(folder, "auto", "en"))
    return plain(said) == plain(" ".join(spoken_by(numbers)))


def facts_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "cut.json").read_text())


def test_the_clips_say_the_sentences_that_are_spoken_and_what_nobody_says_is_named(ground):
    assert says_what_is_spoken(ground.folder)
    for entry in read_entries(ground.folder, "auto", "en"):
        info = soundfile.info(str(entry.path))
        assert (info.samplerate, info.channels, info.subtype) == (16_000, 1, "PCM_16")
        assert 1 <= info.duration <= 11
    assert facts_of(ground.folder)["unheard_sentences"] == [WRONG]
    assert WRONG in (ground.folder / "report.html").read_text()


def test_the_account_has_every_second_once(ground):
    rows = account_of(ground.folder)
    seconds = soundfile.info(str(ground.recording)).duration
    assert float(rows[0]["start"]) == 0
    assert float(rows[-1]["end"]) == pytest.approx(seconds, abs=1e-5)
    assert all(row["end"] == other["start"] for row, other in itertools.pairwise(rows))
    by_reason = facts_of(ground.folder)["recordings"][0]["seconds_by_reason"]
    assert sum(by_reason.values()) == pytest.approx(seconds, abs=1e-4)


def test_cuts_are_in_the_pauses(ground):
    clips = account_of(ground.folder, "in a clip")
    assert len(clips) >= 4
    for row in clips:
        for edge in (float(row["start"]), float(row["end"])):
            # The demo's clips begin and end with a tenth of a second of quiet.
            assert not any(start + 0.12 < edge < end - 0.12 for start, end in ground.spans)


def test_a_second_call_does_nothing(ground, tmp_path):
    to = shutil.copytree(ground.folder, tmp_path / "out")
    with (to / "metadata.csv").open("a") as file:
        file.write("corrected|by hand\n")
    before = hashes(to)
    assert cut(ground.recording, to, "--text", ground.text) == 0
    assert hashes(to) == before


def test_a_folder_with_something_else_is_left_alone(ground, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    assert cut(ground.recording, tmp_path) == 2
    assert "is not empty (mine.txt)" in capsys.readouterr().err
    assert cut(ground.recording, ground.folder) == 2
    assert "another text" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "Er ging langsam durch den dunklen Wald und fand dort keinen einzigen Menschen mehr.",
        pytest.param("Colourless green ideas sleep furiously today. " * 8, marks=pytest.mark.slow),
    ],
    ids=["german", "another"],
)
def test_the_text_of_another_recording_writes_nothing(tmp_path, capsys, text):
    join_demo(tmp_path / "tape.wav", NUMBERS[:3])
    (tmp_path / "other.txt").write_text(text)
    assert cut(tmp_path / "tape.wav", tmp_path / "out", "--text", tmp_path / "other.txt") == 2
    told = capsys.readouterr().err
    assert "The text does not fit" in told or "other.txt its text" in told
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("gain", "step", "cause"),
    [pytest.param(60.0, 1, "of the speech is clipped", marks=pytest.mark.slow), (1.0, -1, "another order")],
)
def test_the_cause_is_named_where_the_text_is_the_right_one(tmp_path, capsys, gain, step, cause):
    tape, text = tmp_path / "tape.wav", tmp_path / "text.txt"
    join_demo(tape, NUMBERS)
    samples, rate = soundfile.read(tape)
    soundfile.write(tape, np.clip(samples * gain, -1, 1), rate)
    text.write_text("\n\n".join(spoken_by(NUMBERS)[::step]), encoding="utf-8")
    assert cut(tape, tmp_path / "out", "--text", text) == 2
    told = capsys.readouterr().err
    assert cause in told and "another language" not in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paragraphs", "told"),
    [
        (lambda said: said[5:] + said[:5], "spoken in another order"),
        (lambda said: said[:4], "little to train on"),
    ],
)
def test_paragraphs_in_another_order_and_little_kept_are_told(tmp_path, caplog, paragraphs, told):
    tape, text = tmp_path / "tape.wav", tmp_path / "text.txt"
    join_demo(tape, NUMBERS)
    text.write_text("\n\n".join(paragraphs(spoken_by(NUMBERS))), encoding="utf-8")
    assert cut(tape, tmp_path / "out", "--text", text) == 0
    assert told in caplog.text
    assert "little" not in told or "Train on it" not in caplog.text
    if "little" not in told:
        train = f"DATASET_DIR={tmp_path / 'out'} OUTPUT_DIR=runs/out make train"
        assert caplog.messages[-1] == f"Train on it: {train}"


def test_little_is_less_than_half_of_the_speech():
    much = {IN_A_CLIP: 110.0, UNSURE: 100.0, SILENCE: 900.0}
    assert little_used_warning([much]) == ""
    little = {IN_A_CLIP: 10.0, UNSURE: 200.0, "clipped": 10.0, SILENCE: 900.0}
    found = little_used_warning([little])
    assert "10 of 220 s" in found and "(200 s)" in found and "compare the text" in found
    assert little_used_warning([little, {IN_A_CLIP: 300.0}]) == ""
    assert sum_by_reason([much, little])[IN_A_CLIP] == 120.0


def cut_recording(name: str, rows: list[Stretch]) -> CutRecording:
    recording = SourceRecording(name, Path(name), 8_000, 480_000, FileStamp("", 0, 0))
    nothing = np.zeros(0)
    return CutRecording(recording, SoundProfile(nothing, nothing, nothing), [], [], rows)


def test_the_longest_parts_without_a_pause_say_where_and_how_long():
    rows = [Stretch(0, 80_000, "", SILENCE), Stretch(80_000, 320_000, "so it goes", TOO_LONG)]
    short = [Stretch(8_000 * i, 8_000 * (i + 12), "", TOO_LONG) for i in range(6)]
    lines = parts_without_pause([cut_recording("tape", rows), cut_recording("other", short)], 0.5)
    assert lines[0] == "tape: no pause of 0.5 s from 0:00:10 to 0:00:40 (30.0 s)."
    assert lines[1] == "other: no pause of 0.5 s from 0:00:05 to 0:00:17 (12.0 s)."
    assert len(lines) == 6 and lines[-1] == "2 more without such a pause."
    assert parts_without_pause([cut_recording("tape", rows[:1])], 0.5) == []


def test_many_files_are_told_in_a_few_lines(tmp_path, capsys):
    for number in range(40):
        soundfile.write(tmp_path / f"{number:02d}.wav", np.zeros(3_200), 16_000)
    tapes = map(str, sorted(tmp_path.glob("*.wav")))
    assert main(["cut", *tapes, "--to", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) <= 7 and "All 40 together: 8.0 s" in told


def test_without_a_text_the_transcripts_are_empty(ground, tmp_path, caplog):
    assert cut(ground.recording, tmp_path / "out") == 0
    rows = (tmp_path / "out/metadata.csv").read_text().splitlines()
    assert len(rows) >= 4 and all(row.endswith("|") for row in rows)
    assert "They lack transcripts" in caplog.text
    assert caplog.messages[-1].startswith("Then train on it: DATASET_DIR=")


def test_subtitles_of_any_language_are_cut_at_the_pauses(ground, tmp_path):
    def clock(seconds: float) -> str:
        return f"00:00:{seconds:06.3f}".replace(".", ",")

    cues = [
        f"{number}\n{clock(start + 0.2)} --> {clock(end + 0.15)}\nFrase número {number}.\n"
        for number, (start, end) in enumerate(ground.spans, start=1)
    ]
    cues.append("99\n00:10:00,000 --> 00:10:02,000\nDepois do fim.\n")
    (tmp_path / "a.srt").write_text("\n".join(cues), encoding="utf-8")
    asked = ("--language", "pt", "--text", tmp_path / "a.srt")
    assert cut(ground.recording, tmp_path / "out", *asked) == 0
    assert facts_of(tmp_path / "out")["unheard_sentences"] == ["Depois do fim."]
    entries = read_entries(tmp_path / "out", "auto", "pt")
    assert [entry.text for entry in entries] == [
        f"Frase número {number}." for number in range(1, len(ground.spans) + 1)
    ]
    for row, (start, end) in zip(account_of(tmp_path / "out", "in a clip"), ground.spans):
        assert float(row["start"]) == pytest.approx(start + 0.1, abs=0.25)
        assert float(row["end"]) == pytest.approx(end, abs=0.3)


def test_english_subtitles_are_followed_by_their_words_and_not_their_times(tmp_path):
    join_demo(tmp_path / "tape.wav", NUMBERS[:3])
    cues = [
        f"{number}\n00:{number:02d}:00,000 --> 00:{number:02d}:01,000\n{demo_texts()[number - 1]}\n"
        for number in NUMBERS[:3]
    ]
    (tmp_path / "late.srt").write_text("\n".join(cues), encoding="utf-8")
    assert cut(tmp_path / "tape.wav", tmp_path / "out", "--text", tmp_path / "late.srt") == 0
    assert says_what_is_spoken(tmp_path / "out", NUMBERS[:3])


def test_without_pocketsphinx_the_times_of_english_subtitles_are_taken(ground, tmp_path, caplog, monkeypatch):
    without(monkeypatch, "pocketsphinx")
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    rows = [
        f"{start:.3f}\t{end:.3f}\tThis is what it says after {start:.0f} seconds."
        for start, end in ground.spans
    ]
    (tmp_path / "a.lab").write_text("\n".join(rows), encoding="utf-8")
    assert cut(ground.recording, tmp_path / "out", "--text", tmp_path / "a.lab") == 0
    assert "by its times alone" in caplog.text
    entries = read_entries(tmp_path / "out", "auto", "en")
    assert len(entries) >= len(ground.spans) / 2
    assert sum(entry.text.count("says") for entry in entries) == len(ground.spans)


def test_bad_recordings_are_told(tmp_path, capsys):
    def told(path: Path) -> str:
        assert cut(path, tmp_path / "out") == 2
        assert not (tmp_path / "out").exists()
        return capsys.readouterr().err

    (tmp_path / "empty.wav").touch()
    assert "is empty (0 bytes)" in told(tmp_path / "empty.wav")
    assert "does not exist" in told(tmp_path / "none.wav")
    (tmp_path / "page.mp3").write_bytes(b"<html>" * 100)
    assert "cannot be decoded" in told(tmp_path / "page.mp3")
    soundfile.write(tmp_path / "still.wav", np.zeros(48_000), 16_000)
    assert "No clip could be cut" in told(tmp_path / "still.wav")
    whole = (tmp_path / "still.wav").read_bytes()
    (tmp_path / "growing.wav").write_bytes(whole[: len(whole) // 2])
    assert "still being written" in told(tmp_path / "growing.wav")
    tape = tmp_path / "tape.wav"
    join_demo(tape, NUMBERS[:2])
    samples, rate = soundfile.read(tape)
    soundfile.write(tape, np.stack([samples, -samples], axis=1), rate)
    assert "cancel each other" in told(tape)
    assert main(["cut", "--to", str(tmp_path / "out")]) == 2
    assert "cut needs recordings" in capsys.readouterr().err


def test_a_film_without_av_answers_with_the_line_that_converts(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    (tmp_path / "film.mkv").write_bytes(b"x" * 100)
    assert cut(tmp_path / "film.mkv", tmp_path / "out") == 2
    assert f"ffmpeg -i {tmp_path}/film.mkv -vn -ac 1 {tmp_path}/film.wav" in capsys.readouterr().err


def test_a_recording_that_changes_meanwhile_is_told(ground, tmp_path, capsys, monkeypatch):
    from extras.cut import profile

    path = tmp_path / "tape.wav"
    path.write_bytes(ground.recording.read_bytes())
    listen = profile.listen

    def grown(*args: object) -> object:
        found = listen(*args)
        path.open("ab").write(b"more")
        return found

    monkeypatch.setattr(profile, "listen", grown)
    assert cut(path, tmp_path / "out") == 2
    assert "changed while it was read" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_silero_the_level_is_taken_and_told(tmp_path, caplog, monkeypatch):
    without(monkeypatch, "silero_vad")
    join_demo(tmp_path / "tape.wav", NUMBERS[:3])
    (tmp_path / "text.txt").write_text(" ".join(spoken_by(NUMBERS[:3])), encoding="utf-8")
    asked = ("--text", tmp_path / "text.txt")
    assert cut(tmp_path / "tape.wav", tmp_path / "out", *asked) == 0
    assert "by the level alone, because package silero-vad is not installed" in caplog.text
    assert says_what_is_spoken(tmp_path / "out", NUMBERS[:3])


def test_a_full_disk_ends_with_74_and_the_next_call_finishes(ground, tmp_path, capsys, monkeypatch):
    from xtts import encoding

    real, written = encoding.write_wav, list[Path]()

    def full(path: Path, *rest: Any) -> Any:
        if len(written) == 2:
            raise DiskFull(f"{path} could not be written: 44,000 bytes needed, 0 free.")
        written.append(path)
        return real(path, *rest)

    monkeypatch.setattr("extras.cut.writing.encoding.write_wav", full)
    to = tmp_path / "out"
    assert cut(ground.recording, to) == 74  # without a text, which takes less time
    assert "0 free" in capsys.readouterr().err
    assert not (to / "metadata.csv").exists() and not (to / "cut.json").exists()
    monkeypatch.setattr("extras.cut.writing.encoding.write_wav", real)
    assert cut(ground.recording, to) == 0
    assert cut(ground.recording, tmp_path / "straight") == 0
    assert hashes(to) == hashes(tmp_path / "straight")


@pytest.mark.slow
def test_the_sound_of_a_film_is_cut(ground, tmp_path):
    av = pytest.importorskip("av", reason="extra `cut`")
    film = tmp_path / "film.mkv"
    samples, rate = soundfile.read(ground.recording, dtype="int16")
    with av.open(str(film), "w") as container:
        picture = container.add_stream("mpeg4", rate=5)
        picture.width = picture.height = 32
        picture.pix_fmt = "yuv420p"
        track = container.add_stream("aac", rate=rate)
        for number in range(5):
            frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")
            frame.pts = number
            container.mux(picture.encode(frame))
        sound = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        sound.rate = rate
        container.mux(track.encode(sound))
        container.mux(picture.encode(None))
        container.mux(track.encode(None))
    to = tmp_path / "out"
    assert cut(film, to, "--text", ground.text) == 0
    assert says_what_is_spoken(to)
    assert sorted(path.name for path in to.iterdir()) == sorted(path.name for path in ground.folder.iterdir())


@pytest.mark.slow
def test_ten_kills_change_no_byte(tmp_path):
    join_demo(tmp_path / "tape.wav", list(range(1, 26)))
    (tmp_path / "tape.txt").write_text(" ".join(demo_texts()[:25]))

    def command(to: str) -> list[str]:
        asked = [str(tmp_path / "tape.wav"), "--text", str(tmp_path / "tape.txt")]
        return [sys.executable, "-m", "train", "cut", *asked, "--to", str(tmp_path / to)]

    # In CPU time, because the kills must hit however busy the machine is.
    whole = subprocess.Popen(command("whole"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(whole.pid, 0)
    assert status == 0
    generator, killed = random.Random(3), 0
    for _ in range(10):
        limit_seconds = generator.uniform(0.3, 0.8) * (usage.ru_utime + usage.ru_stime)
        child = psutil.Popen(command("killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while child.poll() is None:
            if sum(child.cpu_times()[:2]) > limit_seconds:
                child.kill()
            time.sleep(0.02)
        killed += child.wait() == -signal.SIGKILL
    assert killed > 0
    subprocess.run(command("killed"), check=True, capture_output=True)
    assert hashes(tmp_path / "killed") == hashes(tmp_path / "whole")


@pytest.mark.slow
def test_a_cut_is_trained_on_as_it_stands(base_folder, tmp_path):
    tape, text = tmp_path / "tape.wav", tmp_path / "tape.txt"
    join_demo(tape, list(range(1, 25)))
    text.write_text(" ".join(demo_texts()[:24]), encoding="utf-8")
    assert cut(tape, tmp_path / "voice", "--text", text) == 0
    (tmp_path / "cache").mkdir()
    settings = {
        "DATASET_DIR": tmp_path / "voice",
        "BASE_MODEL": base_folder,
        "CACHE_DIR": tmp_path / "cache",
        "OUTPUT_DIR": tmp_path / "run",
        "RUNS_DIR": tmp_path / "events",
        "NUM_EPOCHS": 1,
        "EVALUATE": "off",
        "SAMPLE_DEVICE": "off",
        "TENSORBOARD": "off",
        "DEVICE": "cpu",
        "NUM_THREADS": 1,
    }
    done = subprocess.run(
        [sys.executable, "-m", "train"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {name: str(value) for name, value in settings.items()},
    )
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds.count("validation") == 1 and "train" in kinds


def test_another_language_trains_with_its_setting_and_a_base_that_speaks_it(tmp_path):
    assert train_command(tmp_path / "de", "de").startswith(
        f"DATASET_DIR={tmp_path / 'de'} BASE_MODEL=xtts_v2 LANGUAGE=de OUTPUT_DIR=runs/de "
    )
