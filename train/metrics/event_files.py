"""TensorBoard event files: scalars, audio samples, spectrograms."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from machine.storage.atomic import make_folder, refused
from xtts.audio import VOCODER_RATE

# After an error the writer stays broken, even if the disk has space again. A new one is opened, but
# not at every step, because each creates a file.
STEPS_BEFORE_ANOTHER = 100


class TensorBoardWriter:
    """Writes the events of one start of a run. Raises WriteError if its folder cannot be
    written."""

    def __init__(self, folder: Path, first_step: int) -> None:
        self.folder = folder
        self._writer: Any = None
        self._faults = 0
        make_folder(folder)
        with refused(folder / "events"):
            self._open(first_step + 1)

    def numbers(self, kind: str, values: Mapping[str, Any], step: int) -> None:
        """Writes each value that is a number as the curve `kind/name`. Raises OSError."""
        if not (writer := self._ready(step)):
            return
        for name, value in values.items():
            if isinstance(value, int | float) and name not in ("step", "epoch"):
                self._asked(writer.add_scalar, f"{kind}/{name}", value, step)

    def sound(self, name: str, waveform: Tensor, step: int) -> None:
        """Writes `[samples]` at 24,000 Hz as audio and as a spectrogram. Raises OSError.

        Each has a tag of its own: TensorBoard's loader gives a tag the type of its first value, and
        would serve the picture as a recording.
        """
        if not (writer := self._ready(step)):
            return
        self._asked(writer.add_audio, name, waveform, step, VOCODER_RATE)
        self._asked(writer.add_image, f"{name}_spectrogram", spectrogram(waveform), step)
        self._asked(writer.flush)

    def image(self, name: str, picture: Tensor, step: int) -> None:
        """Writes a picture, `[3, height, width]` from 0 to 1. Raises OSError."""
        if writer := self._ready(step):
            self._asked(writer.add_image, name, picture, step)
            self._asked(writer.flush)

    def text(self, name: str, markdown: str, step: int) -> None:
        """Writes a text, which TensorBoard shows under Text. Raises OSError."""
        if writer := self._ready(step):
            self._asked(writer.add_text, name, markdown, step)
            self._asked(writer.flush)

    def close(self) -> None:
        """Writes what is left. Raises OSError."""
        if self._writer is not None:
            self._asked(self._writer.close)

    def _open(self, step: int) -> None:
        # Imported here because it takes 0.4 s, which `check` need not spend; this path also avoids
        # TensorFlow if that is installed.
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(self.folder), purge_step=step, flush_secs=5)

    def _ready(self, step: int) -> Any:
        if self._writer is None:
            self._faults += 1
            if self._faults % STEPS_BEFORE_ANOTHER:
                return None
            self._open(step)
        return self._writer

    def _asked(self, write: Any, *what: Any) -> None:
        try:
            write(*what)
        except OSError:
            self._writer = None
            raise


FFT_SIZE = 1024
HOP = 256
RANGE_DB = 80.0
# The colour map from dark to bright: (level, red, green, blue), 0 to 1, interpolated linearly.
_COLOURS = (
    (0.0, 0.0, 0.0, 0.1),
    (0.3, 0.3, 0.05, 0.45),
    (0.6, 0.8, 0.25, 0.3),
    (0.85, 1.0, 0.65, 0.1),
    (1.0, 1.0, 1.0, 0.8),
)


def spectrogram(waveform: Tensor) -> Tensor:
    """`[samples]` -> `[3, 513, frames]` from 0 to 1, with low frequencies at the bottom. Needs no
    plotting library."""
    padded = torch.nn.functional.pad(waveform, (0, max(0, FFT_SIZE - len(waveform))))
    window = torch.hann_window(FFT_SIZE)
    power = torch.stft(padded, FFT_SIZE, HOP, window=window, return_complex=True).abs().square()
    level_db = 10 * torch.log10(power.clamp(min=1e-10))
    level = ((level_db - level_db.max()) / RANGE_DB + 1).clamp(0, 1).flip(0)
    return _coloured(level)


def _coloured(level: Tensor) -> Tensor:
    stops = torch.tensor(_COLOURS)
    upper = torch.searchsorted(stops[:, 0].contiguous(), level.contiguous()).clamp(
        1, len(stops) - 1
    )
    low, high = stops[upper - 1], stops[upper]
    share = ((level - low[..., 0]) / (high[..., 0] - low[..., 0]))[..., None]
    return (low[..., 1:] + share * (high[..., 1:] - low[..., 1:])).permute(2, 0, 1)
