"""Writes an audiobook, `.m4b`: AAC in MP4 with chapters, cover, title and author."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from extras.books.book import Book, BookError
from extras.books.writing.binding import BoundChapter
from machine import commands
from machine.storage.files import replacing
from xtts.encoding import BITS_PER_SECOND, RATE, pcm_frame
from xtts.sound_endings import av_is_installed

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.container.core import Chapter
    from av.video.stream import VideoStream


def missing_encoder() -> str:
    """The error message for audiobooks without FFmpeg's encoder."""
    return (
        "An audiobook (m4b) and m4a need FFmpeg's encoder, which is not installed here. Install it "
        f"with `{commands.install_extra('aac')}`, or choose --format mp3, flac, opus or wav."
    )


def write_audiobook(path: Path, book: Book, chapters: Sequence[BoundChapter]) -> None:
    """Writes all chapters into one file, with constant memory.

    Raises BookError if FFmpeg's encoder is missing, DiskFull, WriteError.
    """
    if not av_is_installed():
        raise BookError(missing_encoder())
    import av

    with replacing(path) as file:
        container = av.open(file, "w", format="mp4")
        container.metadata.update(
            {
                "title": book.title,
                "album": book.title,
                "artist": book.author,
                "album_artist": book.author,
                "genre": "Audiobook",
                "comment": chapters[0].mark.text,
            }
        )
        stream = container.add_stream("aac", rate=RATE, layout="mono")
        stream.bit_rate = BITS_PER_SECOND
        cover_stream = _add_cover_stream(container, book.cover) if book.cover else None
        container.set_chapters(_chapter_marks(chapters))
        container.start_encoding()
        if cover_stream is not None:
            _write_cover(container, cover_stream, book.cover or b"")
        num_samples = 0
        for chapter in chapters:
            for pcm in chapter.pcm():
                if pcm:
                    frame = pcm_frame(pcm, num_samples)
                    num_samples += frame.samples
                    container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        container.close()


def _chapter_marks(chapters: Sequence[BoundChapter]) -> "list[Chapter]":
    marks: list[Chapter] = []
    start = 0
    for number, chapter in enumerate(chapters):
        end = start + chapter.num_samples
        marks.append(
            {
                "id": number,
                "start": start,
                "end": end,
                "time_base": Fraction(1, RATE),
                "metadata": {"title": chapter.title},
            }
        )
        start = end
    return marks


def _add_cover_stream(container: "OutputContainer", cover: bytes) -> "VideoStream":
    import av

    width, height = picture_size(cover)
    stream = container.add_stream("png" if cover.startswith(b"\x89PNG") else "mjpeg", rate=1)
    stream.width, stream.height = width, height
    stream.pix_fmt = "rgb24" if cover.startswith(b"\x89PNG") else "yuvj420p"
    stream.disposition = av.stream.Disposition.attached_pic
    return stream


def _write_cover(container: "OutputContainer", stream: "VideoStream", cover: bytes) -> None:
    """Writes the cover's bytes without encoding it again."""
    import av

    packet = av.Packet(cover)
    packet.stream, packet.pts, packet.dts = stream, 0, 0
    packet.time_base, packet.is_keyframe = Fraction(1, 1), True
    container.mux(packet)


def picture_size(cover: bytes) -> tuple[int, int]:
    """Width and height of a PNG or JPEG, from its header; 600 x 800 if that is missing."""
    if cover.startswith(b"\x89PNG") and len(cover) >= 24:
        return int.from_bytes(cover[16:20], "big"), int.from_bytes(cover[20:24], "big")
    # The segments of a JPEG; those of the kinds 0xC0 to 0xCF begin frames, with three exceptions.
    segment = 2
    while segment + 9 < len(cover) and cover[segment] == 0xFF:
        kind = cover[segment + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height = int.from_bytes(cover[segment + 5 : segment + 7], "big")
            return int.from_bytes(cover[segment + 7 : segment + 9], "big"), height
        segment += 2 + int.from_bytes(cover[segment + 2 : segment + 4], "big")
    return 600, 800
