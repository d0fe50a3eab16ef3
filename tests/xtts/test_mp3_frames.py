"""What stands before the sound of an MP3 file, in forms that our own encoder does not write."""

import pytest

from xtts.mp3_frames import end_of_tags, frame_header, is_length_frame

FRAME = b"\xff\xfb\x90\xc0"  # MPEG 1, 128 kbit/s, 44,100 Hz, one channel


def tag(size: int, *, footer: bool) -> bytes:
    """An ID3v2.4 tag with `size` bytes of content."""
    told = bytes((size >> shift) & 0x7F for shift in (21, 14, 7, 0))
    flags = bytes([0x10 if footer else 0])
    return b"ID3\x04\x00" + flags + told + bytes(size) + (b"3DI" + bytes(7) if footer else b"")


@pytest.mark.parametrize("footer", [False, True])
@pytest.mark.parametrize("size", [1, 200, 20_000])
def test_tags_end_where_the_sound_begins(footer, size):
    tags = tag(size, footer=footer) + tag(9, footer=False)
    assert end_of_tags(tags + FRAME) == len(tags)


@pytest.mark.parametrize(
    ("place", "name", "length"),
    [(21, b"Xing", True), (21, b"Info", True), (36, b"VBRI", True), (21, b"Zing", False)],
)
def test_a_first_frame_with_the_length_is_told_by_its_name(place, name, length):
    """Fraunhofer's encoder writes VBRI at byte 36, whatever the frame."""
    header = frame_header(FRAME)
    frame = bytearray(FRAME + bytes(413))
    frame[place : place + 4] = name
    assert header and header.xing_offset == 21 and is_length_frame(bytes(frame), header) is length
