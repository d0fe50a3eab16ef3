"""Decodes a recording once, in blocks, so that memory does not grow with its length."""

import importlib
import itertools
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from machine import commands
from machine.errors import SotaqueError
from machine.storage.checksums import FileStamp, stamp_of
from machine.storage.files import make_folder
from xtts import sound_file
from xtts.audio import AudioError, declared_bytes, facts, resample
from xtts.sound_endings import converted_name

LISTENING_RATE = 16_000
# A multiple of speech detection's 32 ms frames at 16 kHz.
BLOCK_SECONDS = 32
# The context on both sides of a block, so that resampling leaves no seam.
_CONTEXT_SECONDS = 1
# The share of the declared bytes that a file must have.
_MIN_BYTES_SHARE = 0.95
# The share of the channels' power that must remain after mixing to mono; ordinary stereo keeps
# half.
_MIN_MONO_POWER_SHARE = 0.01


class CuttingError(SotaqueError):
    """Recordings, a text or a folder cannot be used. Nothing was written."""


@dataclass(frozen=True)
class SourceRecording:
    """A recording that libsndfile can read.

    Attributes:
        name: The name in clips and tables.
        rate: The sample rate in Hz.
        frames: The number of frames that the header declares.
        stamp: The size and time of the file when it was opened.
    """

    name: str
    path: Path
    rate: int
    frames: int
    stamp: FileStamp

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return self.frames / self.rate


def open_recording(path: Path, name: str, work: Path) -> SourceRecording:
    """Opens a recording. If libsndfile cannot decode it, `av` decodes it into the folder `work`.

    Raises CuttingError for a missing, empty or undecodable file, and for one that ends early.
    """
    if not path.is_file():
        raise CuttingError(f"{path} does not exist, or is not a file.")
    if path.stat().st_size == 0:
        raise CuttingError(f"{path} is empty (0 bytes). Copy it again.")
    stamp = stamp_of(path)
    try:
        header = facts(path, by_av=False)
    except AudioError as error:
        if not sound_file.needs_av(path):
            raise CuttingError(str(error)) from error
        path = _decode_by_av(path, work / f"{name}.wav")
        header = facts(path)
        stamp = stamp_of(path)
    declared, size = declared_bytes(path), path.stat().st_size
    if declared is not None and size < _MIN_BYTES_SHARE * declared:
        raise CuttingError(
            f"{path} has {size:,} of the {declared:,} bytes that its header declares. Is it "
            "still being written, or is it incomplete? Cut it when it is complete."
        )
    return SourceRecording(name, path, header.rate, header.frames, stamp)


def check_unchanged(recording: SourceRecording) -> None:
    """Raises CuttingError when the file changed since it was opened."""
    # The path is not compared: it may differ on another machine of a cluster.
    if stamp_of(recording.path)[1:] != recording.stamp[1:]:
        raise CuttingError(
            f"{recording.path} changed while it was read. Is it still being recorded? Run the "
            "same command again when it is complete."
        )


def blocks(recording: SourceRecording) -> Iterator[np.ndarray]:
    """The recording as mono float32 at the rate of the file, `BLOCK_SECONDS` at a time.

    Raises CuttingError if it cannot be decoded, ends early or contains non-finite values, or if its
    channels cancel each other.
    """
    size = BLOCK_SECONDS * recording.rate
    num_read, power_of_channels, power_of_mono = 0, 0.0, 0.0
    try:
        with sound_file.open_sound(recording.path) as sound:
            for block in sound.blocks(size=size):
                num_read += len(block)
                if not np.isfinite(block).all():
                    raise CuttingError(
                        f"{recording.path} contains non-finite values (NaN or infinite) before "
                        f"{num_read / recording.rate:.0f} s."
                    )
                # A header may declare too few frames; the account follows the header.
                num_undeclared = max(num_read - recording.frames, 0)
                frames = block[: len(block) - num_undeclared]
                if len(frames):
                    mono = frames.mean(axis=1, dtype=np.float32)
                    power_of_channels += float(np.square(frames, dtype=np.float64).mean(axis=1).sum())
                    power_of_mono += float(np.square(mono, dtype=np.float64).sum())
                    yield mono
                if num_undeclared:
                    break
    except sound_file.UNDECODABLE as error:
        raise CuttingError(
            f"{recording.path} cannot be decoded after {num_read / recording.rate:.0f} s ({error})."
        ) from error
    if num_read < recording.frames:
        raise CuttingError(
            f"{recording.path} ends after {num_read / recording.rate:.2f} s of the "
            f"{recording.seconds:.2f} s that its header declares. Copy it again."
        )
    if power_of_mono < _MIN_MONO_POWER_SHARE * power_of_channels:
        raise CuttingError(
            f"The channels of {recording.path} cancel each other: they have opposite phase, "
            "and their mix is nearly silent. Use one of them: "
            f"ffmpeg -i {recording.path.name} -af 'pan=mono|c0=c0' {recording.path.stem}-left.wav"
        )


def resampled_blocks(recording: SourceRecording, rate: int) -> Iterator[np.ndarray]:
    """The recording's blocks resampled to `rate` Hz; all but the last are `BLOCK_SECONDS` long."""
    context = _CONTEXT_SECONDS * recording.rate
    before = nothing = np.zeros(0, np.float32)
    for block, following in itertools.pairwise(itertools.chain(blocks(recording), [nothing])):
        in_context = torch.from_numpy(np.concatenate((before, block, following[:context])))
        resampled: np.ndarray = resample(in_context, recording.rate, rate).numpy()
        first = len(before) * rate // recording.rate
        yield resampled[first : first + -(-len(block) * rate // recording.rate)]
        before = block[-context:]


def read_spans(
    recording: SourceRecording, spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, np.ndarray]]:
    """(index in `spans`, samples) of each span of frames, which are in the order of their ends.
    Reads the recording once."""
    pending = list(enumerate(spans))
    buffer, buffer_start = np.zeros(0, np.float32), 0
    for block in blocks(recording):
        buffer = np.concatenate((buffer, block))
        buffer_end = buffer_start + len(buffer)
        while pending and pending[0][1][1] <= buffer_end:
            index, (first, last) = pending.pop(0)
            yield index, buffer[first - buffer_start : last - buffer_start]
        keep_from = min([buffer_end, *(max(first, buffer_start) for _, (first, _last) in pending)])
        buffer, buffer_start = buffer[keep_from - buffer_start :].copy(), keep_from


def _decode_by_av(path: Path, to: Path) -> Path:
    """Decodes the first audio track of a video or m4a file to 16-bit mono at its sample rate."""
    import soundfile

    try:
        # By name, because `av` is optional.
        av = importlib.import_module("av")
    except ImportError:
        raise CuttingError(
            f"{path} needs the package av, which is not installed. Install it with "
            f"`{commands.install_extra('aac')}`, or convert the file: "
            f"ffmpeg -i {shlex.quote(str(path))} -vn -ac 1 {shlex.quote(str(converted_name(path)))}"
        ) from None
    make_folder(to.parent)
    try:
        # As a nameless stream and without protocols, because a playlist could make FFmpeg read
        # other files.
        with (
            path.open("rb") as original,
            av.open(original, options={"protocol_whitelist": "none"}) as container,
        ):
            if not container.streams.audio:
                raise CuttingError(f"{path} has no audio track.")
            track = container.streams.audio[0]
            rate = track.rate
            resampler = av.AudioResampler(format="s16", layout="mono", rate=rate)
            with soundfile.SoundFile(str(to), "w", rate, 1, "PCM_16", format="WAV") as file:
                for frame in container.decode(track):
                    for mono in resampler.resample(frame):
                        file.write(mono.to_ndarray()[0])
                for mono in resampler.resample(None):
                    file.write(mono.to_ndarray()[0])
    except (av.FFmpegError, OSError, RuntimeError) as error:
        to.unlink(missing_ok=True)
        raise CuttingError(f"{path} cannot be decoded ({error}).") from error
    return to
