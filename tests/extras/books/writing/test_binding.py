"""The files of a chapter, decoded by other readers: words sound at their stated times."""

import io
import json
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import soundfile

from extras.books.book import Book, Kind
from extras.books.speaking.sentences import Sentence
from extras.books.writing.audiobook import write_audiobook
from extras.books.writing.binding import BoundChapter, file_stem
from extras.books.writing.overlay import write_overlay
from tests.extras.books.books_made import PNG
from tests.extras.books.writing.chapters_made import bound

CODE_SECONDS = 1024 / 22_050
SAID = (
    Sentence("One of them", 1.2, 0, Kind.HEADING),
    Sentence("Nobody had seen the captain.", 0.2, 1),
    Sentence("He was late again.", 0.6, 1),
)


@pytest.fixture(scope="module")
def chapters(tmp_path_factory: pytest.TempPathFactory) -> list[BoundChapter]:
    folder = tmp_path_factory.mktemp("takes")
    return [bound(folder, 1, "One", SAID), bound(folder, 2, "Two: ü <B>", SAID[1:])]


def onsets(sound: Any, rate: int) -> Any:
    """The start of each hum in a sound `[samples]`, in seconds."""
    step = rate // 200
    levels = np.abs(sound[: len(sound) // step * step].reshape(-1, step)).max(axis=1)
    loud = levels > 0.3 * levels.max()
    begins = np.flatnonzero(loud[1:] & ~loud[:-1]) + 1
    # A hum ends where 50 ms are silent.
    return np.array([begin for begin in begins if not loud[max(0, begin - 10) : begin].any()]) * step / rate


def decoded(path: Path) -> tuple[Any, int]:
    """The sound in a player: decoded by libsndfile if it knows the format, otherwise by FFmpeg."""
    if path.suffix not in (".m4a", ".m4b"):
        return soundfile.read(path)
    av = pytest.importorskip("av")
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        frames = [frame.to_ndarray()[0] for frame in container.decode(stream)]
        # An edit list holds the delay of the encoder.
        skipped = max(0, -(stream.start_time or 0)) if stream.start_time else 0
        return np.concatenate(frames)[skipped:], stream.rate


@pytest.mark.parametrize("form", ["wav", "flac", "mp3", "opus", "m4a"])
def test_each_word_sounds_when_it_is_said_to(chapters, tmp_path, form):
    (chapter, _), path = chapters, tmp_path / f"one.{form}"
    if form == "m4a":
        pytest.importorskip("av")
    chapter.write(path, form)
    chapter.write_words(tmp_path / "one.json")
    told = [word["start_time"] for word in json.loads((tmp_path / "one.json").read_text())]
    found = onsets(*decoded(path))
    assert len(found) == len(told) == 12
    assert np.abs(found - told).max() < CODE_SECONDS


def test_a_name_of_long_letters_is_one_that_file_systems_take(chapters, tmp_path):
    stem = file_stem(3, "\U00020000" * 90)
    assert stem == "03 " + "\U00020000" * 40
    chapters[0].write(tmp_path / f"{stem} with sound.wav", "wav")
    assert file_stem(1, "The Whale: " + "a" * 90) == "01 The Whale " + "a" * 50


def test_a_span_of_the_overlay_is_its_sentence(chapters, tmp_path):
    path = tmp_path / "book.epub"
    with path.open("wb") as file:
        write_overlay(file, Book("B", "A", "en", []), chapters, "en")
    with zipfile.ZipFile(path) as made:
        smil = ElementTree.fromstring(made.read("OPS/c1.smil"))
        found = onsets(*soundfile.read(io.BytesIO(made.read("OPS/c1.mp3"))))
    clips = [element.attrib for element in smil.iter("{http://www.w3.org/ns/SMIL}audio")]
    spans = [(float(clip["clipBegin"][:-1]), float(clip["clipEnd"][:-1])) for clip in clips]
    # The first and last word of each sentence are inside its clip and in no other.
    counts = [sum(begin - CODE_SECONDS < moment < end for moment in found) for begin, end in spans]
    assert counts == [3, 5, 4]
    firsts = [found[0], found[3], found[8]]
    assert max(abs(first - 0.05 - begin) for first, (begin, _) in zip(firsts, spans, strict=True)) < (
        CODE_SECONDS
    )


def boxes(content: bytes) -> Iterator[tuple[str, bytes]]:
    """The boxes of ISO 14496-12: (type, content), read without FFmpeg."""
    at = 0
    while at + 8 <= len(content):
        size, kind = struct.unpack_from(">I4s", content, at)
        head = 8
        if size == 1:
            (size,), head = struct.unpack_from(">Q", content, at + 8), 16
        size = size or len(content) - at
        yield kind.decode("latin-1"), content[at + head : at + size]
        at += size


def inside(content: bytes, *path: str) -> list[bytes]:
    """The contents of all boxes at a path."""
    found = [content]
    for name in path:
        found = [box for part in found for kind, box in boxes(part) if kind == name]
    return found


def test_an_audiobook_is_read_without_ffmpeg(chapters, tmp_path):
    """Title, author, cover and chapter marks, from the bytes of the file."""
    pytest.importorskip("av")
    path = tmp_path / "book.m4b"
    write_audiobook(path, Book("A Böok", "A. Writer", "en", [], PNG), chapters)
    content = path.read_bytes()
    (meta,) = inside(content, "moov", "udta", "meta")
    told = dict(boxes(inside(meta[4:], "ilst")[0]))
    for name, expected in (("\xa9nam", "A Böok"), ("\xa9ART", "A. Writer"), ("covr", None)):
        data = inside(told[name], "data")[0][8:]
        assert data == (expected.encode() if expected else PNG)
    (marks,) = inside(content, "moov", "udta", "chpl")
    at, found = 9, []
    for _ in range(marks[8]):
        start, length = struct.unpack_from(">QB", marks, at)
        found.append((start / 1e7, marks[at + 9 : at + 9 + length].decode()))
        at += 9 + length
    assert [title for _, title in found] == ["One", "Two: ü <B>"]
    assert [start for start, _ in found] == pytest.approx([0.0, chapters[0].seconds], abs=0.002)
    heard = onsets(*decoded(path))
    # The second chapter begins where its mark says: silence, then its first word.
    first = found[1][0] + 0.75 + 0.05
    assert np.abs(heard - first).min() < CODE_SECONDS and len(heard) == 12 + 9
