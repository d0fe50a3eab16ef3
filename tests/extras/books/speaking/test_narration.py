"""Which take of a sentence is kept, and in which voice it is spoken."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extras.books.book import Book, Chapter, Paragraph
from extras.books.speaking.book_voice import BookVoice
from extras.books.speaking.narration import ChosenTake, Listener, Narration, NarrationSettings
from extras.books.speaking.take_folder import TakeFolder
from extras.books.writing.worst_sentences import WorstSentences
from machine.storage.files import Written, replace_file
from tests.models import drawn_voice, tiny_voice
from xtts.inference import latents_file
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.takes import TakeChoice, TakeFigures, TakeJudge
from xtts.voices import speakers
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec

TEXT = "The ship left the port in the morning."


@pytest.fixture(scope="session")
def cast(tmp_path_factory: pytest.TempPathFactory) -> LoadedVoice:
    return cast_in(tmp_path_factory.mktemp("cast"))


def cast_in(parent: Path, seed: int = 5) -> LoadedVoice:
    """A tiny voice with a second speaker, ben, whose recording has this seed."""
    folder = tiny_voice(parent / "voice")
    other = tiny_voice(parent / "other", seed=seed)
    (folder / "speakers").mkdir()
    rows = []
    for name, recording in (("anna", folder), ("ben", other)):
        path = folder / "speakers" / f"{name}.wav"
        content = (recording / "reference.wav").read_bytes()
        rows.append(speakers.Speaker(name, path.name, write_atomically(path, content)))
    speakers.write(folder, rows)
    return load_voice(VoiceSpec(str(folder)))


def write_atomically(path: Path, content: bytes) -> Written:
    return replace_file(path, lambda file: file.write(content))


class Ears(Listener):
    """Mishears the given number of words in each take, in the order of the takes."""

    def __init__(self, *errors: int) -> None:
        self.name, self._errors = "ears", list(errors)

    def count_misheard_words(self, text: str, waveform: Any) -> int:
        return self._errors.pop(0)


def told(voice: LoadedVoice, folder: Path, text: str, ears: Ears | None = None, **how: Any):
    """Narrates a book with one sentence; returns the narration and the chosen takes."""
    book = Book("B", "A", "en", [Chapter("One", [Paragraph(text)])])
    narration = Narration(book, BookVoice(voice, 2), TakeFolder(folder), NarrationSettings("en", **how), ears)
    settled: list[ChosenTake | None] = []
    lines = [(1, sentence) for sentence in narration.sentences(1)]
    narration.speak(iter(lines), lambda _chapter, _sentence, chosen: settled.append(chosen))
    return narration, settled


def count(folder: Path) -> int:
    return len(list(folder.rglob("*.wav")))


def test_chapters_are_counted_without_those_that_are_not_read_aloud(cast, tmp_path):
    contents = Chapter("Contents", [Paragraph("One, page 3.")], left_out="contents")
    book = Book("B", "A", "en", [contents, Chapter("One", [Paragraph(TEXT)])])
    narration = Narration(book, BookVoice(cast, 2), TakeFolder(tmp_path), NarrationSettings("en"))
    assert [sentence.text for sentence in narration.sentences(1)] == [TEXT]


def test_a_misheard_sentence_is_said_again_until_it_is_heard(cast, tmp_path):
    _, (kept,) = told(cast, tmp_path, TEXT, Ears(6, 5, 0), retakes=3)
    assert count(tmp_path) == 3 and kept.misheard_words == 0
    # Nothing is spoken or recognised again.
    _, (again,) = told(cast, tmp_path, TEXT, Ears(), retakes=3)
    assert count(tmp_path) == 3 and again.take.key == kept.take.key


def test_of_bad_takes_the_best_is_kept(cast, tmp_path):
    _, (kept,) = told(cast, tmp_path, TEXT, Ears(6, 4, 5), retakes=2)
    assert count(tmp_path) == 3 and kept.misheard_words == 4
    _, (first,) = told(cast, tmp_path, TEXT)
    assert first.take.key != kept.take.key and count(tmp_path) == 3


def test_a_voice_in_the_text_and_of_a_chapter(cast, tmp_path):
    _, (plain,) = told(cast, tmp_path, TEXT)
    _, (ben,) = told(cast, tmp_path, TEXT, speakers={1: "ben"})
    _, (named,) = told(cast, tmp_path, f"[voice:ben]{TEXT}")
    assert count(tmp_path) == 3
    sounds = [TakeFolder(tmp_path).sound_path(chosen.take.key).read_bytes() for chosen in (plain, ben, named)]
    assert sounds[0] != sounds[1] == sounds[2]


def test_a_sentence_is_spoken_again_when_another_voice_in_it_has_changed(cast, tmp_path):
    takes = tmp_path / "takes"
    changed = cast_in(tmp_path, seed=6)
    text = f"[voice:ben]{TEXT}"
    (named,), (again,) = (told(voice, takes, text)[1] for voice in (cast, changed))
    (first,), (same,) = (told(voice, takes, TEXT)[1] for voice in (cast, changed))
    assert named.take.key != again.take.key and first.take.key == same.take.key
    assert count(takes) == 3


def test_the_same_sentence_is_spoken_once(cast, tmp_path):
    _, settled = told(cast, tmp_path, f"{TEXT} {TEXT} {TEXT} {TEXT}")
    assert len(settled) == 4 and count(tmp_path) == 1
    assert len({chosen.take.key for chosen in settled}) == 1


def test_neighbours_do_not_change_a_sentence(cast, tmp_path):
    other = "Nobody had seen the captain on that day."
    told(cast, tmp_path / "a", f"{TEXT} {other}")
    told(cast, tmp_path / "b", f"{other} It was a rather long time ago, they said. {TEXT}")
    first = {path.name: path.read_bytes() for path in (tmp_path / "a").rglob("*.wav")}
    second = {path.name: path.read_bytes() for path in (tmp_path / "b").rglob("*.wav")}
    assert len(first) == 2 and first.items() <= second.items()


def test_a_take_that_is_not_whole_is_spoken_again(cast, tmp_path):
    _, (kept,) = told(cast, tmp_path, TEXT)
    sound = TakeFolder(tmp_path).sound_path(kept.take.key)
    whole = sound.read_bytes()
    sound.write_bytes(whole[:-100])
    told(cast, tmp_path, TEXT)
    assert sound.read_bytes() == whole


def test_another_vocoder_of_the_same_weights_speaks_again(onnx_folder, tmp_path):
    """Like an export before and after `train learn-decoder`."""
    stored = tmp_path / "voice.safetensors"
    latents_file.write(stored, drawn_voice())
    learned = shutil.copytree(onnx_folder, tmp_path / "learned")
    tensors = learned / "vocoder.onnx.data"
    tensors.write_bytes((np.fromfile(tensors, np.float32) * np.float32(0.9)).tobytes())
    about = json.loads((learned / "onnx.json").read_text())
    about["files"][tensors.name]["sha256"] = hashlib.sha256(tensors.read_bytes()).hexdigest()
    (learned / "onnx.json").write_text(json.dumps(about))
    kept = []
    for folder in (onnx_folder, onnx_folder, learned):
        where = ComputeConfig(backend="onnx", precision="fp32")
        voice = load_voice(VoiceSpec(str(folder), latents=stored), where)
        _, (chosen,) = told(voice, tmp_path / "takes", TEXT)
        kept.append(chosen.take.key)
    assert count(tmp_path / "takes") == 2 and kept[0] == kept[1] != kept[2]


def test_the_report_has_the_worst_first(cast, tmp_path):
    narration, (kept,) = told(cast, tmp_path / "sentences", TEXT, Ears(6), retakes=0)
    worst = WorstSentences()
    worst.add(1, ChosenTake(kept.sentence, kept.take, 2))
    worst.add(2, ChosenTake(kept.sentence, kept.take, 6))
    worst.add(3, ChosenTake(kept.sentence, kept.take, 0))
    assert [chapter for chapter, _ in worst.worst()] == [2, 1]
    worst.write(tmp_path / "report.html", "A <b>", narration.takes, ["read", "my book.epub"])
    page = (tmp_path / "report.html").read_text()
    assert f"read &#x27;my book.epub&#x27; --again {kept.take.key}" in page
    assert "Speak it again with" in page
    worst.write(tmp_path / "told.html", "A <b>", narration.takes, [])
    untyped = (tmp_path / "told.html").read_text()
    assert kept.take.text in untyped and "--again" not in untyped and "Speak it" not in untyped
    assert "A &lt;b&gt;" in page and f'src="sentences/{kept.take.key[:2]}/' in page


def spoken_takes(voice: LoadedVoice, folder: Path, at_once: int, **how: Any) -> dict[str, bytes]:
    text = f"{TEXT} The sea was calm and the air was warm."
    book = Book("B", "A", "en", [Chapter("One", [Paragraph(text)])])
    said = BookVoice(voice, at_once, recogniser="off", **how)
    narration = Narration(book, said, TakeFolder(folder), NarrationSettings("en"))
    lines = [(1, sentence) for sentence in narration.sentences(1)]
    narration.speak(iter(lines), lambda _chapter, _sentence, chosen: None)
    return {path.stem: path.read_bytes() for path in folder.rglob("*.wav")}


def test_of_the_takes_of_a_sentence_the_chosen_one_is_kept(cast, tmp_path, monkeypatch):
    """It is the take of its seed; another number of takes makes another sentence."""
    best: list[tuple[str, int]] = []

    def last(_judge: TakeJudge, request: Any, takes: Any, speaker: str = "") -> TakeChoice:
        best.append((request.text, len(takes)))
        return TakeChoice(len(takes) - 1, len(takes), TakeFigures(), "test")

    monkeypatch.setattr(TakeJudge, "choose", last)
    chosen = spoken_takes(cast, tmp_path / "one", 2)
    assert not best
    two = spoken_takes(cast, tmp_path / "two", 2, takes=2)
    assert len(chosen) == len(two) == 2 and not set(chosen) & set(two)
    assert [count for _, count in best] == [2, 2] and best[0][0] != best[1][0]
    again = spoken_takes(cast, tmp_path / "again", 1, takes=2)
    assert sorted(again.values()) == sorted(two.values())
    with monkeypatch.context() as patch:
        patch.setattr(TakeJudge, "choose", lambda *_: TakeChoice(0, 2, TakeFigures(), "test"))
        first = spoken_takes(cast, tmp_path / "first", 2, takes=2)
    assert set(first) == set(two) and not set(first.values()) & set(two.values())
