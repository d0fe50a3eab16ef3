"""Encodes PCM16 at 24 kHz as wav, flac, mp3, opus, aac or m4a: a stream, bytes or a file.

libsndfile (whose wheel includes LAME, Opus and FLAC) encodes most formats. FFmpeg's encoder in the
package `av` encodes AAC, as a stream of ADTS frames (aac) or in MP4 (m4a). Every format except pcm
begins with the mark of synthetic speech (`xtts.marks`).
"""

import io
import struct
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from machine import commands
from machine.errors import SotaqueError
from machine.storage.files import Written, make_folder, replace_file
from xtts import mp3_frames
from xtts.marks import UNNAMED, Mark
from xtts.model.shapes import VOCODER_RATE
from xtts.sound_endings import av_is_installed

if TYPE_CHECKING:
    import numpy as np
    from _typeshed import ReadableBuffer, WriteableBuffer
    from av import AudioFrame
    from numpy.typing import NDArray
    from torch import Tensor

RATE = 24_000
MEDIA_TYPES = {
    "wav": "audio/wav",
    "pcm": "audio/pcm",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "m4a": "audio/mp4",
}
# The endings of files with their formats.
ENDINGS = {
    ".wav": "wav",
    ".mp3": "mp3",
    ".flac": "flac",
    ".opus": "opus",
    ".ogg": "opus",
    ".m4a": "m4a",
    ".aac": "aac",
}
# Their headers contain the length, so they are sent whole, unless the request asks for a stream.
SENT_WHOLE = frozenset({"wav", "flac", "m4a"})
_SOUNDFILE_TYPES = {"flac": ("FLAC", "PCM_16"), "mp3": ("MP3", None), "opus": ("OGG", "OPUS")}
_UNKNOWN_SIZE = 0xFFFF_FFFF
# LAME's bit rate in a stream, in kbit/s. The header of an MP3 stream lacks the length, so players
# divide the size by the bit rate. With a variable bit rate they showed 7.57 s for 8.28 s.
_STREAM_KILOBITS = 64
# LAME's lowest and highest bit rates, from a sample rate on (MPEG-1, MPEG-2, MPEG-2.5). libsndfile
# divides this range by its compression level, mpeg_l3_encoder_set_quality in src/mpeg_l3_encode.c.
_MP3_KILOBITS = ((32_000, 32, 320), (16_000, 8, 160), (0, 8, 64))
# Enough for speech with one channel at 24 kHz.
BITS_PER_SECOND = 64_000
_CONTAINERS = {"aac": "adts", "m4a": "ipod"}
# Self-contained fragments, so that the encoder never rewrites bytes that were sent.
_FRAGMENT_OPTIONS = {"movflags": "empty_moov+default_base_moof+frag_every_frame"}
# ADTS has no metadata, so an ID3 tag comes before its first frame.
_ID3_OPTIONS = {"write_id3v2": "1"}
AAC_FORMATS = tuple(_CONTAINERS)


class EncodingError(SotaqueError):
    """A file cannot be written in the format of its name."""


def missing_encoder() -> str:
    """The error message for aac and m4a without FFmpeg's encoder."""
    return (
        "aac and m4a need FFmpeg's encoder, which is not installed here. Install it with "
        f"`{commands.install_extra('aac')}` and restart the service, or request mp3, wav, pcm, "
        "flac or opus."
    )


def offered_formats() -> list[str]:
    """The formats that this installation can encode; aac and m4a need FFmpeg's encoder."""
    return [form for form in MEDIA_TYPES if form not in AAC_FORMATS or av_is_installed()]


def pcm16(samples: "NDArray[np.float32]") -> bytes:
    """`[samples]` in -1..1 as 16-bit samples, rounded to the nearest."""
    import numpy as np

    clipped = np.clip(samples.astype(np.float32, copy=False), -1.0, 1.0)
    return np.rint(clipped * np.float32(32_767)).astype("<i2").tobytes()


class Encoder:
    """Encodes sound as a stream; `add` and `end` return the bytes to send.

    sink: a seekable file for the whole result; None encodes a stream. rate: the sample rate of the
    result, for wav, pcm and mp3. kilobits: the constant bit rate of an mp3.
    """

    def __init__(
        self,
        form: str,
        sink: "IO[bytes] | io.RawIOBase | None" = None,
        *,
        mark: Mark = UNNAMED,
        rate: int = RATE,
        kilobits: int | None = None,
    ) -> None:
        self.form = form
        self.mark = mark
        self.rate = rate
        self._kilobits = kilobits or (_STREAM_KILOBITS if sink is None else None)
        self._resampler = _Resampler(rate) if rate != RATE else None
        self._has_begun = False
        self._file: Any = None
        self._stream = _StreamSink()
        self._sink = sink or self._stream

    def add(self, pcm: bytes) -> bytes:
        """Encodes more 16-bit samples at 24 kHz."""
        return self._encode(self._resampler.add(pcm) if self._resampler else pcm)

    def _encode(self, pcm: bytes) -> bytes:
        if self.form == "pcm":
            return pcm
        if self.form == "wav":
            header = b"" if self._has_begun else wav_header(None, self.rate, self.mark)
            self._has_begun = True
            return header + pcm
        if self.form in AAC_FORMATS:
            self._open().add(pcm)
        else:
            self._open().buffer_write(pcm, dtype="int16")
        return self._take_encoded()

    def end(self) -> bytes:
        """Ends the sound; returns the remaining bytes."""
        resampled = self._encode(self._resampler.add(b"", is_last=True)) if self._resampler else b""
        if self.form == "pcm":
            return resampled
        if self.form == "wav":
            return resampled if self._has_begun else wav_header(None, self.rate, self.mark)
        self._open().close()
        return resampled + self._take_encoded()

    def _take_encoded(self) -> bytes:
        encoded = self._stream.take()
        has_frame = len(encoded) > mp3_frames.end_of_tags(encoded)
        if self.form == "mp3" and has_frame and not self._has_begun:
            self._has_begun = True
            return without_length(encoded)
        return encoded

    def _open(self) -> Any:
        if self._file is None and self.form in AAC_FORMATS:
            streamed = self._sink is self._stream
            sink = cast(IO[bytes], self._sink)
            self._file = AacFile(sink, self.form, streamed=streamed, mark=self.mark)
        elif self._file is None:
            import soundfile

            container, subtype = _SOUNDFILE_TYPES[self.form]
            has_bitrate = self.form == "mp3" and self._kilobits is not None
            options = _constant_bitrate(self._kilobits or 0, self.rate) if has_bitrate else {}
            options["format"] = container
            self._file = soundfile.SoundFile(self._sink, "w", self.rate, 1, subtype, **options)
            self._file.comment = self.mark.text
        return self._file


class _Resampler:
    """Converts 16-bit samples from 24 kHz to another rate, as a stream."""

    def __init__(self, rate: int) -> None:
        import soxr

        self._stream = soxr.ResampleStream(RATE, rate, 1, dtype="int16")

    def add(self, pcm: bytes, *, is_last: bool = False) -> bytes:
        """The samples that have become final. is_last: ends the stream."""
        import numpy as np

        samples: bytes = self._stream.resample_chunk(np.frombuffer(pcm, "<i2"), last=is_last).tobytes()
        return samples


def _constant_bitrate(kilobits: int, rate: int) -> dict[str, Any]:
    """libsndfile's arguments for an MP3 with this constant bit rate."""
    _, min_kilobits, max_kilobits = next(row for row in _MP3_KILOBITS if rate >= row[0])
    level = (max_kilobits - kilobits) / (max_kilobits - min_kilobits)  # libsndfile refuses 1
    return {"bitrate_mode": "CONSTANT", "compression_level": min(level, 0.999)}


def encode(
    form: str, pcm: bytes, mark: Mark = UNNAMED, *, rate: int = RATE, kilobits: int | None = None
) -> bytes:
    """Encodes a whole file, with its length in the header. rate, kilobits: as in `Encoder`."""
    if form in ("wav", "pcm"):
        if rate != RATE:
            pcm = _Resampler(rate).add(pcm, is_last=True)
        return (wav_header(len(pcm), rate, mark) if form == "wav" else b"") + pcm
    out = io.BytesIO()
    encoder = Encoder(form, out, mark=mark, rate=rate, kilobits=kilobits)
    encoder.add(pcm)
    encoder.end()
    return out.getvalue()


def form_of(path: Path) -> str:
    """The format of a file by its ending. Raises EncodingError, which lists the possible
    endings."""
    form = ENDINGS.get(path.suffix.lower(), "")
    offered = offered_formats()
    if form in offered:
        return form
    possible = ", ".join(ending for ending, ending_form in ENDINGS.items() if ending_form in offered)
    if form:
        raise EncodingError(
            f"{path} needs FFmpeg's encoder, which is not installed here. Install it with: "
            f"{commands.install_extra('aac')}, or use one of these endings: {possible}."
        )
    ending = f"ends in {path.suffix}" if path.suffix else "has no ending"
    raise EncodingError(f"{path} {ending}, which is not a known format. Use one of these: {possible}.")


def write(path: Path, samples: "NDArray[np.float32]", mark: Mark = UNNAMED) -> Written:
    """Writes `[samples]` in -1..1 at 24 kHz atomically, in the format of the path's ending.

    Raises EncodingError as `form_of`, DiskFull (exit 74), and WriteError for a folder that cannot
    be written.
    """
    content = encode(form_of(path), pcm16(samples), mark)
    make_folder(path.parent)
    return replace_file(path, lambda file: file.write(content))


def write_wav(
    path: Path, samples: "NDArray[np.float32] | Tensor", rate: int = VOCODER_RATE, mark: Mark | None = None
) -> Written:
    """Writes `[samples]` in -1..1, an array or a tensor on the CPU, atomically as 16-bit PCM in WAV.
    mark: the mark of synthetic speech; None for a recording.

    Raises DiskFull (exit 74), or WriteError for a folder that cannot be written.
    """
    import numpy as np
    import soundfile

    content, samples = io.BytesIO(), np.asarray(samples, np.float32)
    content.write(wav_header(2 * len(samples), rate, mark))
    # soundfile clips samples beyond -1..1.
    soundfile.write(content, samples, rate, subtype="PCM_16", format="RAW", endian="LITTLE")
    make_folder(path.parent)
    return replace_file(path, lambda file: file.write(content.getbuffer()))


def wav_header(pcm_bytes: int | None, rate: int = RATE, mark: Mark | None = None) -> bytes:
    """The header of a WAV file: 44 bytes for a recording, more with the mark of synthetic speech.

    pcm_bytes: the size of the samples; None for a stream of unknown length, like OpenAI's and FFmpeg's.
    """
    comment = mark.wav_chunk if mark else b""
    data_size = _UNKNOWN_SIZE if pcm_bytes is None else pcm_bytes
    riff_size = _UNKNOWN_SIZE if pcm_bytes is None else pcm_bytes + len(comment) + 36
    riff_header = struct.pack("<4sI4s", b"RIFF", riff_size, b"WAVE")
    format_chunk = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, rate * 2, 2, 16)
    return riff_header + format_chunk + comment + struct.pack("<4sI", b"data", data_size)


def without_length(mp3: bytes) -> bytes:
    """Removes the first frame of an MP3 stream if it holds the length (Xing, Info). It was written
    before the length was known, and players would trust it."""
    start = mp3_frames.end_of_tags(mp3)
    header = mp3_frames.frame_header(mp3, start)
    if header is None or not mp3_frames.is_length_frame(mp3[start : start + header.bytes], header):
        return mp3
    return mp3[:start] + mp3[start + header.bytes :]


class _StreamSink(io.RawIOBase):
    """A file that ignores writes before its end: encoders update the length in a header that was
    already sent."""

    def __init__(self) -> None:
        self._position = 0
        self._end = 0
        self._unsent = bytearray()

    def take(self) -> bytes:
        taken, self._unsent = bytes(self._unsent), bytearray()
        return taken

    def write(self, data: "ReadableBuffer", /) -> int:
        data = bytes(data)
        if self._position == self._end:
            self._unsent += data
            self._end += len(data)
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (0, self._position, self._end)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, _buffer: "WriteableBuffer", /) -> int:
        return 0

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


class AacFile:
    """Writes an AAC file.

    sink: the output file; form: one of AAC_FORMATS; streamed: whether to only append to `sink`.
    """

    def __init__(self, sink: IO[bytes], form: str, *, streamed: bool, mark: Mark) -> None:
        import av

        options = _ID3_OPTIONS if form == "aac" else _FRAGMENT_OPTIONS if streamed else {}
        self._container: Any = av.open(sink, "w", format=_CONTAINERS[form], container_options=options)
        self._container.metadata["comment"] = mark.text
        self._stream = self._container.add_stream("aac", rate=RATE, layout="mono")
        self._stream.bit_rate = BITS_PER_SECOND
        self._container.start_encoding()
        self._num_samples = 0

    def add(self, pcm: bytes) -> None:
        """Adds 16-bit samples of one channel."""
        if not pcm:
            return
        frame = pcm_frame(pcm, self._num_samples)
        self._num_samples += frame.samples
        self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        """Writes the remaining samples and the end of the file."""
        self._container.mux(self._stream.encode(None))
        self._container.close()


def pcm_frame(pcm: bytes, first_sample: int) -> "AudioFrame":
    """An FFmpeg frame of 16-bit samples of one channel. first_sample: the index of its first."""
    import av

    frame = av.AudioFrame(format="s16", layout="mono", samples=len(pcm) // 2)
    frame.planes[0].update(pcm.ljust(frame.planes[0].buffer_size, b"\0"))
    frame.sample_rate, frame.pts = RATE, first_sample
    return frame
