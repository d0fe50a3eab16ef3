"""Curves and samples in TensorBoard: the folder of a run in RUNS_DIR, and the writer of its events.

    OUTPUT_DIR/curves.json      {id}: holds no path, so it remains valid when the folder is moved
    RUNS_DIR/<name>/run.json    {id, output_dir}: the run of these curves
    RUNS_DIR/<name>/events.*    TensorBoard shows them as the run <name>

The name is the last part of OUTPUT_DIR, with a number if another run has it. Paths alone do not
identify a run, because in containers every OUTPUT_DIR is the same.
"""

import contextlib
import itertools
import logging
import re
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from machine.storage.files import make_folder, read_json, write_json, writing_to
from xtts.audio import VOCODER_RATE
from xtts.voices.run_folder import RunFolder

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

log = logging.getLogger("train")

EVENTS = "events.out.tfevents.*"
_OWNER = "run.json"
# After an error the writer stays broken, even if the disk has space again. A new one is opened, but
# not at every step, because each creates a file.
STEPS_BEFORE_ANOTHER = 100
FFT_SIZE = 1024
HOP = 256
RANGE_DB = 80.0


def find(run: RunFolder, runs_dir: Path) -> Path | None:
    """The folder of this run's curves; None if it has none yet. Only reads."""
    return next((mark.parent for mark in _marks(run, runs_dir) if not _is_copy(run, mark)), None)


def claim(run: RunFolder, runs_dir: Path) -> Path:
    """The folder of this run's curves, created if necessary. Raises DiskFull, WriteError."""
    folder = find(run, runs_dir)
    if folder is None:
        if not _own_id(run) or _marks(run, runs_dir):  # new, or a copy with the original's id
            make_folder(run.folder)
            write_json(_id_file(run), {"id": uuid.uuid4().hex})
        folder = _new_folder(run, runs_dir)
    owner = {"id": _own_id(run), "output_dir": str(run.folder.resolve())}
    if read_json(folder / _OWNER) != owner:  # new, or OUTPUT_DIR was moved
        write_json(folder / _OWNER, owner)
    log.info("Curves: %s", folder)
    return folder


def _new_folder(run: RunFolder, runs_dir: Path) -> Path:
    """Creates a folder; two runs that start at once get different ones."""
    name = re.sub(r"[^\w.-]+", "_", run.folder.resolve().name).strip(".") or "run"
    make_folder(runs_dir)
    for number in itertools.count(1):
        folder = runs_dir / (name if number == 1 else f"{name}-{number}")
        with writing_to(folder), contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError


def _marks(run: RunFolder, runs_dir: Path) -> list[Path]:
    """The `run.json` files with the id of this run."""
    run_id, marks = _own_id(run), sorted(runs_dir.glob(f"*/{_OWNER}"))
    return [mark for mark in marks if run_id and read_json(mark).get("id") == run_id]


def _is_copy(run: RunFolder, mark: Path) -> bool:
    """Whether OUTPUT_DIR is a copy: `mark` names another existing folder with the same id."""
    original = RunFolder(Path(str(read_json(mark).get("output_dir"))))
    return original.folder != run.folder.resolve() and _own_id(original) == _own_id(run)


def _own_id(run: RunFolder) -> str:
    return str(read_json(_id_file(run)).get("id") or "")


def _id_file(run: RunFolder) -> Path:
    return run.folder / "curves.json"


# Events


class TensorBoardWriter:
    """Writes the events of one start of a run. Raises WriteError if its folder cannot be
    written."""

    def __init__(self, folder: Path, first_step: int) -> None:
        self.folder = folder
        self._writer: SummaryWriter | None = None
        self._faults = 0
        make_folder(folder)
        with writing_to(folder / "events"):
            self._open(first_step + 1)

    def numbers(self, kind: str, values: Mapping[str, object], step: int) -> None:
        """Writes each value that is a number as the curve `kind/name`. Raises OSError."""
        if not (writer := self._ready(step)):
            return
        for name, value in values.items():
            if isinstance(value, int | float) and name not in ("step", "epoch"):
                self._ask(writer.add_scalar, f"{kind}/{name}", value, step)

    def sound(self, name: str, waveform: Tensor, step: int) -> None:
        """Writes `[samples]` at 24,000 Hz as audio and as a spectrogram. Raises OSError.

        The tags differ, because TensorBoard's loader gives a tag the type of its first value and
        would serve the picture as a recording.
        """
        if not (writer := self._ready(step)):
            return
        self._ask(writer.add_audio, name, waveform, step, VOCODER_RATE)
        self._ask(writer.add_image, f"{name}_spectrogram", spectrogram(waveform), step)
        self._ask(writer.flush)

    def text(self, name: str, markdown: str, step: int) -> None:
        """Writes a text, which TensorBoard shows under Text. Raises OSError."""
        if writer := self._ready(step):
            self._ask(writer.add_text, name, markdown, step)
            self._ask(writer.flush)

    def close(self) -> None:
        """Flushes and closes the writer. Raises OSError."""
        if self._writer is not None:
            self._ask(self._writer.close)

    def _open(self, step: int) -> None:
        # Imported here because it takes 0.4 s, which `check` need not spend; this path also avoids
        # TensorFlow if that is installed.
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(self.folder), purge_step=step, flush_secs=5)

    def _ready(self, step: int) -> "SummaryWriter | None":
        if self._writer is None:
            self._faults += 1
            if self._faults % STEPS_BEFORE_ANOTHER:
                return None
            self._open(step)
        return self._writer

    def _ask(self, write: Callable[..., object], *what: object) -> None:
        try:
            write(*what)
        except OSError:
            self._writer = None
            raise


def spectrogram(waveform: Tensor) -> Tensor:
    """`[samples]` -> `[1, 513, frames]` from 0 to 1, with low frequencies at the bottom. Needs no
    plotting library."""
    padded = torch.nn.functional.pad(waveform, (0, max(0, FFT_SIZE - len(waveform))))
    window = torch.hann_window(FFT_SIZE)
    power = torch.stft(padded, FFT_SIZE, HOP, window=window, return_complex=True).abs().square()
    level_db = 10 * torch.log10(power.clamp(min=1e-10))
    return ((level_db - level_db.max()) / RANGE_DB + 1).clamp(0, 1).flip(0)[None]
