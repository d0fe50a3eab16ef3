"""The run folder: paths, checkpoints, and the newest and best verified weights.

The trainer writes it (`train.checkpointing.checkpoints`); sampling, `speak` and the API read it.
Its paths are relative, so a run can be moved.

    checkpoints/checkpoint_epoch_N.pt      weights and provenance
    checkpoints/trainer_state_epoch_N.pt   optimizer and random state; the two newest epochs only
    checkpoints/adapter_epoch_N.safetensors    with LORA_RANK: the adapter, without the base
    checkpoints/checkpoint_epoch_N.json    the manifest of all three, written last
    checkpoints/best.json                  the best weights, and why (docs/evaluation.md)
    checkpoints/best.pt, best.manifest.json    a blend of an epoch with the base, if one is best
    checkpoints/best_decoder.safetensors   a vocoder trained for the best weights
    checkpoints/best_decoder.json          the weights that it was trained for, and the result
    checkpoints/decoder_epoch_N.*          the same for an epoch, with which it speaks and is
                                           judged; N = 0 for the base, trained when the run ends
    checkpoints/decoder_state_epoch_N.pt   the state that the next decoder continues from: the two
                                           newest, and the base's. best_decoder_state.pt is that of
                                           `train learn-decoder`
    checkpoints/interrupted.pt, .json      a stop inside an epoch
    evaluation.json                        the judgement of the base, each epoch and each blend
    curves.json                            the run's curves in RUNS_DIR
    samples/reference.wav, .json           the person's clips that every sample speaks from
    samples/on_demand/                     the output of `train sample`; never pruned or replaced
    speakers/                              named speakers (`xtts.voices.speakers`)
    samples/  metrics.jsonl  archive/      old runs under archive/<UTC time>/, in the same layout
"""

import contextlib
import logging
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine import commands
from machine.errors import SotaqueError
from machine.storage import locks
from machine.storage.checksums import (
    Manifest,
    ManifestError,
    Unreadable,
    UnreadableManifestError,
    fault_of,
    read_manifest,
    zip_fault,
)
from machine.storage.files import read_json
from machine.text import load_error
from xtts.text.normalization.registry import COQUI
from xtts.voices.evaluation_file import CandidateKind, Verdict, parse_verdict

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger(__name__)

CHECKPOINT_SCHEMA = 1
_EPOCH_FILE = re.compile(r"^checkpoint_epoch_(\d+)\.(pt|json)$")
_STATE_FILE = re.compile(r"^trainer_state_epoch_(\d+)\.pt$")
_DECODER_STATE_FILE = re.compile(r"^decoder_state_epoch_([1-9]\d*)\.pt$")


class RunError(SotaqueError):
    """A run or checkpoint cannot be used; the message names file and reason."""


@dataclass(frozen=True)
class VerifiedCheckpoint:
    """A checkpoint or blend. All of its files have the size and SHA-256 of its manifest. sha256: of
    `checkpoint`; state: the trainer state, if it was saved."""

    epoch: int
    step: int
    checkpoint: Path
    sha256: str
    state: Path | None
    manifest: Manifest


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint. model: `gpt.*` by Coqui's names and orientation, float32;
    memory-mapped, so read-only."""

    model: "dict[str, Tensor]"
    provenance: dict[str, Any]


@dataclass(frozen=True)
class BestWeights:
    """The weights that VOICE=best selects.

    Attributes:
        kind: The base, an epoch, or a blend of the two.
        epoch: 0 for the base.
        share: The share of the fine-tuned weights: 0 for the base, 1 for an epoch.
        weights: The checkpoint; None for the base.
        sha256: The SHA-256 of that file; "" for the base.
        reason: Why these are the best, in one line.
        fallback: Sentences on the fault of the best weights' file and the replacement; "" if these
            are the best.
    """

    kind: CandidateKind
    epoch: int
    share: float
    weights: Path | None
    sha256: str
    reason: str
    fallback: str = ""


class RunFolder:
    """One OUTPUT_DIR. Reading it does not create anything."""

    def __init__(self, output_dir: Path) -> None:
        self.folder = output_dir
        self.checkpoints = output_dir / "checkpoints"
        self.samples = output_dir / "samples"
        self.samples_on_demand = self.samples / "on_demand"
        self.speakers = output_dir / "speakers"
        self.metrics = output_dir / "metrics.jsonl"
        self.archive = output_dir / "archive"
        self.lock_file = output_dir / ".lock"
        self.best_file = self.checkpoints / "best.json"
        self.best_blend = self.checkpoints / "best.pt"
        self.best_blend_manifest = manifest_beside(self.best_blend)
        self.best_decoder = self.checkpoints / "best_decoder.safetensors"
        self.best_decoder_state = self.checkpoints / "best_decoder_state.pt"
        self.evaluation_file = output_dir / "evaluation.json"
        self.interrupted = self.checkpoints / "interrupted.pt"
        self.interrupted_manifest = self.checkpoints / "interrupted.json"

    def is_locked(self) -> bool | None:
        """Whether a trainer uses this folder, in any container of this machine; None if the file
        system does not support locks. Only reads."""
        return locks.is_held(self.lock_file)

    def checkpoint_path(self, epoch: int) -> Path:
        return self.checkpoints / f"checkpoint_epoch_{epoch}.pt"

    def state_path(self, epoch: int) -> Path:
        return self.checkpoints / f"trainer_state_epoch_{epoch}.pt"

    def manifest_path(self, epoch: int) -> Path:
        return self.checkpoints / f"checkpoint_epoch_{epoch}.json"

    def adapter_path(self, epoch: int) -> Path:
        return self.checkpoints / f"adapter_epoch_{epoch}.safetensors"

    def decoder_path(self, epoch: int) -> Path:
        """The tensors of an epoch's decoder; 0 is the base."""
        return self.checkpoints / f"decoder_epoch_{epoch}.safetensors"

    def decoder_state_path(self, epoch: int) -> Path:
        return self.checkpoints / f"decoder_state_epoch_{epoch}.pt"

    def epochs(self) -> list[int]:
        """All epochs with a checkpoint or a manifest, ascending, verified or not."""
        return self._epoch_numbers(_EPOCH_FILE)

    def state_epochs(self) -> list[int]:
        """All epochs with a trainer state on disk, ascending."""
        return self._epoch_numbers(_STATE_FILE)

    def decoder_state_epochs(self) -> list[int]:
        """All epochs with the state of a decoder on disk, ascending, without the base."""
        return self._epoch_numbers(_DECODER_STATE_FILE)

    def explain_absence(self, epoch: int) -> str | None:
        """Why an epoch lacks its files (pruned, not saved, or not reached); None if they exist."""
        if self.checkpoint_path(epoch).exists() or self.manifest_path(epoch).exists():
            return None
        newest = max(self.epochs(), default=0)
        if (self.samples / f"epoch_{epoch}_output.json").is_file():
            return (
                f"Epoch {epoch} was pruned: KEEP_CHECKPOINTS keeps the newest epochs and the best "
                "one. Its sample is kept."
            )
        if 0 < epoch < newest:
            return (
                f"Epoch {epoch} no longer exists: it was pruned (KEEP_CHECKPOINTS), or SAVE_EVERY "
                "left it unsaved."
            )
        return f"{self.folder} lacks epoch {epoch}; the newest is {newest or 'none'}."

    def verify(self, epoch: int) -> VerifiedCheckpoint | str:
        """The epoch if its files are complete, else their fault, as a sentence."""
        if absence := self.explain_absence(epoch):
            return absence
        manifest_path = self.manifest_path(epoch)
        result = self._verify(manifest_path, self.checkpoint_path(epoch), self.state_path(epoch))
        if isinstance(result, VerifiedCheckpoint) and result.epoch != epoch:
            return f"{manifest_path} is the manifest of another epoch."
        return result

    def verified(self, epoch: int) -> VerifiedCheckpoint | None:
        """The epoch, if its files are complete; else None."""
        result = self.verify(epoch)
        return None if isinstance(result, str) else result

    def newest_verified(self) -> VerifiedCheckpoint | None:
        """The newest epoch whose files are complete; logs newer ones that are not."""
        for epoch in reversed(self.epochs()):
            result = self.verify(epoch)
            if isinstance(result, VerifiedCheckpoint):
                return result
            log.warning("Epoch %d is not used: %s", epoch, result)
        return None

    def verdict(self) -> Verdict | None:
        """The verdict of evaluation.json, or of best.json if that is missing or damaged. None if
        nothing was judged."""
        evaluation = read_json(self.evaluation_file)
        return parse_verdict(evaluation["verdict"] if "verdict" in evaluation else self.read_best())

    def best_weights(self, verdict: Verdict | None = None) -> BestWeights | None:
        """The weights that the verdict names, if their file is complete; otherwise the best
        alternative, which `fallback` explains. None without any complete weights.

        verdict: a new one; None reads it. Decides by evaluation.json and the manifests, because
        a kill may leave an outdated best.json.
        """
        verdict = verdict or self.verdict()
        if verdict is None:
            return self._best_unjudged()
        if verdict.kind == "base":
            return BestWeights("base", 0, 0.0, None, "", verdict.summary)
        result = self.verify_best(verdict)
        if isinstance(result, VerifiedCheckpoint):
            return _best_weights(result, verdict.summary)
        epoch = self.verified(verdict.epoch)
        is_judged = epoch is not None and epoch.sha256 == verdict.checkpoint_sha256
        best = _best_weights(epoch, verdict.summary) if epoch and is_judged else self._best_unjudged()
        if best is None or best.weights is None:
            return best
        if verdict.kind == "blend" and self.is_locked():
            fallback = (
                f"The best, epoch {verdict.epoch} at {verdict.share:.0%}, is written at the end of "
                f"the run, which is not over yet. {best.weights.name} is used until then."
            )
        else:
            fallback = (
                f"{result} {best.weights.name} is used instead. "
                f"Try `{commands.program('train evaluate')}` to repair it."
            )
        return replace(best, fallback=fallback)

    def verify_best(self, verdict: Verdict) -> VerifiedCheckpoint | str:
        """As `look`, for the epoch or blend that a verdict names."""
        if verdict.kind == "epoch":
            epoch = self.verify(verdict.epoch)
            if isinstance(epoch, str) or epoch.sha256 == verdict.checkpoint_sha256:
                return epoch
            return f"{epoch.checkpoint} does not contain the weights that were evaluated."
        blend = self._verify(self.best_blend_manifest, self.best_blend)
        if isinstance(blend, VerifiedCheckpoint) and blend.manifest.blend != verdict.weights:
            return f"{self.best_blend} is not the blend that was judged best."
        return blend

    def verified_blend(self) -> VerifiedCheckpoint | None:
        """best.pt if it is complete, else None. `manifest.blend` describes the blend."""
        blend = self._verify(self.best_blend_manifest, self.best_blend)
        return None if isinstance(blend, str) else blend

    def newest_weights(self) -> VerifiedCheckpoint | None:
        """The newest complete epoch, or else best.pt."""
        return self.newest_verified() or self.verified_blend()

    def newest_manifest(self) -> Manifest | None:
        """The newest readable manifest, which names base and fingerprint of the run. Its files may
        be incomplete. None if nothing was saved."""
        of_epochs = map(self.manifest_path, reversed(self.epochs()))
        for path in (*of_epochs, self.interrupted_manifest, self.best_blend_manifest):
            with contextlib.suppress(ManifestError):
                return read_manifest(path)
        return None

    def _best_unjudged(self) -> BestWeights | None:
        """The complete epoch with the lowest validation loss; without validation, the newest;
        without an epoch, best.pt."""
        for find, reason in (
            (self.lowest_loss_epoch, "the lowest validation loss; there is no evaluation"),
            (self.newest_verified, "the newest epoch; nothing was validated or evaluated"),
            (self.verified_blend, "the only complete weights; there is no evaluation"),
        ):
            if checkpoint := find():
                return _best_weights(checkpoint, reason)
        return None

    def lowest_loss_epoch(self) -> VerifiedCheckpoint | None:
        """The complete epoch with the lowest validation audio loss in its manifest."""
        for _, epoch in sorted(self.validation_losses()):
            if verified := self.verified(epoch):
                return verified
        return None

    def read_best(self) -> dict[str, Any]:
        """The content of best.json; {} if it is missing or damaged."""
        return read_json(self.best_file)

    def validation_losses(self) -> list[tuple[float, int]]:
        """(validation audio loss, epoch) of all epochs whose manifest names a finite loss."""
        losses = []
        for epoch in self.epochs():
            with contextlib.suppress(ManifestError):
                loss = read_manifest(self.manifest_path(epoch)).losses.get("validation_audio_loss")
                if loss is not None and math.isfinite(loss):
                    losses.append((loss, epoch))
        return losses

    def is_unfinished(self, epoch: int) -> bool:
        """Whether a checkpoint exists without its manifest, which is written last."""
        return self.checkpoint_path(epoch).exists() and not self.manifest_path(epoch).exists()

    def _verify(
        self, manifest_path: Path, checkpoint: Path, state: Path | None = None
    ) -> VerifiedCheckpoint | str:
        """A checkpoint if the files of its manifest are complete, else their fault."""
        try:
            manifest = read_manifest(manifest_path)
            if checkpoint.name not in manifest.files:
                return f"{manifest_path} is the manifest of another epoch."
            while fault := fault_of(manifest.files, self.checkpoints):
                # A trainer that removes an old trainer state writes the manifest first.
                previous, manifest = manifest, read_manifest(manifest_path)
                if manifest == previous:
                    return fault
        except UnreadableManifestError as error:
            return Unreadable(error)
        except ManifestError as error:
            return str(error)
        sha256 = manifest.files[checkpoint.name].sha256
        saved_state = state if state and state.name in manifest.files else None
        return VerifiedCheckpoint(manifest.epoch, manifest.step, checkpoint, sha256, saved_state, manifest)

    def _epoch_numbers(self, pattern: re.Pattern[str]) -> list[int]:
        try:
            names = os.listdir(self.checkpoints)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted({int(match[1]) for name in names if (match := pattern.match(name))})


def _best_weights(verified: VerifiedCheckpoint, reason: str) -> BestWeights:
    kind: CandidateKind = "blend" if verified.manifest.blend else "epoch"
    share = float(verified.manifest.blend.get("share", 1.0))
    return BestWeights(kind, verified.epoch, share, verified.checkpoint, verified.sha256, reason)


def epoch_of(checkpoint: Path) -> int | None:
    """The epoch of a checkpoint, by its file name; None for other files."""
    match = _EPOCH_FILE.match(checkpoint.name)
    return int(match[1]) if match else None


def manifest_beside(checkpoint: Path) -> Path:
    """The path of a checkpoint's manifest; for best.pt it is best.manifest.json."""
    suffix = ".manifest.json" if checkpoint.name == "best.pt" else ".json"
    return checkpoint.with_suffix(suffix)


def reference_beside(checkpoint: Path) -> Path | None:
    """The reference recording of an epoch's sample, or else the newest of its run."""
    epoch, run = epoch_of(checkpoint), RunFolder(checkpoint.parent.parent)
    if epoch is None and checkpoint != run.best_blend:
        return None
    name = "best_reference.wav" if epoch is None else f"epoch_{epoch}_reference.wav"
    path = run.samples / name
    return path if path.is_file() else newest_reference(run)


def newest_reference(run: RunFolder) -> Path | None:
    """The reference recording of the newest sample of a run."""
    best = run.samples / "best_reference.wav"
    if best.is_file():
        return best
    for folder in (run.samples, run.samples_on_demand):
        references = sorted(folder.glob("epoch_*_reference.wav"), key=lambda path: path.stat().st_mtime)
        if references:
            return references[-1]
    return None


def read_checkpoint(path: Path) -> Checkpoint:
    """Weights and provenance of a `checkpoint_epoch_N.pt` or `interrupted.pt`.

    Verifies it against its manifest before unpickling; without a manifest (a file that was copied
    from its run), against the checksums inside the file. Raises RunError.
    """
    content = load_verified(path)
    try:
        return Checkpoint(model=content["model"], provenance=content["provenance"])
    except KeyError as error:
        raise RunError(
            f"{path} is not a checkpoint of Sotaque: it lacks {error.args[0]!r}. Name a "
            "checkpoint_epoch_N.pt. A model.pth belongs in a folder that BASE_MODEL or VOICE names."
        ) from None


def normalizer_of(provenance: Mapping[str, object]) -> str:
    """The normaliser of a checkpoint's training texts. Old checkpoints do not name it; it is
    Coqui's."""
    return str(provenance.get("normalizer", COQUI))


def load_verified(path: Path, *, manifest: Path | None = None, mmap: bool = True) -> dict[str, Any]:
    """Verifies and loads a dictionary that `torch.save` wrote. Raises RunError.

    manifest: the path of its manifest; None = that of `manifest_beside`.
    """
    if not path.is_file():
        raise RunError(_describe_missing(path))
    if fault := _find_fault(path, manifest or manifest_beside(path)):
        raise RunError(fault)
    import torch  # here, because the API lists runs without torch

    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:
        raise RunError(f"{path} cannot be read as a checkpoint ({load_error(error)}).") from error
    if not isinstance(content, dict):
        raise RunError(f"{path} is not a checkpoint: it contains a {type(content).__name__}.")
    return content


def _describe_missing(path: Path) -> str:
    run, epoch = RunFolder(path.parent.parent), epoch_of(path)
    if epoch is not None and run.epochs() and (absence := run.explain_absence(epoch)):
        epochs = ", ".join(map(str, run.epochs()))
        return f"{path} does not exist. {absence} Available epochs: {epochs}."
    return f"{path} does not exist. Name an existing checkpoint file."


def _find_fault(path: Path, manifest_path: Path) -> str | None:
    """What is wrong with a file, found without unpickling it; None if nothing is."""
    if not manifest_path.is_file():
        return zip_fault(path)
    try:
        manifest = read_manifest(manifest_path)
    except UnreadableManifestError as error:
        return Unreadable(error)
    except ManifestError as error:
        return str(error)
    if path.name not in manifest.files:
        return f"{manifest_path} does not name {path.name}; it belongs to another file."
    return fault_of({path.name: manifest.files[path.name]}, path.parent)
