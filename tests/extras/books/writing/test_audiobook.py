"""The audiobook's fields as another reader finds them."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extras.books.book import Book
from extras.books.speaking.sentences import Sentence
from extras.books.writing.audiobook import picture_size, write_audiobook
from tests.extras.books.books_made import PNG
from tests.extras.books.writing.chapters_made import RATE, bound

av: Any = pytest.importorskip("av")


def jpeg(width: int, height: int) -> bytes:
    """A grey JPEG by FFmpeg."""
    encoder = av.CodecContext.create("mjpeg", "w")
    encoder.width, encoder.height, encoder.pix_fmt = width, height, "yuvj420p"
    encoder.time_base = Fraction(1, 1)
    grey = av.VideoFrame.from_ndarray(np.full((height, width, 3), 99, np.uint8), format="rgb24")
    packets = [*encoder.encode(grey.reformat(format="yuvj420p")), *encoder.encode(None)]
    return b"".join(bytes(packet) for packet in packets)


def png(width: int, height: int) -> bytes:
    """The beginning of a PNG, with its size."""
    return PNG[:16] + width.to_bytes(4, "big") + height.to_bytes(4, "big") + PNG[24:]


@pytest.mark.parametrize("cover", [jpeg, png])
@pytest.mark.parametrize("size", [(40, 60), (400, 300)])
def test_the_size_of_a_cover_is_width_then_height(cover, size):
    assert picture_size(cover(*size)) == size


@pytest.mark.parametrize("cover", [b"", b"\xff\xd8", b"\x89PNG", b"\xff\xd8\xff\xe0\x00\x10"])
def test_a_cover_without_a_readable_size_gets_a_usual_one(cover):
    assert picture_size(cover) == (600, 800)


def test_another_reader_finds_titles_chapters_rate_and_the_whole_cover(tmp_path: Path):
    said = (Sentence("Nobody had seen the captain.", 0.2, 1),)
    chapters = [bound(tmp_path, 1, "One", said), bound(tmp_path, 2, "Two: ü", said * 2)]
    path, cover = tmp_path / "book.m4b", jpeg(40, 60)
    write_audiobook(path, Book("A Böok", "A. Writer", "en", [], cover), chapters)
    with av.open(str(path)) as file:
        told = file.metadata
        marks, (sound,), (picture,) = file.chapters(), file.streams.audio, file.streams.video
        frame = next(file.decode(picture))
        assert (frame.width, frame.height) == (40, 60)
        assert (sound.rate, sound.channels, sound.codec.name) == (RATE, 1, "aac")
        seconds = file.duration / 1e6
    assert [told[name] for name in ("title", "album", "artist", "album_artist", "genre")] == [
        "A Böok",
        "A Böok",
        "A. Writer",
        "A. Writer",
        "Audiobook",
    ]
    assert [mark["metadata"]["title"] for mark in marks] == ["One", "Two: ü"]
    edges = [float(mark[edge] * mark["time_base"]) for mark in marks for edge in ("start", "end")]
    first, both = chapters[0].seconds, sum(chapter.seconds for chapter in chapters)
    assert edges == pytest.approx([0, first, first, both], abs=0.002)
    assert seconds == pytest.approx(both, abs=0.1)
