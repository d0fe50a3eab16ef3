"""Vocoders learned for the weights of a run: best_decoder.*, decoder_epoch_N.*, and a speaker's.

Each is a file of tensors (.safetensors) and a record beside it (.json).
`xtts.workers.decoder_learning` learns it; whoever speaks with those weights speaks with it. An
export has it in its model.pth, where Coqui looks for a vocoder.

Importing this module does not import torch.
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from machine.storage.atomic import Written, replace_file, write_json
from machine.storage.checksums import Manifest, ManifestError, fault_of, read_manifest
from xtts.voices.run_folder import RunError, RunFolder, epoch_of, manifest_beside

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LearnedDecoder:
    """What was learned, the weights that it was learned for, and what came of it.

    Attributes:
        epoch, share, checkpoint_sha256: The weights, as a verdict names them
            (`xtts.voices.evaluation_file.Verdict`).
        distance_before, distance_after: Spectral distance of clips that it did not learn from, by
            the base's decoder and by this one (`xtts.evaluation.spectral_distance`).
        clips: How many it learned from; steps: how many it took.
        more_word_errors: Of the evaluation's sentences with it, against the base's decoder, as a
            share of the words; None where no recogniser listened.
        harder: Whether those are measurably more.
        closer_voice: How much more the same sentences sound like the reference, as a cosine of
            speaker embeddings; None without them.
        less_alike: Whether they sound measurably less like it.
        file: Its tensors; None where it is not spoken with: an answer that no later start asks for
            again.
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
    file: Written | None = None

    @property
    def weights(self) -> dict[str, object]:
        """As the manifest of a best.pt names what it is a blend of."""
        return {
            "epoch": self.epoch,
            "share": self.share,
            "checkpoint_sha256": self.checkpoint_sha256,
        }

    @property
    def better(self) -> bool:
        """Whether it is nearer to the person, and neither judge of its sentences is against it."""
        nearer = self.distance_after < self.distance_before
        return nearer and not self.harder and not self.less_alike

    @property
    def digest(self) -> str:
        """Tells one from another that was learned for the same weights; "" where none speaks."""
        return self.file.sha256 if self.file else ""

    def fault(self, tensors: Path) -> str | None:
        """None where its tensors are whole, else the sentence that says what is not."""
        if self.file is None:
            return None
        return fault_of(Manifest(self.epoch, 0, {tensors.name: self.file}), tensors.parent)


def recorded(tensors: Path) -> LearnedDecoder | None:
    """What the record of these tensors says, at a first look: they are there, and of its size."""
    with contextlib.suppress(OSError, ValidationError):
        record = _record(tensors)
        if record.file is None or tensors.stat().st_size == record.file.bytes:
            return record
    return None


def read(tensors: Path) -> LearnedDecoder | None:
    """What the record of these tensors says, verified; None, with a line in the log, where it
    cannot be used: the base's decoder speaks as well."""
    path = manifest_beside(tensors)
    try:
        record = _record(tensors)
        fault = record.fault(tensors)
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        fault = str(error).splitlines()[0]
    if fault:
        log.warning("%s cannot be used and is ignored: %s", path, fault)
        return None
    return record


def _record(tensors: Path) -> LearnedDecoder:
    return TypeAdapter(LearnedDecoder).validate_json(manifest_beside(tensors).read_bytes())


def learned_for(run: RunFolder, checkpoint: Path | None) -> Path | None:
    """The tensors of the decoder that was learned for this very checkpoint of a run, or for its
    base (None); else None."""
    for tensors in _candidates(run, checkpoint):
        record = read(tensors)
        if record is not None and _is_for(record, run, checkpoint):
            return tensors if record.file else None
    return None


def learned_for_speaker(run: RunFolder, checkpoint: Path | None, tensors: Path) -> Path | None:
    """As `learned_for`, of the decoder that was learned for one of several speakers."""
    record = read(tensors)
    usable = record is not None and record.file and _is_for(record, run, checkpoint)
    return tensors if usable else None


def _candidates(run: RunFolder, checkpoint: Path | None) -> Iterator[Path]:
    """First what was learned for the best weights: only that was judged by its words, also with the
    answer that the base's decoder is the better one."""
    yield run.best_decoder
    if checkpoint is not None and (epoch := epoch_of(checkpoint)) is not None:
        yield run.decoder_path(epoch)


def _is_for(record: LearnedDecoder, run: RunFolder, checkpoint: Path | None) -> bool:
    if checkpoint is None:
        return record.share == 0
    with contextlib.suppress(ManifestError, KeyError):
        manifest = read_manifest(manifest_beside(checkpoint))
        if checkpoint == run.best_blend:
            return manifest.blend == record.weights
        same = manifest.files[checkpoint.name].sha256 == record.checkpoint_sha256
        return same and record.share == 1
    return False


def decoder_beside(checkpoint: Path) -> Path | None:
    """As `learned_for`, of the run in whose folder the checkpoint is."""
    return learned_for(RunFolder(checkpoint.parent.parent), checkpoint)


def digest_beside(checkpoint: Path) -> str:
    """Of the decoder that was learned for this very checkpoint, at a first look; "" without one."""
    run = RunFolder(checkpoint.parent.parent)
    for tensors in _candidates(run, checkpoint):
        record = recorded(tensors)
        if record is not None and _is_for(record, run, checkpoint):
            return record.digest
    return ""


def write(tensors: Path, learned: LearnedDecoder) -> None:
    """Writes the record, after the tensors that it names. Raises DiskFull, WriteError."""
    write_json(manifest_beside(tensors), asdict(learned))


def remove(tensors: Path) -> None:
    """Removes tensors and record, the record first: without it no one takes the tensors."""
    manifest_beside(tensors).unlink(missing_ok=True)
    tensors.unlink(missing_ok=True)


def write_tensors(path: Path, tensors: "Mapping[str, Tensor]") -> Written:
    """The decoder's tensors, named as in a `model.pth`. Raises DiskFull, WriteError."""
    from safetensors.torch import save

    data = save(dict(tensors))
    return replace_file(path, lambda file: file.write(data))


def read_tensors(path: Path) -> "dict[str, Tensor]":
    """As they were written; verified by whoever found them (`read`). Raises RunError where the
    trainer has removed them meanwhile."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        text = f"{path} cannot be read ({error}). Open the voice again, as it is now."
        raise RunError(text) from error
