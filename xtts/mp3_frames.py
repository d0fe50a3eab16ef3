"""Counts the frames of MP3 files, to repair files without a valid length.

Without a Xing header libsndfile estimates the length from the first frame and the size of the file,
including a cover picture, and stops reading there.

Sources: ISO 11172-3 and 13818-3 (frames), id3.org/id3v2.4.0-structure (tags), and
gabriel.mp3-tech.org/mp3infotag.html (the Xing header, as LAME writes it).
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple, Protocol, overload

# kbit/s of Layer III in MPEG 1 and MPEG 2, and the sample rates of MPEG 1 in Hz.
_BITRATES_1 = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_BITRATES_2 = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_RATES_1 = (44_100, 48_000, 32_000)
_FRAMES_FLAG, _BYTES_FLAG = 1, 2
# The declared size does not include tags at the end of the file, such as ID3v1 with 128 bytes.
_MAX_TAGS_SHARE, _MAX_TAGS_BYTES = 0.01, 1024
_MAX_JUNK_BYTES = 1 << 16
# The bit rate of a frame that is long enough for the length.
_LENGTH_FRAME_KILOBITS = 64


class Buffer(Protocol):
    """The bytes of a file: `bytes`, or an object that reads them."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...
    def find(self, byte: bytes, start: int, /) -> int:
        """The next position of a byte; -1 if there is none."""


@dataclass(frozen=True)
class FrameHeader:
    """The header of a frame.

    Attributes:
        kind: The bits of version and rate.
        bytes: The size of the frame.
        samples: The decoded length.
        xing_offset: Where a Xing header begins, if there is one.
    """

    kind: bytes
    bytes: int
    samples: int
    xing_offset: int


class Frame(NamedTuple):
    """A frame at a position in a buffer."""

    position: int
    header: FrameHeader


class Repair(NamedTuple):
    """Replaces the beginning of a file: `head` is followed by the bytes from `start` to `end`."""

    head: bytes
    start: int
    end: int


def frame_header(data: Buffer, at: int = 0) -> FrameHeader | None:
    """The header of the Layer III frame at a position of a buffer; None if there is none."""
    if len(data) < at + 4 or data[at] != 0xFF or data[at + 1] & 0xE6 != 0xE2:
        return None
    second, third, fourth = data[at + 1], data[at + 2], data[at + 3]
    version, bitrate_index, rate_index = (second >> 3) & 3, third >> 4, (third >> 2) & 3
    if version == 1 or not 0 < bitrate_index < 15 or rate_index == 3:
        return None
    is_mpeg_1, is_mono, padding = version == 3, fourth >> 6 == 3, (third >> 1) & 1
    bits = (_BITRATES_1 if is_mpeg_1 else _BITRATES_2)[bitrate_index - 1] * 1000
    hertz = _RATES_1[rate_index] // (1 if is_mpeg_1 else 2 if version == 2 else 4)
    samples = 1152 if is_mpeg_1 else 576
    side_info_bytes = (17 if is_mono else 32) if is_mpeg_1 else (9 if is_mono else 17)
    num_bytes = samples // 8 * bits // hertz + padding
    return FrameHeader(bytes((second & 0x18, third & 0x0C)), num_bytes, samples, 4 + side_info_bytes)


def end_of_tags(data: Buffer) -> int:
    """The position after the ID3v2 tags at the start of a buffer."""
    at = 0
    while data[at : at + 3] == b"ID3" and len(data) >= at + 10:
        a, b, c, d = data[at + 6 : at + 10]
        at += 10 + (a << 21 | b << 14 | c << 7 | d) + (10 if data[at + 5] & 0x10 else 0)
    return at


def is_length_frame(frame: bytes, header: FrameHeader) -> bool:
    """Whether a frame contains the length of the file instead of sound."""
    return frame[header.xing_offset : header.xing_offset + 4] in (b"Xing", b"Info") or frame[36:40] == b"VBRI"


def repair(data: Buffer) -> Repair | None:
    """Repairs an MP3 file without a valid length: a first frame with the length, then the other
    frames. None if the length is plausible, and for other formats."""
    first = _next_frame(data, end_of_tags(data), None)
    if first is None:
        return None
    start, header = first
    if is_length_frame(data[start : start + header.bytes], header):
        if _is_plausible(data[start : start + header.bytes], header, len(data) - start):
            return None
        start += header.bytes
    num_frames, end, frame = 0, start, _next_frame(data, start, header.kind)
    while frame is not None:
        num_frames, end = num_frames + 1, frame.position + frame.header.bytes
        frame = _next_frame(data, end, header.kind)
    end = min(end, len(data))
    head = _length_frame(data[first.position : first.position + 4], num_frames, end - start)
    return Repair(head, start, end)


def _next_frame(data: Buffer, at: int, kind: bytes | None) -> Frame | None:
    """The next frame of this kind; with kind None, the next that is followed by one of its kind."""
    last = min(len(data) - 4, at + _MAX_JUNK_BYTES)
    while at <= last:
        header = frame_header(data, at)
        if header and kind in (None, header.kind):
            next_header = frame_header(data, at + header.bytes)
            if kind is not None or (next_header and next_header.kind == header.kind):
                return Frame(at, header)
        at = data.find(b"\xff", at + 1)
        if at < 0:
            return None
    return None


def _is_plausible(frame: bytes, header: FrameHeader, num_bytes: int) -> bool:
    """Whether a Xing header fits the file. In joined files it describes the first one only."""
    xing_fields = frame[header.xing_offset + 4 : header.xing_offset + 16]
    flags, num_frames, declared_bytes = struct.unpack(">III", xing_fields)
    if frame[36:40] == b"VBRI" or not flags & _FRAMES_FLAG or not num_frames:
        return False
    if not flags & _BYTES_FLAG:
        return True
    return num_bytes - declared_bytes <= max(_MAX_TAGS_BYTES, _MAX_TAGS_SHARE * declared_bytes)


def _length_frame(first_header: bytes, num_frames: int, num_bytes: int) -> bytes:
    """A silent frame with the length of a file. first_header: the 4 bytes of its first header."""
    is_mpeg_1 = first_header[1] & 0x18 == 0x18
    bitrate_index = (_BITRATES_1 if is_mpeg_1 else _BITRATES_2).index(_LENGTH_FRAME_KILOBITS) + 1
    third = bitrate_index << 4 | first_header[2] & 0x0C
    head = bytes((0xFF, first_header[1] | 1, third, first_header[3]))
    header = frame_header(head)
    assert header is not None
    xing = b"Xing" + struct.pack(">III", _FRAMES_FLAG | _BYTES_FLAG, num_frames, num_bytes)
    return (head.ljust(header.xing_offset, b"\0") + xing).ljust(header.bytes, b"\0")
