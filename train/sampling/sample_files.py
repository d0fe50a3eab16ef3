"""Files of a sample: WAV, reference, JSON sidecar.

`train.sampling.sampler` speaks it, `train.metrics.logs` shows it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine.storage.reading import read_json
from train.dataset.dataset import Clip, Dataset
from xtts.model.shapes import VOCODER_RATE
from xtts.text.markup import STYLE_MARK
from xtts.voices.run_folder import RunFolder

# A sentence of this length shows a voice well, and takes little time to speak.
SENTENCE_SECONDS = (3.0, 8.0)


@dataclass(frozen=True)
class SampleReference:
    """The recording whose voice a sample speaks with, and the text that it says. speaker: whose
    voice it is, as the dataset names them."""

    path: Path
    text: str
    language: str
    speaker: str


@dataclass(frozen=True)
class SampleFiles:
    """The paths of a sample."""

    output: Path
    reference: Path

    @property
    def sidecar(self) -> Path:
        return self.output.with_suffix(".json")


@dataclass(frozen=True)
class SampleSidecar:
    """`epoch_N_output.json`: a sample's text, weights and device, with the reason for the device.
    words: with their times, under Kokoro-FastAPI's names; None if unknown."""

    epoch: int
    checkpoint_sha256: str
    text: str
    device: str
    mode: str
    reason: str
    seconds: float | None = None
    audio_seconds: float | None = None
    sample_rate: int = VOCODER_RATE
    similarity: float | None = None
    ending: str | None = None
    ending_reason: str = ""
    attempts: int = 1
    words: list[dict[str, Any]] | None = None


def of_epoch(run: RunFolder, epoch: int) -> SampleFiles:
    """The epoch's sample, which the run speaks."""
    return SampleFiles(
        run.samples / f"epoch_{epoch}_output.wav", run.samples / f"epoch_{epoch}_reference.wav"
    )


def of_speaker(run: RunFolder, epoch: int, recording: Path) -> Path:
    """The epoch's sample as a named speaker of the run, named by the number of their recording."""
    return run.samples / f"epoch_{epoch}_speaker_{recording.stem}.wav"


def of_best(run: RunFolder) -> SampleFiles:
    """The sample of the run's best weights: an epoch's, a blend or the base's."""
    return SampleFiles(run.samples / "best_output.wav", run.samples / "best_reference.wav")


def on_demand(run: RunFolder, epoch: int, identity: Sequence[object]) -> SampleFiles:
    """The files of a sample on demand, one set for each distinct request.

    They overwrite neither the epoch's sample nor another sample on demand.
    """
    digest = hashlib.sha256(repr(tuple(identity)).encode()).hexdigest()[:8]
    folder = run.samples_on_demand
    return SampleFiles(
        folder / f"epoch_{epoch}_{digest}.wav", folder / f"epoch_{epoch}_{digest}_reference.wav"
    )


def spoken_clip(dataset: Dataset) -> Clip:
    """The clip whose transcript samples say: a validation clip, else a training clip, chosen by
    content.

    No step trained on a validation clip, so the person and the sample are comparable. Only if all
    of them are too short, it is a training clip.
    """
    shortest, longest = SENTENCE_SECONDS
    clips = _usual(dataset, dataset.validation)
    if all(clip.seconds < shortest for clip in clips):
        clips = _usual(dataset, (*dataset.validation, *dataset.train))
    enough = [clip for clip in clips if clip.seconds >= shortest]
    fitting = [clip for clip in enough if clip.seconds <= longest]
    longest_clip = max(clips, key=lambda clip: clip.seconds)
    return min(fitting or enough or [longest_clip], key=lambda clip: clip.sha256)


def _usual(dataset: Dataset, indices: Sequence[int]) -> list[Clip]:
    """Those in the person's usual way of speaking, if any: a request must name a style."""
    clips = [dataset.clips[index] for index in indices]
    return [clip for clip in clips if STYLE_MARK not in clip.speaker] or clips


def sample_is_missing(run: RunFolder, epoch: int, sha256: str) -> bool:
    """Whether this checkpoint has no sidecar: the run ended between checkpoint and sample."""
    sidecar = read_json(of_epoch(run, epoch).sidecar)
    return bool(sidecar.get("checkpoint_sha256") != sha256)
