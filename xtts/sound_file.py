"""Opens recordings and reads them completely, even if their headers declare no length.

Programs that write to a pipe do not know the length: a WAV then declares 0 bytes, a FLAC 0 samples,
and an MP3 lacks the Xing header. libsndfile trusts the first, reads the second as 2^63 samples and
estimates the third. It also refuses a CAF without a length, and stops after the first of several
chained Ogg streams. This module repairs such headers, or counts the frames, and reads all streams.

Importing this module does not import torch; the API's decoding child reads with it, too.
"""

import contextlib
import importlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import soundfile

from xtts import mp3_frames
from xtts.sound_endings import FOREIGN, av_is_installed

Array = np.ndarray[Any, Any]

BLOCK_FRAMES = 1 << 16
MOST_CHANNELS = 8
# In steps of 25, because 22,051, for example, is coprime to 22,050 and 24,000, and its resampling
# filter would take 2 GB.
RATES = range(8_000, 192_001, 25)
# soundfile's errors: RuntimeError from libsndfile, TypeError for a name such as x.raw.
UNDECODABLE = (OSError, RuntimeError, TypeError, ValueError)
# libsndfile's length of a FLAC file without a total number of samples.
_UNKNOWN_FRAMES = 0x7FFF_FFFF_FFFF_FFFF
_UNKNOWN_BYTES = b"\xff\xff\xff\xff"
_CHANGES = "Its sample rate or its channels change inside the file."
_OGG_HEAD = 27
_OGG_BEGINS = 0x02


class Sound:
    """An open recording, which is read once, from its beginning.

    rate: in Hz; declared_frames: the length in the header, or None.
    """

    rate: int
    channels: int
    declared_frames: int | None = None

    def read(self, frames: int) -> Array:
        """The next `[frames, channels]`, float32; fewer at the end of a stream, none at the end."""
        raise NotImplementedError

    def blocks(self, most: int | None = None, size: int = BLOCK_FRAMES) -> Iterator[Array]:
        """`[frames, channels]`, float32: at most `size` frames at a time, and `most` in total."""
        left = most
        while left is None or left > 0:
            block = self.read(size if left is None else min(size, left))
            if not len(block):
                return
            yield block
            left = None if left is None else left - len(block)

    def count(self) -> int:
        """The number of frames from here to its end."""
        return sum(map(len, self.blocks()))


@contextlib.contextmanager
def opened(source: Path | bytes, *, by_av: bool = True) -> Iterator[Sound]:
    """Opens a file, or the bytes of one. Raises one of UNDECODABLE.

    by_av: allows FFmpeg's decoder for files that libsndfile does not read, if the package `av` is
    installed.
    """
    with contextlib.ExitStack() as stack:
        try:
            sound: Sound = _Sndfile(source, stack)
        except soundfile.LibsndfileError:
            if isinstance(source, bytes) or source.suffix.lower() not in FOREIGN:
                raise
            if not (by_av and av_is_installed()):
                raise
            sound = AvSound(source, stack)
        yield sound


class _Sndfile(Sound):
    """A recording that libsndfile reads."""

    def __init__(self, source: Path | bytes, stack: contextlib.ExitStack) -> None:
        opening: Any = source.open("rb") if isinstance(source, Path) else io.BytesIO(source)
        streams = _streams(stack.enter_context(opening))
        file: Any = io.BytesIO(source) if isinstance(source, bytes) else str(source)
        self._later, self._stack = streams[1:], stack
        self._file: Any = stack.enter_context(soundfile.SoundFile(streams[0] if streams else file))
        if self._file.frames == _UNKNOWN_FRAMES:
            # soundfile seeks to its position after each block, which fails at the end of the file.
            self._file.seekable = lambda: False
        elif not self._later:
            self.declared_frames = self._file.frames
        self.rate, self.channels = self._file.samplerate, self._file.channels

    def read(self, frames: int) -> Array:
        found: Array = self._file.read(frames, dtype="float32", always_2d=True)
        while not len(found) and self._later:
            self._file = self._stack.enter_context(soundfile.SoundFile(self._later.pop(0)))
            if (self.rate, self.channels) != (self._file.samplerate, self._file.channels):
                raise ValueError(_CHANGES)
            found = self._file.read(frames, dtype="float32", always_2d=True)
        return found


class AvSound(Sound):
    """The first audio track of a file that FFmpeg's decoder reads.

    container: FFmpeg's name of the format; None probes it. codecs: the allowed ones; () allows all.
    declared_seconds: the length in the header, or 0.
    """

    def __init__(
        self,
        source: Path | bytes,
        stack: contextlib.ExitStack,
        container: str | None = None,
        codecs: Sequence[str] = (),
    ) -> None:
        # By name, because `av` is optional.
        av = importlib.import_module("av")
        # As a nameless stream and without protocols, because a playlist could make FFmpeg read
        # other files.
        options = {"protocol_whitelist": "none"}
        if codecs:
            options["codec_whitelist"] = ",".join(codecs)
        opening: Any = source.open("rb") if isinstance(source, Path) else io.BytesIO(source)
        file = stack.enter_context(opening)
        opened = stack.enter_context(av.open(file, format=container, options=options))
        if not opened.streams.audio:
            raise ValueError("It has no audio track.")
        track = opened.streams.audio[0]
        if codecs and (codec := track.codec_context.name) not in codecs:
            raise ValueError(f"Its sound is {codec}, which is not supported. Convert it to WAV.")
        self.declared_seconds = (opened.duration or 0) / av.time_base
        self._to_float = av.AudioResampler(format="flt")
        self._frames = opened.decode(track)
        first = next(self._frames, None)
        if first is None:
            raise ValueError("Its audio track is empty.")
        # From the frame, because the header of HE-AAC declares half of the rate.
        self.rate, self.channels = first.sample_rate, first.layout.nb_channels
        self._held = self._plain(first)

    def read(self, frames: int) -> Array:
        while not len(self._held):
            frame = next(self._frames, None)
            if frame is None:
                return self._held
            self._held = self._plain(frame)
        found, self._held = self._held[:frames], self._held[frames:]
        return found

    def _plain(self, frame: Any) -> Array:
        if (self.rate, self.channels) != (frame.sample_rate, frame.layout.nb_channels):
            raise ValueError(_CHANGES)
        parts = [
            one.to_ndarray().reshape(-1, self.channels) for one in self._to_float.resample(frame)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, self.channels), np.float32)


def _streams(file: BinaryIO) -> list[Any]:
    """The streams of a file that libsndfile does not read completely, with repaired headers; []
    for other files."""
    kind = file.read(4)
    if kind == b"OggS":
        return _ogg_streams(file)
    if kind in _HEADS and (head := _HEADS[kind](file)):
        file.seek(0)
        return [_Patched(file, head)]
    if kind[:3] == b"ID3" or kind[:1] == b"\xff":
        mended = mp3_frames.mended(kind + file.read())
        return [io.BytesIO(mended)] if mended else []
    return []


def _wav_head(file: BinaryIO) -> bytes | None:
    """The header of a WAV file whose samples have the size 0, with sizes that mean "to the end";
    None for other files."""
    at = 12
    while len(chunk := _bytes(file, at, 8)) == 8 and chunk[:4] != b"data":
        at += 8 + int.from_bytes(chunk[4:], "little")
        at += at % 2
    if chunk[:4] != b"data" or chunk[4:] != bytes(4):
        return None
    return b"RIFF" + _UNKNOWN_BYTES + _bytes(file, 8, at - 4) + _UNKNOWN_BYTES


def _caf_head(file: BinaryIO) -> bytes | None:
    """As `_wav_head`, for a CAF file whose samples have the size -1."""
    at = 8
    while len(chunk := _bytes(file, at, 12)) == 12 and chunk[:4] != b"data":
        at += 12 + int.from_bytes(chunk[4:], "big")
    if chunk[4:] != b"\xff" * 8:
        return None
    size = file.seek(0, io.SEEK_END) - at - 12
    return _bytes(file, 0, at + 4) + size.to_bytes(8, "big")


_HEADS = {b"RIFF": _wav_head, b"caff": _caf_head}


def _ogg_streams(file: BinaryIO) -> list[Any]:
    """The streams of a chained Ogg file; [] for others.

    A chain consists of concatenated files (RFC 3533, 4): first pages of a stream follow pages of
    another.
    """
    begins, at, was_begin = list[int](), 0, False
    while len(head := _bytes(file, at, _OGG_HEAD)) == _OGG_HEAD and head[:4] == b"OggS":
        is_begin = bool(head[5] & _OGG_BEGINS)
        if is_begin and not was_begin:
            begins.append(at)
        was_begin = is_begin
        at += _OGG_HEAD + head[26] + sum(file.read(head[26]))
    if len(begins) < 2:
        return []
    ends = [*begins[1:], file.seek(0, io.SEEK_END)]
    return [
        io.BytesIO(_bytes(file, begin, end - begin))
        for begin, end in zip(begins, ends, strict=True)
    ]


def _bytes(file: BinaryIO, at: int, count: int) -> bytes:
    file.seek(at)
    return file.read(count)


class _Patched:
    """A file whose first bytes are replaced by `head`."""

    def __init__(self, file: BinaryIO, head: bytes) -> None:
        self._file, self._head = file, head
        self.seek, self.tell = file.seek, file.tell

    def read(self, count: int) -> bytes:
        at, data = self.tell(), self._file.read(count)
        return self._head[at : at + len(data)] + data[max(0, len(self._head) - at) :]
