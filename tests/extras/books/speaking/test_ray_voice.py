"""Sentences as tasks give the same bytes as one process, however many are in flight. Ray's workers
are tested in tests/extras/books/test_read.py."""

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from extras.books.book import Book, Chapter, Paragraph
from extras.books.speaking import ray_voice
from extras.books.speaking.book_voice import BookVoice
from extras.books.speaking.narration import Narration, NarrationSettings
from extras.books.speaking.ray_voice import RayBookVoice
from extras.books.speaking.take_folder import TakeFolder
from extras.common.steps import Steps
from machine.errors import SotaqueError
from tests.models import tiny_voice
from xtts.inference.loaded_voice import LoadedVoice
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec

TEXT = "The ship left the port. Nobody had seen the captain on that day. All of them slept well."


class Apart(Steps):
    """Passes everything as bytes, as to another process; three tasks ahead."""

    ahead = 3

    def begin(self, step: Callable[..., Any], *arguments: object) -> Callable[[], Any]:
        sent = pickle.dumps((step, arguments))

        def done() -> Any:
            given, words = pickle.loads(sent)
            return pickle.loads(pickle.dumps(given(*words)))

        return done


def opened(folder: str) -> LoadedVoice:
    return load_voice(VoiceSpec(folder))


def spoken(voice: BookVoice, folder: Path) -> dict[str, bytes]:
    book = Book("B", "A", "en", [Chapter("One", [Paragraph(f"{TEXT} {TEXT}")])])
    narration = Narration(book, voice, TakeFolder(folder), NarrationSettings("en"))
    found: list[Any] = []
    lines = [(1, sentence) for sentence in narration.sentences(1)]
    narration.speak(iter(lines), lambda _chapter, _sentence, chosen: found.append(chosen))
    assert len(found) == len(lines) and all(found)
    return {path.name: path.read_bytes() for path in folder.rglob("*.*")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_voice(tmp_path_factory.mktemp("ray") / "voice"))


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 2])
def test_a_sentence_has_the_same_bytes_whoever_says_it(folder, tmp_path, at_once):
    alone = spoken(BookVoice(opened(folder), at_once), tmp_path / "alone")
    voice = RayBookVoice(opened(folder), at_once, Apart(), partial(opened, folder))
    assert spoken(voice, tmp_path / "apart") == alone and len(alone) >= 4


def test_a_worker_with_another_voice_does_not_speak(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_voice, "_opened_voices", {})  # other tests use this process as a worker, too
    other = str(tiny_voice(tmp_path / "other", seed=5))
    voice = RayBookVoice(opened(folder), 1, Apart(), partial(opened, other))
    with pytest.raises(SotaqueError, match="other files of this voice"):
        spoken(voice, tmp_path / "out")
