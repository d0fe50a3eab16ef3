"""Reads the headers of FLAC frames, to repair files whose header declares too few samples.

Programs that are killed while writing, or that copy the header of another file, leave such a total,
and libsndfile stops reading there. Source: RFC 9639, sections 8.2 and 9.1.
"""

from typing import Any

from xtts import mp3_frames

_INFO_FROM, _INFO_BYTES = 8, 34
# The largest last frame that is searched for.
_TAIL_BYTES = 1 << 18
_SYNCS = (b"\xff\xf8", b"\xff\xf9")
_BLOCK_SIZES = {
    1: 192,
    **{code: 576 << (code - 2) for code in range(2, 6)},
    **{code: 256 << (code - 8) for code in range(8, 16)},
}


def mended(data: Any) -> tuple[bytes, int, int] | None:
    """Repairs a FLAC file whose header declares fewer samples than its frames have. Returns its
    head without a total, and the start and end of the rest; None for other files.
    """
    begin = mp3_frames.end_of_tags(data) if data[:3] == b"ID3" else 0
    head = data[begin : begin + _INFO_FROM + _INFO_BYTES]
    if head[:4] != b"fLaC" or len(head) < _INFO_FROM + _INFO_BYTES or head[4] & 0x7F:
        return None
    info = head[_INFO_FROM:]
    total = (info[13] & 0x0F) << 32 | int.from_bytes(info[14:18], "big")
    block_size = int.from_bytes(info[:2], "big")
    if not total or _last_end(data, begin, block_size) <= total:
        return None
    at = _INFO_FROM + 13
    cleared = head[:at] + bytes([head[at] & 0xF0, 0, 0, 0, 0]) + head[at + 5 :]
    return cleared, begin + len(head), len(data)


def _last_end(data: Any, begin: int, block_size: int) -> int:
    """The number of samples up to the end of the last frame; 0 if it is not found."""
    begin = max(begin + _INFO_FROM + _INFO_BYTES, len(data) - _TAIL_BYTES)
    tail, at = data[begin : len(data)], len(data) - begin
    while (at := max(tail.rfind(sync, 0, at) for sync in _SYNCS)) >= 0:
        if end := _end_of_frame(tail[at : at + 16], block_size):
            return end
    return 0


def _end_of_frame(header: bytes, block_size: int) -> int:
    """The number of samples up to the end of a frame; 0 for an invalid frame header."""
    if len(header) < 16 or header[3] & 1 or header[2] >> 4 == 0 or header[2] & 0x0F == 0x0F:
        return 0
    number, at = _coded(header, 4)
    size_code, rate_code = header[2] >> 4, header[2] & 0x0F
    size = _BLOCK_SIZES.get(size_code, 0)
    if size_code in (6, 7):
        size = int.from_bytes(header[at : at + size_code - 5], "big") + 1
        at += size_code - 5
    at += {12: 1, 13: 2, 14: 2}.get(rate_code, 0)
    if not at or number < 0 or _crc8(header[:at]) != header[at]:
        return 0
    return (number if header[1] & 1 else number * block_size) + size


def _coded(header: bytes, at: int) -> tuple[int, int]:
    """A number in UTF-8 coding (-1 if invalid), and the position after it."""
    first = header[at]
    if first < 0x80:
        return first, at + 1
    count = 8 - (first ^ 0xFF).bit_length()
    if not 2 <= count <= 7:
        return -1, at
    number = first & (0x7F >> count)
    for byte in header[at + 1 : at + count]:
        if byte >> 6 != 0b10:
            return -1, at
        number = number << 6 | byte & 0x3F
    return number, at + count


def _crc8(data: bytes) -> int:
    check = 0
    for byte in data:
        check ^= byte
        for _ in range(8):
            check = (check << 1 ^ 0x07) & 0xFF if check & 0x80 else check << 1
    return check
