"""Counts the frames of MP3 files, to repair files without a valid length.

Without a Xing header libsndfile estimates the length from the first frame and the size of the file,
including a cover picture, and stops reading there.

Sources: ISO 11172-3 and 13818-3 (frames), id3.org/id3v2.4.0-structure (tags), and
gabriel.mp3-tech.org/mp3infotag.html (the Xing header, as LAME writes it).
"""

import struct
from dataclasses import dataclass
from typing import Protocol, overload

# kbit/s of Layer III, MPEG 1 and 2, and the rates of MPEG 1.
_BITRATES_1 = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_BITRATES_2 = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_RATES_1 = (44_100, 48_000, 32_000)
_FRAMES_FLAG, _BYTES_FLAG = 1, 2
# The header's size does not include tags at the end of the file, such as ID3v1 with 128 bytes.
_MAX_OTHER_SHARE, _MAX_OTHER_BYTES = 0.01, 1024
_MAX_JUNK = 1 << 16
# kbit/s of the frame with the length, which needs room for it.
_ROOMY = 64


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
    """The header of a frame. kind: version and rate; bytes: its size; samples: its decoded length;
    side: the offset of a Xing header in it."""

    kind: bytes
    bytes: int
    samples: int
    side: int


def frame_header(data: Buffer, at: int = 0) -> FrameHeader | None:
    """The header of a Layer III frame at `at` of a buffer, or None."""
    if len(data) < at + 4 or data[at] != 0xFF or data[at + 1] & 0xE6 != 0xE2:
        return None
    second, third, fourth = data[at + 1], data[at + 2], data[at + 3]
    version, bitrate, rate = (second >> 3) & 3, third >> 4, (third >> 2) & 3
    if version == 1 or not 0 < bitrate < 15 or rate == 3:
        return None
    version_1, mono = version == 3, fourth >> 6 == 3
    bits = (_BITRATES_1 if version_1 else _BITRATES_2)[bitrate - 1] * 1000
    hertz = _RATES_1[rate] // (1 if version_1 else 2 if version == 2 else 4)
    samples = 1152 if version_1 else 576
    side = 4 + ((17 if mono else 32) if version_1 else (9 if mono else 17))
    return FrameHeader(
        bytes((second & 0x18, third & 0x0C)), samples // 8 * bits // hertz + ((third >> 1) & 1), samples, side
    )


def end_of_tags(data: Buffer) -> int:
    """The position after the ID3v2 tags at the start of a buffer."""
    at = 0
    while data[at : at + 3] == b"ID3" and len(data) >= at + 10:
        a, b, c, d = data[at + 6 : at + 10]
        at += 10 + (a << 21 | b << 14 | c << 7 | d) + (10 if data[at + 5] & 0x10 else 0)
    return at


def is_length(frame: bytes, header: FrameHeader) -> bool:
    """Whether a frame contains the length of the file instead of sound."""
    return frame[header.side : header.side + 4] in (b"Xing", b"Info") or frame[36:40] == b"VBRI"


def repair(data: Buffer) -> tuple[bytes, int, int] | None:
    """Repairs an MP3 file without a valid length.

    Args:
        data: The whole file, as bytes or another buffer.

    Returns:
        (a first frame with the length, start and end of the rest); None if the length is plausible,
        and for other formats.
    """
    start = end_of_tags(data)
    first = _next(data, start, None)
    if first is None:
        return None
    at, header = first
    if is_length(data[at : at + header.bytes], header):
        if _is_plausible(data[at : at + header.bytes], header, len(data) - at):
            return None
        at += header.bytes
    count, end, place = 0, at, _next(data, at, header.kind)
    while place is not None:
        count, end = count + 1, place[0] + place[1].bytes
        place = _next(data, end, header.kind)
    end = min(end, len(data))
    return _length_frame(data[first[0] : first[0] + 4], count, end - at), at, end


def _next(data: Buffer, at: int, kind: bytes | None) -> tuple[int, FrameHeader] | None:
    """The next frame of this kind; with kind None, the next that is followed by one of its kind."""
    last = min(len(data) - 4, at + _MAX_JUNK)
    while at <= last:
        header = frame_header(data, at)
        if header and kind in (None, header.kind):
            after = frame_header(data, at + header.bytes)
            if kind is not None or (after and after.kind == header.kind):
                return at, header
        at = data.find(b"\xff", at + 1)
        if at < 0:
            return None
    return None


def _is_plausible(frame: bytes, header: FrameHeader, num_bytes: int) -> bool:
    """Whether a Xing header fits the file. In joined files it describes the first one only."""
    flags, frames, declared = struct.unpack(">III", frame[header.side + 4 : header.side + 16])
    if frame[36:40] == b"VBRI" or not flags & _FRAMES_FLAG or not frames:
        return False
    if not flags & _BYTES_FLAG:
        return True
    return num_bytes - declared <= max(_MAX_OTHER_BYTES, _MAX_OTHER_SHARE * declared)


def _length_frame(like: bytes, count: int, num_bytes: int) -> bytes:
    """A silent frame with the number of frames, of the kind of the 4 header bytes `like`."""
    version_1 = like[1] & 0x18 == 0x18
    bitrate = (_BITRATES_1 if version_1 else _BITRATES_2).index(_ROOMY) + 1
    head = bytes((0xFF, like[1] | 1, bitrate << 4 | like[2] & 0x0C, like[3]))
    header = frame_header(head)
    assert header is not None
    words = b"Xing" + struct.pack(">III", _FRAMES_FLAG | _BYTES_FLAG, count, num_bytes)
    return (head.ljust(header.side, b"\0") + words).ljust(header.bytes, b"\0")
