"""Vocoders trained for the weights of a run: best_decoder.*, decoder_epoch_N.*, and a speaker's.

Each consists of its tensors (.safetensors) and a record (.json). `xtts.workers.decoder_learning`
trains it; it is used whenever those weights speak. An export contains it in its model.pth, as the
vocoder.

Importing this module does not import torch.
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from machine.storage.checksums import ManifestError, fault_of, read_manifest
from machine.storage.files import Written, replace_file, write_json
from machine.text import first_line
from xtts.voices.run_folder import RunError, RunFolder, epoch_of, manifest_beside

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LearnedDecoder:
    """The record of a learned decoder: the weights that it was trained for, and the result.

    Attributes:
        epoch, share, checkpoint_sha256: The weights, as in `xtts.voices.evaluation_file.Verdict`.
        distance_before, distance_after: The spectral distance on held-out clips, with the base's
            decoder and with this one (`xtts.evaluation.spectral_distance`).
        clips, steps: The number of training clips and steps.
        more_word_errors: The increase of the word error rate on the evaluation's sentences over the
            base's decoder; None without a recogniser.
        harder: Whether that increase is measurable.
        closer_voice: The increase of the speaker similarity to the reference on the same
            sentences, as a cosine; None without them.
        less_alike: Whether the similarity is measurably lower.
        more_natural: The increase of the predicted opinion score on the same sentences; None if
            naturalness is not judged.
        less_natural: Whether it is measurably and audibly lower.
        file: The tensors; None if they are not used. The record then keeps a later start from
            training it again.
        after_epoch: For the base's decoder, the newest epoch whose decoder it continues; 0 for none.
        strength: How much of what was learned is used, from the base's decoder (0) to all (1).
        continues: In best_decoder.json, the `digest` of the judged decoder that
            `train learn-decoder` continued; None for a judged one.
    """

    epoch: int
    share: float
    checkpoint_sha256: str
    distance_before: float
    distance_after: float
    clips: int
    steps: int
    more_word_errors: float | None = None
    harder: bool = False
    closer_voice: float | None = None
    less_alike: bool = False
    more_natural: float | None = None
    less_natural: bool = False
    file: Written | None = None
    after_epoch: int = 0
    continues: str | None = None
    strength: float = 1.0

    @property
    def weights(self) -> dict[str, object]:
        """The fields of the weights that identify a blend in the manifest of best.pt."""
        return {"epoch": self.epoch, "share": self.share, "checkpoint_sha256": self.checkpoint_sha256}

    @property
    def is_better(self) -> bool:
        """Whether it is closer to the person's clips, and no judge found its sentences worse."""
        is_closer = self.distance_after < self.distance_before
        return is_closer and not (self.harder or self.less_alike or self.less_natural)

    @property
    def digest(self) -> str:
        """Distinguishes decoders of the same weights; "" if it is not used."""
        return self.file.sha256 if self.file else ""


def unverified_record(tensors: Path) -> LearnedDecoder | None:
    """The record of these tensors, if they exist with the recorded size. Does not read them."""
    with contextlib.suppress(OSError, ValidationError):
        record = _parse_record(tensors)
        if record.file is None or tensors.stat().st_size == record.file.bytes:
            return record
    return None


def read_used(tensors: Path, weights: Mapping[str, object]) -> LearnedDecoder | None:
    """As `read`, but None if the decoder is not used, or was trained for other weights."""
    record = read(tensors)
    if record is None or record.weights != weights or record.file is None:
        return None
    return record


def read(tensors: Path) -> LearnedDecoder | None:
    """The record of these tensors, verified. None if they are missing or cannot be used, which is
    logged."""
    path = manifest_beside(tensors)
    try:
        record = _parse_record(tensors)
        fault = record.file and fault_of({tensors.name: record.file}, tensors.parent)
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        fault = f"{first_line(error)}."
    if fault:
        log.warning("%s cannot be used and is ignored: %s", path, fault)
        return None
    return record


def _parse_record(tensors: Path) -> LearnedDecoder:
    return TypeAdapter(LearnedDecoder).validate_json(manifest_beside(tensors).read_bytes())


def decoder_for(run: RunFolder, checkpoint: Path | None, of_speaker: Path | None = None) -> Path | None:
    """The tensors of the decoder that was trained for exactly this checkpoint of a run, or for its
    base (None); None if there is no such decoder. of_speaker: the tensors of one of several
    speakers."""
    for tensors in [of_speaker] if of_speaker else _possible_tensors(run, checkpoint):
        record = read(tensors)
        if record is not None and _is_trained_for(record, run, checkpoint):
            return tensors if record.file else None
    return None


def _possible_tensors(run: RunFolder, checkpoint: Path | None) -> Iterator[Path]:
    """The tensors that may be for a checkpoint. Those for the best weights come first, because only
    their words were judged, possibly with the result that the base's decoder is better."""
    yield run.best_decoder
    if checkpoint is not None and (epoch := epoch_of(checkpoint)) is not None:
        yield run.decoder_path(epoch)


def _is_trained_for(record: LearnedDecoder, run: RunFolder, checkpoint: Path | None) -> bool:
    if checkpoint is None:
        return record.share == 0
    with contextlib.suppress(ManifestError, KeyError):
        manifest = read_manifest(manifest_beside(checkpoint))
        if checkpoint == run.best_blend:
            return manifest.blend == record.weights
        return record.share == 1 and manifest.files[checkpoint.name].sha256 == record.checkpoint_sha256
    return False


def decoder_beside(checkpoint: Path) -> Path | None:
    """As `decoder_for`, for the run that contains the checkpoint."""
    return decoder_for(RunFolder(checkpoint.parent.parent), checkpoint)


def digest_beside(checkpoint: Path) -> str:
    """The digest of the decoder that was trained for exactly this checkpoint, without verifying it;
    "" if there is no such decoder."""
    run = RunFolder(checkpoint.parent.parent)
    for tensors in _possible_tensors(run, checkpoint):
        record = unverified_record(tensors)
        if record is not None and _is_trained_for(record, run, checkpoint):
            return record.digest
    return ""


def write(tensors: Path, learned: LearnedDecoder) -> None:
    """Writes the record; call it after writing the tensors. Raises DiskFull, WriteError."""
    write_json(manifest_beside(tensors), asdict(learned))


def remove(tensors: Path) -> None:
    """Removes the record, and then the tensors, which are ignored without a record."""
    manifest_beside(tensors).unlink(missing_ok=True)
    tensors.unlink(missing_ok=True)


def write_tensors(path: Path, tensors: "Mapping[str, Tensor]") -> Written:
    """Writes the decoder's tensors by their names in a `model.pth`. Raises DiskFull, WriteError."""
    from safetensors.torch import save

    data = save(dict(tensors))
    return replace_file(path, lambda file: file.write(data))


def read_tensors(path: Path) -> "dict[str, Tensor]":
    """Reads the decoder's tensors, which `read` has verified. Raises RunError if the trainer has
    removed them in the meantime."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        text = f"{path} cannot be read ({error}). Open the voice again."
        raise RunError(text) from error
