"""5 ms fades at the ends of a piece, so that joined pieces do not click.

`xtts.onnx.speech.request` has the same without torch.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from xtts.model.shapes import FADE_SECONDS, VOCODER_RATE


def fade_edges(waveform: Tensor) -> Tensor:
    """The waveform `[samples]` with its first and last 5 ms faded."""
    length = min(int(FADE_SECONDS * VOCODER_RATE), len(waveform) // 2)
    ramp = _ramp(length)
    found = waveform.clone()
    found[:length] *= ramp
    found[len(waveform) - length :] *= ramp.flip(0)
    return found


def fade_stream_edges(chunks: Iterator[Tensor]) -> Iterator[Tensor]:
    """As `fade_edges`, of a waveform that comes in chunks."""
    fade = StreamFade()
    for chunk in chunks:
        if len(said := fade.push(chunk)):
            yield said
    yield fade.end()


class StreamFade:
    """As `fade_stream_edges`, of chunks that are pushed: the last 5 ms are held back until the
    end."""

    def __init__(self) -> None:
        self._length = int(FADE_SECONDS * VOCODER_RATE)
        self._held = torch.zeros(0)
        self._begun = False

    def push(self, chunk: Tensor) -> Tensor:
        """What can be said by now."""
        self._held = torch.cat((self._held, chunk))
        # The fade in needs its 5 ms as well, and in a short piece both are shorter.
        if len(self._held) <= 2 * self._length:
            return torch.zeros(0)
        said, self._held = self._held[: -self._length], self._held[-self._length :].clone()
        if not self._begun:
            said[: self._length] *= _ramp(self._length)
            self._begun = True
        return said

    def end(self) -> Tensor:
        """The held end of the piece, faded out."""
        if not self._begun:
            return fade_edges(self._held)
        self._held[-self._length :] *= _ramp(self._length).flip(0)
        return self._held


def _ramp(length: int) -> Tensor:
    return torch.linspace(0.0, 1.0, length)
