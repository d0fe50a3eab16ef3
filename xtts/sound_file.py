"""Opens recordings and reads them completely, even if their headers declare a wrong length.

Programs that write to a pipe do not know the length: a WAV then declares 0 bytes, a FLAC 0 samples,
and an MP3 lacks the Xing header. libsndfile trusts the first, reads the second as 2^63 samples and
estimates the third. It also trusts a FLAC that declares too few samples, refuses a CAF without a
length, and stops after the first of several chained Ogg streams. This module uses the length of the
header only if it is plausible, else counts the frames, and reads all streams.

The content decides the format, whatever the ending is.

Importing this module does not import torch; the API's decoding child reads with it, too.
"""

import contextlib
import importlib
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, overload

import numpy as np
import soundfile
from numpy.typing import NDArray

from xtts import mp3_frames
from xtts.sound_endings import FOREIGN, av_is_installed

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from av import AudioFrame

Array = NDArray[np.float32]
AvArguments = Mapping[str, Any]

BLOCK_FRAMES = 1 << 16
MAX_CHANNELS = 8
# In steps of 25, because 22,051, for example, is coprime to 22,050 and 24,000, and its resampling
# filter would take 2 GB.
RATES = range(8_000, 192_001, 25)
# soundfile's errors (RuntimeError from libsndfile, TypeError for a name such as x.raw) and av's.
UNDECODABLE = (EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError)
_KNOWN = (*UNDECODABLE, MemoryError)
# libsndfile's length of a FLAC file without a total number of samples.
_UNKNOWN_FRAMES = 0x7FFF_FFFF_FFFF_FFFF
_UNKNOWN_BYTES = b"\xff\xff\xff\xff"
_CHUNK_HEAD = 8
_MP3_IN_WAV = b"\x55\0"
_HELD_BYTES = 1 << 18
_CHANGES = "Its sample rate or its channels change inside the file. Convert it to WAV."
# The offset of the 36 bits with a FLAC file's total number of samples.
_FLAC_TOTAL = 21
_OGG_HEAD = 27
_OGG_BEGINS = 0x02
# The first bytes of Matroska and WebM, WMA and AMR; MP4 and QuickTime begin with a box of one of
# these names, raw AAC with a sync word whose layer is 0.
_FOREIGN_BEGINS = (b"\x1a\x45\xdf\xa3", b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", b"#!AMR", b"ADIF")
_MP4_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")


class Sound(ABC):
    """An open recording, which is read once, from its beginning.

    rate: in Hz; declared_frames: the length in the header, or None.
    """

    rate: int
    channels: int
    declared_frames: int | None = None

    @abstractmethod
    def read(self, frames: int) -> Array:
        """At most this many further frames; none at the end."""

    def blocks(self, most: int | None = None, size: int = BLOCK_FRAMES) -> Iterator[Array]:
        """`[frames, channels]`, float32: at most `size` frames at a time, and `most` in total."""
        left = most
        while left is None or left > 0:
            block = self.read(size if left is None else min(size, left))
            if not len(block):
                return
            yield block
            left = None if left is None else left - len(block)


@contextlib.contextmanager
def open_sound(
    source: Path | bytes, *, by_av: bool = True, only_av: AvArguments | None = None
) -> Iterator[Sound]:
    """Opens a file, or the bytes of one. Raises one of UNDECODABLE.

    by_av: allows FFmpeg's decoder for files that need it, if the package `av` is installed.
    only_av: arguments of `av.open`, with which FFmpeg's decoder reads the file.
    """
    with contextlib.ExitStack() as stack:
        yield _sound(source, stack, by_av=by_av, only_av=only_av)


def _sound(
    source: Path | bytes, stack: contextlib.ExitStack, *, by_av: bool, only_av: AvArguments | None
) -> Sound:
    if only_av:
        return _Av(source, stack, only_av)
    if isinstance(source, bytes):
        return _Sndfile(source, stack)
    if _begins_foreign(source):  # libsndfile takes some of these files for MP3
        if not (by_av and av_is_installed()):
            raise ValueError("Only FFmpeg reads its format.")
        return _Av(source, stack, {})
    try:
        return _Sndfile(source, stack)
    except soundfile.LibsndfileError:
        if not (by_av and needs_av(source) and av_is_installed()):
            raise
        return _Av(source, stack, {})


def needs_av(path: Path) -> bool:
    """Whether a file is in a format that only FFmpeg's decoder reads, by its content or, for
    content that is neither, by its ending."""
    return _begins_foreign(path) or path.suffix.lower() in FOREIGN


def _begins_foreign(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError:
        return False
    is_aac = len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0
    return head.startswith(_FOREIGN_BEGINS) or head[4:8] in _MP4_BOXES or is_aac


def reason_of(error: BaseException) -> str:
    """One of UNDECODABLE in the words of its library, without the path."""
    words = str(getattr(error, "error_string", "") or getattr(error, "strerror", "") or error)
    return (words.splitlines() or [type(error).__name__])[0].rstrip(". ")


class _Forwards(soundfile.SoundFile):
    """Reads without seeking. soundfile seeks to its position after each block, which fails at the
    end of a FLAC file without a total number of samples, and damages the sound of an MP3 file,
    whose frames use bits of earlier ones."""

    def seekable(self) -> bool:
        return False


class _Sndfile(Sound):
    """A recording that libsndfile reads, with a repaired header if necessary."""

    def __init__(self, source: Path | bytes, stack: contextlib.ExitStack) -> None:
        data: mp3_frames.Buffer = (
            source if isinstance(source, bytes) else _FileBytes(stack.enter_context(source.open("rb")))
        )
        mended = _repair(data)
        streams = [_Pieces(data, b"", *stream) for stream in _ogg_streams(data)]
        self._later, self._stack = streams[1:], stack

        def file() -> io.RawIOBase | io.BytesIO | str:
            if mended is not None:
                return _Pieces(data, *mended)
            if streams:
                return streams[0]
            return io.BytesIO(source) if isinstance(source, bytes) else str(source)

        self._file = stack.enter_context(soundfile.SoundFile(file()))
        if self._file.frames == _UNKNOWN_FRAMES or self._file.format == "MP3":
            self._file = stack.enter_context(_Forwards(file()))
        if self._file.frames != _UNKNOWN_FRAMES and not self._later:
            self.declared_frames = self._file.frames
        self.rate, self.channels = self._file.samplerate, self._file.channels

    def read(self, frames: int) -> Array:
        block: Array = self._file.read(frames, dtype="float32", always_2d=True)
        while not len(block) and self._later:
            self._file = self._stack.enter_context(soundfile.SoundFile(self._later.pop(0)))
            if (self.rate, self.channels) != (self._file.samplerate, self._file.channels):
                raise ValueError(_CHANGES)
            block = self._file.read(frames, dtype="float32", always_2d=True)
        return block


class _Av(Sound):
    """The first audio track of a file that FFmpeg's decoder reads."""

    def __init__(self, source: Path | bytes, stack: contextlib.ExitStack, how: AvArguments) -> None:
        # By name, because `av` is optional.
        av = importlib.import_module("av")
        # As a nameless stream and without protocols, because a playlist could make FFmpeg read
        # other files.
        plain = io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")

        def as_undecodable(_kind: object, error: object, _trace: object) -> None:
            # Such as UndefinedError and PatchWelcomeError, which are only FFmpegErrors.
            if isinstance(error, av.FFmpegError) and not isinstance(error, _KNOWN):
                raise OSError(error.errno, error.strerror) from error

        stack.push(as_undecodable)
        how = {"options": {"protocol_whitelist": "none"}, **how}
        container = stack.enter_context(av.open(stack.enter_context(plain), **how))
        if not container.streams.audio:
            raise ValueError("It has no audio track.")
        track = container.streams.audio[0]
        if track.codec_context is None:
            raise ValueError("FFmpeg has no decoder for its sound. Convert it to WAV.")
        codec, allowed = track.codec_context.name, how["options"]
        if codec not in allowed.get("codec_whitelist", codec).split(","):
            raise ValueError(f"Its sound is {codec}, which is not supported. Convert it to WAV.")
        self._to_float = av.AudioResampler(format="flt")
        self._frames = container.decode(track)
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
        block, self._held = self._held[:frames], self._held[frames:]
        return block

    def _plain(self, frame: "AudioFrame") -> Array:
        if (self.rate, self.channels) != (frame.sample_rate, frame.layout.nb_channels):
            raise ValueError(_CHANGES)
        parts = [part.to_ndarray().reshape(-1, self.channels) for part in self._to_float.resample(frame)]
        return np.concatenate(parts) if parts else np.zeros((0, self.channels), np.float32)


class _FileBytes:
    """The bytes of a file as a buffer, with a small part in memory. Not memory-mapped, because
    truncating a mapped file kills the process."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = file.seek(0, io.SEEK_END)
        self._from, self._held = 0, b""

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, key: int, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...
    def __getitem__(self, key: int | slice, /) -> int | bytes:
        if isinstance(key, int):
            return self[key : key + 1][0]
        start, stop, _ = key.indices(self._size)
        if not self._from <= start <= stop <= self._from + len(self._held):
            self._file.seek(start)
            self._from, self._held = start, self._file.read(max(stop - start, _HELD_BYTES))
        return self._held[start - self._from : stop - self._from]

    def find(self, byte: bytes, start: int, /) -> int:
        """The next position of a byte; -1 if there is none."""
        while part := self[start : start + _HELD_BYTES // 2]:
            if (at := part.find(byte)) >= 0:
                return start + at
            start += len(part)
        return -1


def _repair(data: mp3_frames.Buffer) -> tuple[bytes, int, int] | None:
    """For a file whose header has no true length: a head that has one, and the start and end of the
    data that follow it. None for other files."""
    if data[:4] in (b"RIFF", b"RF64"):
        return _wav_mended(data) or (mp3_frames.repair(data) if _holds_mp3(data) else None)
    begin = mp3_frames.end_of_tags(data) if data[:3] == b"ID3" else 0
    match data[begin : begin + 4]:
        case b"caff":
            return _caf_mended(data)
        case b"fLaC":
            return _flac_mended(data, begin)
        case b"OggS":
            return None
    return mp3_frames.repair(data)


def _holds_mp3(data: mp3_frames.Buffer) -> bool:
    """Whether the samples of a WAV file are an MP3 stream."""
    at = 12
    while (place := _chunk(data, at)) and place[0] != b"fmt ":
        at += _CHUNK_HEAD + place[1] + place[1] % 2
    return data[at + _CHUNK_HEAD : at + _CHUNK_HEAD + 2] == _MP3_IN_WAV


def _wav_mended(data: mp3_frames.Buffer) -> tuple[bytes, int, int] | None:
    """Repairs a WAV file whose header declares too few samples. Returns the header up to the
    samples, with sizes that mean "to the end", and the start and end of the samples.

    None for other files, and for those with plausible sizes.
    """
    if data[:4] not in (b"RIFF", b"RF64") or data[8:12] != b"WAVE":
        return None
    at = 12
    while (place := _chunk(data, at)) and place[0] != b"data":
        at += _CHUNK_HEAD + place[1] + place[1] % 2
    if place is None:
        return None
    begin, size = at + _CHUNK_HEAD, place[1]
    if data[:4] == b"RF64" and data[12:16] == b"ds64":
        size = int.from_bytes(data[28:36], "little")
    # If more bytes follow than the header declares, and they are not chunks, the header was written
    # before the samples.
    if len(data) - begin - size <= size or _is_chunks(data, begin + size + size % 2):
        return None
    head = b"RIFF" + _UNKNOWN_BYTES + data[8 : begin - 4] + _UNKNOWN_BYTES
    return head, begin, len(data)


def _caf_mended(data: mp3_frames.Buffer) -> tuple[bytes, int, int] | None:
    """As `_wav_mended`, for a CAF file whose samples have the size -1."""
    at, head = 8, b""
    while len(head := data[at : at + 12]) == 12 and head[:4] != b"data":
        at += 12 + int.from_bytes(head[4:], "big")
    if head[4:] != b"\xff" * 8:
        return None
    begin = at + 12
    size = (len(data) - begin).to_bytes(8, "big")
    return bytes(data[: at + 4]) + size, begin, len(data)


def _flac_mended(data: mp3_frames.Buffer, begin: int) -> tuple[bytes, int, int] | None:
    """As `_wav_mended`, for a FLAC file that has samples after the total of its header (RFC 9639,
    section 8.2); its header then lacks a total. begin: the end of the ID3 tags before it."""
    at = begin + _FLAC_TOTAL
    head = data[begin : at + 5]
    total = int.from_bytes(head[_FLAC_TOTAL:], "big") & 0xF_FFFF_FFFF
    if not total:
        return None
    without_total = head[:_FLAC_TOTAL] + bytes([head[_FLAC_TOTAL] & 0xF0, 0, 0, 0, 0])
    mended = without_total, at + 5, len(data)
    with contextlib.suppress(soundfile.LibsndfileError):
        with soundfile.SoundFile(_Pieces(data, *mended)) as file:
            file.seek(total)
        return mended
    return None


def _ogg_streams(data: mp3_frames.Buffer) -> list[tuple[int, int]]:
    """The start and end of each stream of a chained Ogg file; [] for others.

    A chain consists of concatenated files (RFC 3533, 4): first pages of a stream follow pages of
    another.
    """
    begins, at, was_begin = list[int](), 0, False
    while len(head := data[at : at + _OGG_HEAD]) == _OGG_HEAD and head[:4] == b"OggS":
        is_begin = bool(head[5] & _OGG_BEGINS)
        if is_begin and not was_begin:
            begins.append(at)
        was_begin = is_begin
        lengths = data[at + _OGG_HEAD : at + _OGG_HEAD + head[26]]
        at += _OGG_HEAD + head[26] + sum(lengths)
    ends = [*begins[1:], len(data)]
    return list(zip(begins, ends, strict=True)) if len(begins) > 1 else []


def _chunk(data: mp3_frames.Buffer, at: int) -> tuple[bytes, int] | None:
    """(name, size) of a chunk of a RIFF file; None at its end."""
    head = data[at : at + _CHUNK_HEAD]
    if len(head) < _CHUNK_HEAD:
        return None
    return bytes(head[:4]), int.from_bytes(head[4:], "little")


def _is_chunks(data: mp3_frames.Buffer, at: int) -> bool:
    """Whether a RIFF file consists of chunks from here to its end."""
    while place := _chunk(data, at):
        if not (place[0].isascii() and place[0].decode("ascii", "replace").isprintable()):
            return False
        at += _CHUNK_HEAD + place[1] + place[1] % 2
    return len(data) <= at <= len(data) + 1


class _Pieces(io.RawIOBase):
    """A file that begins with `head` and continues with `data[start:end]`, without a copy."""

    def __init__(self, data: mp3_frames.Buffer, head: bytes, start: int, end: int) -> None:
        self._data, self._head, self._start = data, head, start
        self._size = len(head) + end - start
        self._at = 0

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._size - self._at))
        of_head = self._head[self._at : self._at + count]
        view[: len(of_head)] = of_head
        rest = self._start + self._at + len(of_head) - len(self._head)
        if len(of_head) < count:
            view[len(of_head) : count] = self._data[rest : rest + count - len(of_head)]
        self._at += count
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at
