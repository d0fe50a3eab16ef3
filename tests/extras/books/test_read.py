"""`python -m xtts read`: sentences are kept, only changed ones are spoken, and files are bound."""

import importlib.util
import io
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import psutil
import pytest
import soundfile

from extras.books.formats.book_reader import read_book
from extras.books.order import limited_memory
from tests.extras.books.books_made import PNG, page, write_epub
from tests.marked import comment
from tests.models import tiny_voice
from xtts.__main__ import main
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.marks import Mark
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec

FIRST = "The ship left the port in the morning. Nobody had seen the captain that day."
XTTS = (sys.executable, "-m", "xtts")
SOUNDS = {".wav", ".flac", ".mp3", ".opus", ".m4a"}
SECOND = "The sea was calm and the air was warm. All of them slept well in the night."


def book(path: Path, first: str = FIRST, second: str = SECOND) -> Path:
    documents = {
        "a.xhtml": page(f"<h1>One of them and more of it</h1><p>{first}</p>"),
        "b.xhtml": page(f"<h1>Two of them and more of it</h1><p>{second}</p>"),
    }
    return write_epub(path, documents, [("One", "a.xhtml"), ("Two: a <B>", "b.xhtml")])


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny voice with a recording."""
    return tiny_voice(tmp_path_factory.mktemp("reader") / "voice")


def asked(voice: Path, epub: Path, to: Path, *words: str, retakes: int = 0) -> list[str]:
    return ["read", str(epub), "--voice", str(voice), "--to", str(to), "--retakes", str(retakes), *words]


def read(voice: Path, epub: Path, to: Path, *words: str) -> int:
    return main(asked(voice, epub, to, *words))


def sounds(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("sentences/*/*.wav"))}


@pytest.fixture(scope="session")
def spoken(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A book that was read, shared by the session: do not write into it."""
    folder = tmp_path_factory.mktemp("spoken")
    epub = book(folder / "book.epub")
    forms = "m4b,epub,wav,flac,mp3,opus,m4a"
    assert read(tiny, epub, folder / "out", "--format", forms, "--captions", "srt,vtt,json") == 0
    return folder / "out"


def peak_and_rms(sound: np.ndarray) -> tuple[float, float]:
    """The peak and RMS of a sound `[samples]` in -1..1, in dB."""
    power = float(np.mean(np.square(sound, dtype=np.float64)))
    peak = float(np.abs(sound).max(initial=0.0))
    return 20 * np.log10(max(peak, 1e-9)), 10 * np.log10(max(power, 1e-18))


def test_a_file_a_chapter_within_acx(spoken):
    for form in ("wav", "flac", "mp3"):
        for stem in ("01 One", "02 Two a B"):
            sound, rate = soundfile.read(spoken / f"{stem}.{form}")
            peak, rms = peak_and_rms(sound)
            assert rate == 24_000 and -23 <= rms <= -18 and peak <= -3, (form, peak, rms)
            assert np.abs(sound[: rate // 2]).max() < 0.001
    captions = {".srt", ".vtt", ".json"}
    assert {path.suffix for path in spoken.glob("01 One.*")} == SOUNDS | captions


def test_every_file_is_marked(spoken, tiny):
    marked = [path for path in spoken.rglob("*") if path.suffix in SOUNDS | {".m4b"}]
    assert len(marked) > 11
    with zipfile.ZipFile(spoken / "A Small Book with sound.epub") as made:
        inside = [made.read(f"OPS/c{number}.mp3") for number in (1, 2)]
    assert {comment(sound) for sound in [*marked, *inside]} == {Mark(tiny.name).text}


def test_the_audiobook_has_chapters_cover_title_and_author(spoken):
    av = pytest.importorskip("av")
    with av.open(str(spoken / "A Small Book.m4b")) as made:
        titles = [chapter["metadata"]["title"] for chapter in made.chapters()]
        assert titles == ["One", "Two: a <B>"]
        assert (made.metadata["title"], made.metadata["artist"]) == ("A Small Book", "A. Writer")
        seconds = made.duration / 1e6
        (picture,) = made.streams.video
        assert bytes(next(made.demux(picture))) == PNG
    lengths = [soundfile.info(spoken / f"{stem}.wav").duration for stem in ("01 One", "02 Two a B")]
    assert seconds == pytest.approx(sum(lengths), abs=0.2)


@pytest.mark.skipif(shutil.which("ffprobe") is None, reason="ffprobe is not installed")
def test_ffprobe_reads_the_audiobook(spoken):
    command = ["ffprobe", "-v", "error", "-of", "json", "-show_chapters", "-show_streams"]
    done = subprocess.run([*command, str(spoken / "A Small Book.m4b")], capture_output=True, check=True)
    told = json.loads(done.stdout)
    assert [chapter["tags"]["title"] for chapter in told["chapters"]] == ["One", "Two: a <B>"]
    assert float(told["chapters"][0]["end_time"]) == pytest.approx(
        soundfile.info(spoken / "01 One.wav").duration, abs=0.01
    )
    pictures = [stream for stream in told["streams"] if stream["disposition"]["attached_pic"]]
    assert [(picture["codec_name"], picture["width"]) for picture in pictures] == [("png", 1)]


def test_the_epub_with_sound_is_read_back(spoken):
    path = spoken / "A Small Book with sound.epub"
    again = read_book(path)
    assert [chapter.title for chapter in again.chapters] == ["One", "Two: a <B>"]
    said = " ".join(paragraph.text for paragraph in again.chapters[0].paragraphs)
    assert said == f"One of them and more of it {FIRST}"
    with zipfile.ZipFile(path) as made:
        names = made.namelist()
        assert names[0] == "mimetype" and made.getinfo("mimetype").compress_type == 0
        smil = ElementTree.fromstring(made.read("OPS/c1.smil"))
        page = made.read("OPS/c1.xhtml").decode()
        length = soundfile.info(io.BytesIO(made.read("OPS/c1.mp3"))).duration
        package = made.read("OPS/book.opf").decode()
    texts = [element.attrib["src"] for element in smil.iter("{http://www.w3.org/ns/SMIL}text")]
    assert texts == [f"c1.xhtml#s{number}" for number in range(3)]
    assert all(f'id="s{number}"' in page for number in range(3))
    clips = [element.attrib for element in smil.iter("{http://www.w3.org/ns/SMIL}audio")]
    times = [float(clip[edge][:-1]) for clip in clips for edge in ("clipBegin", "clipEnd")]
    assert times == sorted(times) and times[-1] <= length
    assert all(
        f'href="{name[4:]}"' in package
        for name in names
        if name.startswith("OPS/") and name != "OPS/book.opf"
    )


def test_captions_follow_the_sound(spoken):
    words = json.loads((spoken / "01 One.json").read_text())
    assert words[0]["start_time"] >= 0.75
    assert all(word["end_time"] >= word["start_time"] for word in words)
    assert words[-1]["end_time"] <= soundfile.info(spoken / "01 One.wav").duration - 1.4
    shown = (spoken / "01 One.srt").read_text().split("\n\n")
    assert all(" --> " in cue for cue in shown)
    assert " ".join(cue.split("\n", 2)[2].strip() for cue in shown).endswith(FIRST)


def test_the_report_and_the_plan_are_written(spoken):
    assert "sentences" in (spoken / "report.html").read_text()
    plan = json.loads((spoken / "plan.json").read_text())
    assert plan["rate"] > 0 and [chapter["sentences"] for chapter in plan["chapters"]] == [3, 3]


def test_again_speaks_nothing_and_one_word_speaks_one_sentence(tiny, spoken, tmp_path, capsys):
    shutil.copytree(spoken, tmp_path / "out")
    before = sounds(tmp_path / "out")
    assert len(before) == 6
    epub = book(tmp_path / "book.epub")
    assert read(tiny, epub, tmp_path / "out", "--format", "flac") == 0
    assert sounds(tmp_path / "out") == before
    assert "0:00:00 of it new. " in capsys.readouterr().out
    changed = book(tmp_path / "book.epub", FIRST.replace("captain", "carpenter"))
    assert read(tiny, changed, tmp_path / "out", "--format", "flac") == 0
    after = sounds(tmp_path / "out")
    assert len(after) == 7 and before.items() <= after.items()


def test_a_pronunciation_speaks_one_sentence(tiny, spoken, tmp_path):
    shutil.copytree(spoken, tmp_path / "out")
    names = tmp_path / "names.txt"
    names.write_text("captain = kaptn\n")
    epub = book(tmp_path / "book.epub")
    assert read(tiny, epub, tmp_path / "out", "--format", "", "--pronunciations", str(names)) == 0
    assert len(sounds(tmp_path / "out")) == 7


@pytest.mark.slow
def test_another_seed_speaks_all_and_again_speaks_one(tiny, spoken, tmp_path):
    shutil.copytree(spoken, tmp_path / "out")
    epub = book(tmp_path / "book.epub")
    assert read(tiny, epub, tmp_path / "out", "--format", "", "--seed", "7") == 0
    assert len(sounds(tmp_path / "out")) == 12
    key = next(iter(sounds(spoken))).removesuffix(".wav")
    assert read(tiny, epub, tmp_path / "out", "--format", "", "--again", key) == 0
    assert len(sounds(tmp_path / "out")) == 13


def test_chapters_are_chosen(tiny, tmp_path, capsys):
    epub = book(tmp_path / "book.epub")
    assert read(tiny, epub, tmp_path / "out", "--format", "flac", "--chapters", "2") == 0
    assert len(sounds(tmp_path / "out")) == 3
    # The plan covers the whole book, the report only the chapters read.
    plan = json.loads((tmp_path / "out" / "plan.json").read_text())
    assert [(chapter["number"], chapter["sentences"]) for chapter in plan["chapters"]] == [(1, 3), (2, 3)]
    assert json.loads((tmp_path / "out" / "report.json").read_text())["chapters"] == [2]
    out = capsys.readouterr().out
    assert " in 1 chapter: about " in out
    # All of its sentences are samples.
    assert re.search(r"of it new \(\d+\.\d\d x real time\)", out) and "(0.00" not in out
    assert [path.name for path in tmp_path.glob("out/*.flac")] == ["02 Two a B.flac"]


def test_alone_a_sentence_has_the_bytes_of_speak(tiny, tmp_path):
    epub = book(tmp_path / "book.epub")
    to = tmp_path / "out"
    assert read(tiny, epub, to, "--format", "", "--at-once", "1", "--chapters", "1") == 0
    voice = load_voice(VoiceSpec(str(tiny)))
    sentence = "Nobody had seen the captain that day."
    expected = voice.synthesize(SynthesisRequest(sentence, "en"))
    (kept,) = [
        path for path in to.rglob("sentences/*/*.json") if json.loads(path.read_text())["text"] == sentence
    ]
    sound, _ = soundfile.read(kept.with_suffix(".wav"), dtype="int16")
    soundfile.write(tmp_path / "one.wav", np.clip(expected, -1, 1), 24_000, subtype="PCM_16")
    assert (sound == soundfile.read(tmp_path / "one.wav", dtype="int16")[0]).all()


def test_the_plan_alone_speaks_samples_only(tiny, tmp_path, capsys):
    epub = book(tmp_path / "book.epub", first=" ".join([FIRST] * 10).replace("day.", "Qxyz day."))
    assert read(tiny, epub, tmp_path / "out", "--plan") == 0
    out = capsys.readouterr().out
    assert re.search(r"\d+ words in 2 chapters: about 0:\d\d:\d\d", out)
    assert "Qxyz" in out and "# Qxyz =" in (tmp_path / "out" / "names.txt").read_text()
    assert not list(tmp_path.glob("out/*.m4b"))


@pytest.mark.slow
def test_a_plan_that_is_kept_measures_nothing_again(tiny, tmp_path, capsys):
    text = " ".join(f"{FIRST[:-1]}, he said {word}." for word in ("once", "twice", "again"))
    epub, out = book(tmp_path / "book.epub", first=text), tmp_path / "out"
    assert read(tiny, epub, out, "--plan", "--chapters", "1") == 0
    assert "to measure this machine" in capsys.readouterr().out
    before, plan = sounds(out), json.loads((out / "plan.json").read_text())
    for words in ((), ("--chapters", "2"), ("--chapters", "1")):
        assert read(tiny, epub, out, "--plan", *words) == 0
        told = capsys.readouterr().out
        assert "The sample sentences of the last plan" in told
        assert "to measure this machine" not in told and sounds(out) == before
        again = json.loads((out / "plan.json").read_text())
        assert (again["rate"], again["samples"]) == (plan["rate"], plan["samples"])
    # A book without the sample sentences is measured again.
    assert read(tiny, book(epub, SECOND, FIRST), out, "--plan") == 0
    assert "to measure this machine" in capsys.readouterr().out


def test_a_book_is_read_in_its_language_however_it_is_written(tiny, tmp_path):
    documents = {"a.xhtml": page(f"<h1>One of them and more of it</h1><p>{FIRST}</p>")}
    epub = write_epub(tmp_path / "book.epub", documents, languages=["por"])
    assert read(tiny, epub, tmp_path / "out", "--plan") == 0
    assert json.loads((tmp_path / "out/plan.json").read_text())["language"] == "pt"


def test_a_word_that_no_list_takes_is_no_name(tiny, tmp_path):
    epub = book(tmp_path / "book.epub", FIRST.replace("captain", "Q" + "x" * 80))
    assert read(tiny, epub, tmp_path / "out", "--plan") == 0
    plan = json.loads((tmp_path / "out" / "plan.json").read_text())
    assert not any(name["word"].startswith("Qx") for name in plan["names"])


def test_words_that_cannot_be_read_are_left_out_and_reported(tiny, tmp_path, capsys):
    epub = book(tmp_path / "book.epub", "the word שלום was on the wall of the house.", "你好。")
    assert read(tiny, epub, tmp_path / "out", "--format", "flac") == 0
    report = (tmp_path / "out" / "report.html").read_text()
    assert "left out: שלום" in report and "could not be read" in report
    assert "The voice does not know these letters" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--chapters", "1-9"), "numbers from 1 to 2"),
        (("--format", "ogg"), "allowed: wav, flac"),
        (("--chapter-voice", "anna"), "2=anna"),
        (("--chapter-voice", "1=nobody"), "nobody"),
        (("--retakes", "70"), "0 to 9"),
        (("--again", "x"), "report.html"),
    ],
)
def test_mistakes_are_told_before_hours_are_spent(tiny, tmp_path, capsys, words, said):
    assert read(tiny, book(tmp_path / "book.epub"), tmp_path / "out", *words) == 2
    assert said in capsys.readouterr().err


def test_a_book_in_letters_that_the_voice_lacks_is_told_without_a_flag(tiny, tmp_path, capsys):
    """The page shows the message, too, and has no flags."""
    epub = tmp_path / "book.epub"
    write_epub(epub, {"a.xhtml": page("<h1>שלום</h1><p>你好。</p>")}, [("שלום", "a.xhtml")])
    assert read(tiny, epub, tmp_path / "out", "--format", "flac") != 0
    told = capsys.readouterr().err
    assert "No sentence of this book can be spoken in en" in told and "--" not in told


@pytest.mark.slow
def test_killed_anywhere_it_goes_on_with_the_same_bytes(tiny, tmp_path):
    epub, whole = book(tmp_path / "book.epub"), tmp_path / "whole"
    # Not the fixture: this process may compute with another number of threads, and so other bits.
    subprocess.run(
        [*XTTS, *asked(tiny, epub, whole, "--format", "m4b,flac")], check=True, capture_output=True
    )
    expected = sounds(whole)
    points = ["half written", "after fsync:01 One.flac", "after replace:chapters.json"]
    names = list(expected)
    points += [f"after replace:{names[2]}", f"after replace:{names[4][:-4]}.json"]
    command = [*XTTS, *asked(tiny, epub, tmp_path / "out", "--format", "m4b,flac")]
    for point in points:
        done = subprocess.run(
            command, env=os.environ | {"SOTAQUE_CRASH_AT": point}, capture_output=True, timeout=300
        )
        assert done.returncode in (-9, 0), done.stderr
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    assert sounds(tmp_path / "out") == expected
    for name in ("01 One.flac", "02 Two a B.flac", "A Small Book.m4b"):
        assert (tmp_path / "out" / name).read_bytes() == (whole / name).read_bytes()
    assert not list(tmp_path.rglob("*.sotaque-part"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_kills_at_random_leave_the_bytes_of_a_run_without_any(tiny, tmp_path):
    """kill -9 at random moments after the first line of output, while sentences are spoken."""
    things = ("ship", "house", "garden", "letter", "window", "mountain", "river", "captain")
    first = " ".join(f"The {thing} was seen by all of them on the next morning." for thing in things)
    epub = book(tmp_path / "book.epub", first, first.replace("seen", "found"))
    whole, out = tmp_path / "whole", tmp_path / "out"
    forms = ("--format", "m4b,epub,flac", "--captions", "json")
    commands = {to: [*XTTS, *asked(tiny, epub, to, *forms, retakes=1)] for to in (whole, out)}
    with subprocess.Popen(commands[whole], stdout=subprocess.PIPE) as run:
        assert run.stdout is not None and run.stdout.readline()
        began = time.monotonic()
        run.communicate(timeout=600)
        took = time.monotonic() - began
    assert run.returncode == 0
    drawn, kills = random.Random(36), 0
    while kills < 10:
        with subprocess.Popen(commands[out], stdout=subprocess.PIPE) as run:
            assert run.stdout is not None and run.stdout.readline()
            time.sleep(drawn.uniform(0, took / 4))
            run.kill()
        if run.returncode == 0:  # it ended before the kill
            shutil.rmtree(out)
        kills += run.returncode == -9
    subprocess.run(commands[out], check=True, capture_output=True, timeout=600)
    assert not list(out.rglob("*.sotaque-part"))
    made = {path.relative_to(whole) for path in whole.rglob("*") if path.is_file()}
    assert len(sounds(whole)) >= 18 and made == {
        path.relative_to(out) for path in out.rglob("*") if path.is_file()
    }
    # plan.json has the measured rate, report.html the folder, .lock the process id.
    for path in made - {Path("plan.json"), Path("report.html"), Path(".lock")}:
        assert (out / path).read_bytes() == (whole / path).read_bytes(), path


def test_without_ray_a_sentence_says_what_to_install(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None)
    assert read(tiny, book(tmp_path / "book.epub"), tmp_path / "out", "--ray") == 2
    assert "pip install -e '.[ray]'" in capsys.readouterr().err
    assert read(tiny, book(tmp_path / "book.epub"), tmp_path / "out", "--workers", "2") == 2
    assert "--workers 2 is for Ray" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is 200 MB: .venv/bin/python -m pip install -e '.[ray]'",
)
def test_with_ray_it_has_the_bytes_of_one_process_also_if_a_worker_is_killed(tiny, tmp_path):
    epub = book(tmp_path / "book.epub", " ".join(f"{FIRST[:-1]}, he said {n}." for n in range(6)))
    alone, with_ray = (
        [*XTTS, *asked(tiny, epub, tmp_path / name, "--format", "flac", *more)]
        for name, more in (("alone", ("--at-once", "1")), ("ray", ("--ray", "--workers", "2")))
    )
    environ = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(alone, check=True, env=environ, capture_output=True, timeout=600)
    with subprocess.Popen(with_ray, env=environ, stdout=subprocess.PIPE, start_new_session=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if b"sample 5" in line:
                break
        for child in psutil.Process(run.pid).children(recursive=True):
            if "ray::speak_sentence" in " ".join(child.cmdline()):
                child.kill()
                break
        run.stdout.read()
    assert run.returncode == 0
    assert sounds(tmp_path / "ray") == sounds(tmp_path / "alone")
    assert len(sounds(tmp_path / "ray")) > 8
    for name in ("01 One.flac", "02 Two a B.flac"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


def test_memory_is_limited_for_a_while():
    before = resource.getrlimit(resource.RLIMIT_AS)
    with limited_memory(64 << 20):
        assert len(bytearray(32 << 20)) == 32 << 20
        # More than the heap of a long test process may hold free.
        with pytest.raises(MemoryError):
            bytearray(4 << 30)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert len(bytearray(128 << 20)) == 128 << 20


def test_a_list_of_names_that_somebody_edited_is_never_written_again(tiny, tmp_path, capsys):
    epub = book(tmp_path / "book.epub", FIRST.replace("captain", "Qxyz"))
    names = tmp_path / "out" / "names.txt"
    assert read(tiny, epub, tmp_path / "out", "--plan") == 0
    changed = book(tmp_path / "book.epub", FIRST.replace("captain", "Qxyz Vwpl"))
    assert read(tiny, changed, tmp_path / "out", "--plan") == 0
    assert "# Vwpl =" in names.read_text()  # nobody had edited it
    names.write_text("Qxyz = kaptn\n")
    capsys.readouterr()
    for more in ((), ("--pronunciations", str(names)), ("--format", "")):
        plan = [] if "--format" in more else ["--plan"]
        assert read(tiny, changed, tmp_path / "out", *plan, *more) == 0
        assert names.read_text() == "Qxyz = kaptn\n"
    assert f"{names} has your corrections" in capsys.readouterr().out
