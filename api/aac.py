"""AAC: a stream of frames (ADTS), or in MP4 (m4a), by FFmpeg's encoder in the package `av`."""

import importlib.util
from typing import IO, Any

# Of one channel at 24 kHz; speech gains nothing from more.
_BITS_PER_SECOND = 64_000
_CONTAINERS = {"aac": "adts", "m4a": "ipod"}
# Fragments, each complete in itself: nothing is written that was sent already.
_IN_FRAGMENTS = {"movflags": "empty_moov+default_base_moof+frag_every_frame"}
FORMATS = tuple(_CONTAINERS)
MISSING = (
    "aac and m4a need FFmpeg's encoder, which is not installed here. Type `.venv/bin/uv pip "
    "install 'sotaque[aac]'` and start the service again, or ask for mp3, wav, pcm, flac or opus."
)


def is_installed() -> bool:
    """Whether these formats can be made here."""
    return importlib.util.find_spec("av") is not None


class AacFile:
    """Writes one sound.

    sink: where to; form: one of FORMATS; rate: samples a second; streamed: `sink` is read while it
    grows, and is never written before its end.
    """

    def __init__(self, sink: IO[bytes], form: str, rate: int, *, streamed: bool) -> None:
        import av

        options = _IN_FRAGMENTS if streamed and form == "m4a" else {}
        self._container: Any = av.open(
            sink, "w", format=_CONTAINERS[form], container_options=options
        )
        self._stream = self._container.add_stream("aac", rate=rate, layout="mono")
        self._stream.bit_rate = _BITS_PER_SECOND
        self._container.start_encoding()
        self._rate = rate
        self._samples = 0

    def add(self, pcm: bytes) -> None:
        """More 16-bit samples of one channel."""
        import av

        if not pcm:
            return
        frame = av.AudioFrame(format="s16", layout="mono", samples=len(pcm) // 2)
        frame.planes[0].update(pcm.ljust(frame.planes[0].buffer_size, b"\0"))
        frame.sample_rate, frame.pts = self._rate, self._samples
        self._samples += frame.samples
        self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        """What is left, and the end."""
        self._container.mux(self._stream.encode(None))
        self._container.close()
