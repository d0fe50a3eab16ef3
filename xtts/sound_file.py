"""Opens recordings and reads them completely, even if their headers declare a wrong length.

Programs that write to a pipe do not know the length: a WAV then declares 0 bytes, a FLAC 0 samples,
and an MP3 lacks the Xing header. libsndfile trusts such a WAV, reads such a FLAC as 2^63 samples and
estimates the length of such an MP3. It also trusts a FLAC that declares too few samples, refuses a
CAF without a length, and stops after the first of several chained Ogg streams. This module uses the
length of the header only if it is plausible, else counts the frames, and reads all streams.

The content decides the format, whatever the ending is.

Importing this module does not import torch; the API's decoding child reads with it, too.
"""

import contextlib
import importlib
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import soundfile
from numpy.typing import NDArray

from xtts import mp3_frames
from xtts.mp3_frames import Buffer, Repair
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
_PASSED_ON = (*UNDECODABLE, MemoryError)
# libsndfile's length of a FLAC file without a total number of samples.
_UNKNOWN_FRAMES = 0x7FFF_FFFF_FFFF_FFFF
_UNKNOWN_BYTES = b"\xff\xff\xff\xff"
_CHUNK_HEADER_BYTES = 8
_MP3_FORMAT_TAG = b"\x55\0"
_BUFFER_BYTES = 1 << 18
_FORMAT_CHANGES = "Its sample rate or its channels change inside the file. Convert it to WAV."
# The offset of the 36 bits with a FLAC file's total number of samples.
_FLAC_TOTAL_OFFSET = 21
_OGG_HEADER_BYTES = 27
_OGG_FIRST_PAGE_FLAG = 0x02
# The first bytes of Matroska and WebM, WMA, AMR and AAC with an ADIF header. MP4 and QuickTime begin
# with one of these boxes, raw AAC with a sync word whose layer is 0.
_FOREIGN_BEGINNINGS = (b"\x1a\x45\xdf\xa3", b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", b"#!AMR", b"ADIF")
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

    def blocks(self, max_frames: int | None = None, size: int = BLOCK_FRAMES) -> Iterator[Array]:
        """`[frames, channels]`, float32: at most `size` frames at a time, and `max_frames` in total."""
        remaining = max_frames
        while remaining is None or remaining > 0:
            block = self.read(size if remaining is None else min(size, remaining))
            if not len(block):
                return
            yield block
            remaining = None if remaining is None else remaining - len(block)


@contextlib.contextmanager
def open_sound(
    source: Path | bytes, *, by_av: bool = True, only_av: AvArguments | None = None
) -> Iterator[Sound]:
    """Opens a file, or the bytes of one. Raises one of UNDECODABLE.

    by_av: allows FFmpeg's decoder for files that need it, if the package `av` is installed.
    only_av: arguments of `av.open`; with them, only FFmpeg's decoder reads the file.
    """
    with contextlib.ExitStack() as stack:
        yield _open(source, stack, by_av=by_av, only_av=only_av)


def _open(
    source: Path | bytes, stack: contextlib.ExitStack, *, by_av: bool, only_av: AvArguments | None
) -> Sound:
    if only_av:
        return _AvSound(source, stack, only_av)
    if isinstance(source, bytes):
        return _SndfileSound(source, stack)
    if _has_foreign_beginning(source):  # libsndfile takes some of these files for MP3
        if not (by_av and av_is_installed()):
            raise ValueError("Only FFmpeg reads its format.")
        return _AvSound(source, stack, {})
    try:
        return _SndfileSound(source, stack)
    except soundfile.LibsndfileError:
        if not (by_av and needs_av(source) and av_is_installed()):
            raise
        return _AvSound(source, stack, {})


def needs_av(path: Path) -> bool:
    """Whether only FFmpeg's decoder reads the format of a file, by its content or its ending."""
    return _has_foreign_beginning(path) or path.suffix.lower() in FOREIGN


def _has_foreign_beginning(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError:
        return False
    is_aac = len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0
    return head.startswith(_FOREIGN_BEGINNINGS) or head[4:8] in _MP4_BOXES or is_aac


def reason_of(error: BaseException) -> str:
    """The message of one of UNDECODABLE as its library words it, without the path."""
    message = str(getattr(error, "error_string", "") or getattr(error, "strerror", "") or error)
    return (message.splitlines() or [type(error).__name__])[0].rstrip(". ")


class _SequentialFile(soundfile.SoundFile):
    """Reads without seeking. soundfile seeks to its position after each block. That fails at the end
    of a FLAC file without a total number of samples, and damages the sound of an MP3 file, whose
    frames use bits of earlier ones."""

    def seekable(self) -> bool:
        return False


class _SndfileSound(Sound):
    """A recording that libsndfile reads, with a repaired header if necessary."""

    def __init__(self, source: Path | bytes, stack: contextlib.ExitStack) -> None:
        data: Buffer = (
            source if isinstance(source, bytes) else _FileBuffer(stack.enter_context(source.open("rb")))
        )
        repair = _repair(data)
        streams = [_SplicedFile(data, Repair(b"", start, end)) for start, end in _ogg_streams(data)]
        self._later_streams, self._stack = streams[1:], stack

        def first_file() -> io.RawIOBase | io.BytesIO | str:
            if repair is not None:
                return _SplicedFile(data, repair)
            if streams:
                return streams[0]
            return io.BytesIO(source) if isinstance(source, bytes) else str(source)

        self._file = stack.enter_context(soundfile.SoundFile(first_file()))
        if self._file.frames == _UNKNOWN_FRAMES or self._file.format == "MP3":
            self._file = stack.enter_context(_SequentialFile(first_file()))
        if self._file.frames != _UNKNOWN_FRAMES and not self._later_streams:
            self.declared_frames = self._file.frames
        self.rate, self.channels = self._file.samplerate, self._file.channels

    def read(self, frames: int) -> Array:
        block: Array = self._file.read(frames, dtype="float32", always_2d=True)
        while not len(block) and self._later_streams:
            self._file = self._stack.enter_context(soundfile.SoundFile(self._later_streams.pop(0)))
            if (self.rate, self.channels) != (self._file.samplerate, self._file.channels):
                raise ValueError(_FORMAT_CHANGES)
            block = self._file.read(frames, dtype="float32", always_2d=True)
        return block


class _AvSound(Sound):
    """The first audio track of a file that FFmpeg's decoder reads."""

    def __init__(self, source: Path | bytes, stack: contextlib.ExitStack, av_arguments: AvArguments) -> None:
        # By name, because `av` is optional.
        av = importlib.import_module("av")
        # A stream without a name, and no protocols: a playlist could make FFmpeg read other files.
        stream = io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")

        def raise_undecodable(_kind: object, error: object, _trace: object) -> None:
            # Such as UndefinedError and PatchWelcomeError, which are only FFmpegErrors.
            if isinstance(error, av.FFmpegError) and not isinstance(error, _PASSED_ON):
                raise OSError(error.errno, error.strerror) from error

        stack.push(raise_undecodable)
        av_arguments = {"options": {"protocol_whitelist": "none"}, **av_arguments}
        container = stack.enter_context(av.open(stack.enter_context(stream), **av_arguments))
        if not container.streams.audio:
            raise ValueError("It has no audio track.")
        track = container.streams.audio[0]
        if track.codec_context is None:
            raise ValueError("FFmpeg has no decoder for its sound. Convert it to WAV.")
        codec, options = track.codec_context.name, av_arguments["options"]
        if codec not in options.get("codec_whitelist", codec).split(","):
            raise ValueError(f"Its sound is {codec}, which is not supported. Convert it to WAV.")
        self._float_converter = av.AudioResampler(format="flt")
        self._av_frames = container.decode(track)
        first = next(self._av_frames, None)
        if first is None:
            raise ValueError("Its audio track is empty.")
        # From the frame, because the header of HE-AAC declares half of the rate.
        self.rate, self.channels = first.sample_rate, first.layout.nb_channels
        self._decoded = self._to_array(first)

    def read(self, frames: int) -> Array:
        while not len(self._decoded):
            av_frame = next(self._av_frames, None)
            if av_frame is None:
                return self._decoded
            self._decoded = self._to_array(av_frame)
        block, self._decoded = self._decoded[:frames], self._decoded[frames:]
        return block

    def _to_array(self, av_frame: "AudioFrame") -> Array:
        if (self.rate, self.channels) != (av_frame.sample_rate, av_frame.layout.nb_channels):
            raise ValueError(_FORMAT_CHANGES)
        converted = self._float_converter.resample(av_frame)
        parts = [part.to_ndarray().reshape(-1, self.channels) for part in converted]
        return np.concatenate(parts) if parts else np.zeros((0, self.channels), np.float32)


class _FileBuffer:
    """The bytes of a file, of which a small part is in memory. The file is not memory-mapped, because
    truncating a mapped file kills the process."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = file.seek(0, io.SEEK_END)
        self._loaded_from, self._loaded = 0, b""

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
        if not self._loaded_from <= start <= stop <= self._loaded_from + len(self._loaded):
            self._file.seek(start)
            self._loaded_from, self._loaded = start, self._file.read(max(stop - start, _BUFFER_BYTES))
        return self._loaded[start - self._loaded_from : stop - self._loaded_from]

    def find(self, byte: bytes, start: int, /) -> int:
        """The next position of a byte; -1 if there is none."""
        while part := self[start : start + _BUFFER_BYTES // 2]:
            if (offset := part.find(byte)) >= 0:
                return start + offset
            start += len(part)
        return -1


def _repair(data: Buffer) -> Repair | None:
    """A header with the true length for a file whose header has another; None for other files."""
    if data[:4] in (b"RIFF", b"RF64"):
        return _repair_wav(data) or (mp3_frames.repair(data) if _is_mp3_in_wav(data) else None)
    begin = mp3_frames.end_of_tags(data) if data[:3] == b"ID3" else 0
    match data[begin : begin + 4]:
        case b"caff":
            return _repair_caf(data)
        case b"fLaC":
            return _repair_flac(data, begin)
        case b"OggS":
            return None
    return mp3_frames.repair(data)


def _is_mp3_in_wav(data: Buffer) -> bool:
    """Whether the samples of a WAV file are an MP3 stream."""
    chunk = _find_chunk(data, b"fmt ")
    return chunk is not None and data[chunk.start : chunk.start + 2] == _MP3_FORMAT_TAG


def _repair_wav(data: Buffer) -> Repair | None:
    """Repairs a WAV file that declares too few samples: the new sizes mean "to the end". None for
    other files, and for plausible sizes."""
    if data[:4] not in (b"RIFF", b"RF64") or data[8:12] != b"WAVE":
        return None
    chunk = _find_chunk(data, b"data")
    if chunk is None:
        return None
    begin, size = chunk.start, chunk.size
    if data[:4] == b"RF64" and data[12:16] == b"ds64":
        size = int.from_bytes(data[28:36], "little")
    # If more bytes than declared follow, and they do not form chunks, the header was written before the
    # samples.
    if len(data) - begin - size <= size or _is_chunks(data, begin + size + size % 2):
        return None
    head = b"RIFF" + _UNKNOWN_BYTES + data[8 : begin - 4] + _UNKNOWN_BYTES
    return Repair(head, begin, len(data))


def _repair_caf(data: Buffer) -> Repair | None:
    """Repairs a CAF file whose samples have the size -1; None for other files."""
    at, head = 8, b""
    while len(head := data[at : at + 12]) == 12 and head[:4] != b"data":
        at += 12 + int.from_bytes(head[4:], "big")
    if head[4:] != b"\xff" * 8:
        return None
    begin = at + 12
    size = (len(data) - begin).to_bytes(8, "big")
    return Repair(bytes(data[: at + 4]) + size, begin, len(data))


def _repair_flac(data: Buffer, begin: int) -> Repair | None:
    """Removes the total number of samples from a FLAC file that has more (RFC 9639, section 8.2);
    None for other files. begin: the end of the ID3 tags before it."""
    at = begin + _FLAC_TOTAL_OFFSET
    head = data[begin : at + 5]
    total = int.from_bytes(head[_FLAC_TOTAL_OFFSET:], "big") & 0xF_FFFF_FFFF
    if not total:
        return None
    head_without_total = head[:_FLAC_TOTAL_OFFSET] + bytes([head[_FLAC_TOTAL_OFFSET] & 0xF0, 0, 0, 0, 0])
    repair = Repair(head_without_total, at + 5, len(data))
    with contextlib.suppress(soundfile.LibsndfileError):
        with soundfile.SoundFile(_SplicedFile(data, repair)) as file:
            file.seek(total)
        return repair
    return None


def _ogg_streams(data: Buffer) -> list[tuple[int, int]]:
    """The start and end of each stream of a chained Ogg file; [] for others.

    A chain consists of concatenated files (RFC 3533, 4): the first pages of a stream follow pages of
    another one.
    """
    starts, at, was_first_page = list[int](), 0, False
    while len(header := data[at : at + _OGG_HEADER_BYTES]) == _OGG_HEADER_BYTES and header[:4] == b"OggS":
        is_first_page = bool(header[5] & _OGG_FIRST_PAGE_FLAG)
        if is_first_page and not was_first_page:
            starts.append(at)
        was_first_page = is_first_page
        at += _OGG_HEADER_BYTES
        segment_lengths = data[at : at + header[26]]
        at += header[26] + sum(segment_lengths)
    ends = [*starts[1:], len(data)]
    return list(zip(starts, ends, strict=True)) if len(starts) > 1 else []


class _Chunk(NamedTuple):
    """A chunk of a RIFF file; its content begins at `start`."""

    name: bytes
    start: int
    size: int


def _chunks(data: Buffer, at: int = 12) -> Iterator[_Chunk]:
    """The chunks of a RIFF file from a position on."""
    while len(header := data[at : at + _CHUNK_HEADER_BYTES]) == _CHUNK_HEADER_BYTES:
        at += _CHUNK_HEADER_BYTES
        size = int.from_bytes(header[4:], "little")
        yield _Chunk(bytes(header[:4]), at, size)
        at += size + size % 2


def _find_chunk(data: Buffer, name: bytes) -> _Chunk | None:
    return next((chunk for chunk in _chunks(data) if chunk.name == name), None)


def _is_chunks(data: Buffer, at: int) -> bool:
    """Whether a RIFF file consists of chunks from here to its end."""
    end = at
    for chunk in _chunks(data, at):
        if not (chunk.name.isascii() and chunk.name.decode("ascii", "replace").isprintable()):
            return False
        end = chunk.start + chunk.size + chunk.size % 2
    return len(data) <= end <= len(data) + 1


class _SplicedFile(io.RawIOBase):
    """A repaired file: the new head, then `data[start:end]` without a copy."""

    def __init__(self, data: Buffer, repair: Repair) -> None:
        self._data, self._head, self._start = data, repair.head, repair.start
        self._size = len(repair.head) + repair.end - repair.start
        self._position = 0

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._size - self._position))
        head_part = self._head[self._position : self._position + count]
        view[: len(head_part)] = head_part
        data_start = self._start + self._position + len(head_part) - len(self._head)
        if len(head_part) < count:
            view[len(head_part) : count] = self._data[data_start : data_start + count - len(head_part)]
        self._position += count
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        return self._position
