"""Saves checkpoints and best.json, prunes old ones, and raises DiskFull on a full disk.

The loop calls it at the end of an epoch and before a stop. One save writes the weights, the trainer
state, LoRA's adapter, the manifest and best.json, then deletes old files. A kill between any two of
these steps leaves this epoch or the one before as the newest complete one.
"""

import logging
import math
import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from machine.storage.checksums import Manifest, ManifestError, read_manifest, remember_hash, write_manifest
from machine.storage.files import (
    WriteError,
    Written,
    crash_point,
    make_folder,
    replace_file,
    require_space,
    sync_folder,
    write_json,
    writing_to,
)
from train.checkpointing.fingerprint import Fingerprint, Provenance
from train.checkpointing.resume import Resumed, resume
from train.optim.optimizer import NonFiniteError
from train.optim.trainable import TrainerState
from xtts.voices import adapter_file
from xtts.voices.evaluation_file import Evaluation, Verdict, read_evaluation
from xtts.voices.run_folder import CHECKPOINT_SCHEMA, RunFolder, VerifiedCheckpoint, manifest_beside

log = logging.getLogger(__name__)

# With two, a run still resumes exactly if its newest epoch is damaged.
MAX_TRAINER_STATES = 2
# The files of damaged epochs are kept for diagnosis, and because one of them may be intact. They take
# gigabytes, so only those of this many epochs stay.
MAX_CORRUPT_EPOCHS = 2
_EPOCH_IN_NAME = re.compile(r"epoch_\d+")


class Checkpoints:
    """The saved epochs of one run.

    Args:
        keep: how many of the newest epochs stay in addition to the best one; None keeps all.
        save_every: every n-th epoch is saved, and the last.
        provenance: plain values that each checkpoint records; its manifest also has `base`
            ({name, sha256}) and `fingerprint` (a dict).
    """

    def __init__(
        self, run: RunFolder, keep: int | None, save_every: int = 1, provenance: Provenance | None = None
    ) -> None:
        self.run = run
        self.keep = keep
        self.save_every = save_every
        self.provenance = provenance or Provenance()
        # The file that the run started from (RESUME=PATH), recorded in each of its checkpoints.
        self.started_from: dict[str, str] | None = None
        # The newest evaluation, which is not read again from disk.
        self.evaluation: Evaluation | None = None
        # While a GPU trains, one thread saves an epoch and another judges it.
        self._publishing = threading.Lock()

    def due(self, epoch: int, last_epoch: int) -> bool:
        """Whether `epoch` (from 1) must be saved."""
        return epoch % self.save_every == 0 or epoch >= last_epoch

    def resume(
        self,
        setting: str,
        fingerprint: Fingerprint,
        *,
        learning_rate: float | None = None,
        runs_dir: Path | None = None,
    ) -> Resumed | None:
        """The state to resume from, or None to start from the base; see
        `train.checkpointing.resume.resume`."""
        resumed = resume(self.run, setting, fingerprint, learning_rate=learning_rate, runs_dir=runs_dir)
        self.started_from = resumed.provenance.get("started_from") if resumed else None
        self.publish_best()
        drop_corrupt(self.run)
        return resumed

    def save_epoch(
        self,
        epoch: int,
        step: int,
        model_state: Mapping[str, Tensor],
        trainer_state: TrainerState | None,
        losses: Mapping[str, float | None],
        adapter: tuple[Mapping[str, Tensor], int] | None = None,
    ) -> VerifiedCheckpoint:
        """Saves a finished epoch (from 1) with its trainer state, then prunes.

        losses: nats per token; `validation_audio_loss` decides which epoch is best. adapter: of
        `train.optim.trainable.TrainableWeights.adapter`. Raises DiskFull, WriteError,
        NonFiniteError; earlier files then stay intact.
        """
        run, path, state = self.run, self.run.checkpoint_path(epoch), None
        if not run.manifest_path(epoch).exists():
            # Remove leftovers of a killed save, to free their space.
            leftovers = (path, run.state_path(epoch), run.adapter_path(epoch))
            remove(run, [file for file in leftovers if file.exists()])
        _prepare(model_state, trainer_state, path)
        provenance = self._provenance_of(epoch, step)
        written = _save_file(path, {"model": _compact_tensors(model_state), "provenance": provenance})
        files = {path.name: written}
        if trainer_state is not None:
            state = run.state_path(epoch)
            files[state.name] = _save_file(state, {"trainer": dict(trainer_state)})
        if adapter is not None:
            adapter_path = run.adapter_path(epoch)
            files[adapter_path.name] = _save_adapter(adapter_path, *adapter, provenance["base"])
        manifest = _manifest(files, provenance, losses)
        write_manifest(run.manifest_path(epoch), manifest)
        crash_point("after manifest")
        self.publish_best()
        crash_point("after best")
        remove(run, [run.interrupted_manifest, run.interrupted])
        prune(run, self.keep, self.evaluation.verdict if self.evaluation else None)
        return VerifiedCheckpoint(epoch, step, path, written.sha256, state, manifest)

    def save_interrupted(
        self,
        epoch: int,
        step: int,
        batch: int,
        model_state: Mapping[str, Tensor],
        trainer_state: TrainerState,
    ) -> VerifiedCheckpoint:
        """Saves the state inside `epoch` (from 1) after `batch` of its batches."""
        provenance = self._provenance_of(epoch, step, batch)
        paths = (self.run.interrupted, self.run.interrupted_manifest)
        return self._save_alone(*paths, model_state, provenance, trainer_state)

    def save_blend(
        self, verdict: Verdict, model_state: Mapping[str, Tensor], provenance: Mapping[str, Any]
    ) -> VerifiedCheckpoint:
        """Writes best.pt: the blend of an epoch and its base that an evaluation chose.

        provenance: of the epoch's checkpoint. Raises as `save_epoch`.
        """
        recorded = {**provenance, "blend": verdict.weights}
        paths = (self.run.best_blend, self.run.best_blend_manifest)
        saved = self._save_alone(*paths, model_state, recorded)
        crash_point("after blend")
        return saved

    def publish_best(self, evaluation: Evaluation | None = None) -> None:
        """Writes best.json if the best changed, and removes an outdated best.pt.

        evaluation: a new one; None takes the newest. A best.pt that cannot be written again stays.
        """
        if not self.run.checkpoints.is_dir():  # a new run, or somebody has deleted them
            return
        with self._publishing:
            if evaluation is None:
                evaluation = self.evaluation or read_evaluation(self.run.evaluation_file)
            best: dict[str, object] | None = None
            if evaluation and evaluation.verdict:
                best = best_by_evaluation(evaluation)
            elif self.run.verdict() is None:  # otherwise, only best.json still holds the verdict
                losses = self.run.validation_losses()
                loss, epoch = min(losses, default=(0.0, 0))
                best = {"epoch": epoch, "validation_audio_loss": loss} if losses else None
            if best is not None and self.run.read_best() != best:
                write_json(self.run.best_file, best)
            if evaluation and evaluation.verdict and evaluation.verdict.kind != "blend":
                blend = self.run.verified_blend()
                if blend and not self.run.checkpoint_path(blend.epoch).exists():
                    return
                remove(self.run, [self.run.best_blend_manifest, self.run.best_blend])

    def _provenance_of(self, epoch: int, step: int, batch: int | None = None) -> Provenance:
        """The provenance that a checkpoint of this run records."""
        recorded: Provenance = {**self.provenance, "epoch": epoch, "step": step}
        if batch is not None:
            recorded["batch"] = batch
        if self.started_from:
            recorded["started_from"] = self.started_from
        return recorded

    def _save_alone(
        self,
        path: Path,
        manifest_path: Path,
        model_state: Mapping[str, Tensor],
        provenance: Mapping[str, Any],
        trainer_state: TrainerState | None = None,
    ) -> VerifiedCheckpoint:
        """Writes one file with its manifest, in place of earlier ones."""
        _prepare(model_state, trainer_state, path)
        # After a kill between the two writes, the old manifest would call the new file damaged.
        remove(self.run, [manifest_path])
        trainer = {"trainer": dict(trainer_state)} if trainer_state is not None else {}
        written = _save_file(
            path, {"model": _compact_tensors(model_state), "provenance": dict(provenance), **trainer}
        )
        manifest = _manifest({path.name: written}, provenance)
        write_manifest(manifest_path, manifest)
        return VerifiedCheckpoint(manifest.epoch, manifest.step, path, written.sha256, None, manifest)


def best_by_evaluation(evaluation: Evaluation) -> dict[str, object]:
    """The content of best.json if there is a verdict (docs/evaluation.md)."""
    verdict, best = evaluation.verdict, evaluation.best
    assert verdict is not None and best is not None
    epoch = evaluation.find("epoch", verdict.epoch)
    files = {"base": None, "blend": "best.pt", "epoch": f"checkpoint_epoch_{verdict.epoch}.pt"}
    counts = {name: getattr(best, name) for name in ("unfinished", "cut", "babbling")}
    return {
        "schema": 2,
        "kind": verdict.kind,
        "epoch": verdict.epoch,
        "share": verdict.share,
        "checkpoint_sha256": verdict.checkpoint_sha256,
        "decoder": verdict.decoder,
        "file": files[verdict.kind],
        "validation_audio_loss": epoch.validation_audio_loss if epoch else None,
        "way": verdict.way,
        "reason": verdict.reason,
        "advice": verdict.advice,
        "indistinguishable_from_base": verdict.indistinguishable_from_base,
        "figures": {
            "sentences": len(best.sentences),
            **counts,
            **{name: asdict(figure) for name, figure in best.judges.items()},
        },
    }


def _prepare(model: Mapping[str, Tensor], trainer: TrainerState | None, path: Path) -> None:
    """Checks the weights and the disk, and makes the folder. Raises NonFiniteError, DiskFull,
    WriteError."""
    non_finite = [name for name, tensor in model.items() if not bool(torch.isfinite(tensor).all())]
    if non_finite:
        raise NonFiniteError(
            f"{non_finite[0]} holds non-finite values, so the checkpoint is not written. "
            "Lower LEARNING_RATE or set PRECISION=fp32, and resume from the last epoch."
        )
    if not path.parent.is_dir():
        make_folder(path.parent)
        # The folder's entry must survive a power cut, or its files are lost.
        with writing_to(path.parent):
            sync_folder(path.parent.parent)
            sync_folder(path.parent.parent.parent)
    require_space(path.parent, tensor_bytes(model) + tensor_bytes(trainer), path.name)


def tensor_bytes(value: object) -> int:
    """Bytes of the tensors in nested dictionaries and lists."""
    return sum(leaf.nbytes for leaf in tree_leaves(value) if isinstance(leaf, Tensor))


def _save_file(path: Path, content: dict[str, object]) -> Written:
    content = {"schema": CHECKPOINT_SCHEMA, **content}
    written = replace_file(path, lambda file: torch.save(content, file))
    remember_hash(path, written.sha256)
    return written


def _save_adapter(path: Path, tensors: Mapping[str, Tensor], alpha: int, base: Mapping[str, str]) -> Written:
    rank = next(len(tensor) for name, tensor in tensors.items() if ".lora_A." in name)
    matrices = adapter_file.matrix_kinds(tensors)
    written = adapter_file.write(
        path, tensors, adapter_file.AdapterHeader(rank, float(alpha), base, matrices)
    )
    remember_hash(path, written.sha256)
    return written


def _compact_tensors(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The detached tensors. Views are copied, because `torch.save` would write their whole storage."""
    detached = {name: tensor.detach() for name, tensor in state.items()}
    return {
        name: tensor.clone() if tensor.untyped_storage().nbytes() != tensor_bytes(tensor) else tensor
        for name, tensor in detached.items()
    }


def _manifest(
    files: dict[str, Written], provenance: Mapping[str, Any], losses: Mapping[str, float | None] | None = None
) -> Manifest:
    """The manifest of files. provenance: of their checkpoint."""
    return Manifest(
        epoch=provenance["epoch"],
        step=int(provenance.get("step") or 0),
        files=files,
        losses={
            name: loss if loss is not None and math.isfinite(loss) else None
            for name, loss in (losses or {}).items()
        },
        base=dict(provenance.get("base") or {}),
        fingerprint=dict(provenance.get("fingerprint") or {}),
        blend=dict(provenance.get("blend") or {}),
        data=dict(provenance.get("data") or {}),
    )


# Pruning: never the newest verified epoch or the best; a failure to remove never stops a run


def prune(run: RunFolder, keep: int | None, verdict: Verdict | None = None) -> None:
    """Removes old epochs and trainer states; keep = None keeps every epoch. verdict: None reads it.

    A pruned epoch keeps its sample. Failures are only logged.
    """
    verified: list[int] = []
    for epoch in reversed(run.epochs()):
        if len(verified) < MAX_TRAINER_STATES and run.verified(epoch):
            verified.append(epoch)
    best = best_epoch(run, verdict)
    for epoch in epochs_to_prune(run.epochs(), verified[:1], best, keep):
        # The manifest first: it must not name missing files.
        decoder = run.decoder_path(epoch)
        remove(
            run,
            (
                run.manifest_path(epoch),
                run.checkpoint_path(epoch),
                run.state_path(epoch),
                run.adapter_path(epoch),
                manifest_beside(decoder),
                decoder,
            ),
        )
    for epoch in run.state_epochs():
        if verified and epoch < min(verified):
            _drop_state(run, epoch)
    # By their own numbers: an epoch without a sample has no decoder.
    for epoch in run.decoder_state_epochs()[:-MAX_TRAINER_STATES]:
        remove(run, [run.decoder_state_path(epoch)])


def best_epoch(run: RunFolder, verdict: Verdict | None = None) -> int | None:
    """The epoch of the verdict (None reads it), blended or not. Without a verdict, or if the base
    is the best, the epoch with the lowest validation loss."""
    verdict = verdict or run.verdict()
    if verdict and verdict.kind != "base":
        return verdict.epoch
    return min(run.validation_losses(), default=(0.0, None))[1]


def epochs_to_prune(
    epochs: list[int], newest_verified: list[int], best: int | None, keep: int | None
) -> list[int]:
    """The epochs to remove: all but the newest `keep`, the newest verified one and the best."""
    if keep is None:
        return []
    kept_epochs = {*epochs[max(0, len(epochs) - keep) :], *newest_verified, best}
    return [epoch for epoch in epochs if epoch not in kept_epochs]


def drop_corrupt(run: RunFolder) -> None:
    """Removes files that were set aside as `<name>.corrupt`, except those of the newest epochs."""
    by_epoch = defaultdict[str, list[Path]](list)
    for path in run.checkpoints.glob("*.corrupt"):
        if path.is_file():
            match = _EPOCH_IN_NAME.search(path.name)
            by_epoch[match[0] if match else path.name].append(path)
    oldest_first = sorted(by_epoch.values(), key=lambda files: max(map(_changed_ns, files)))
    remove(run, [path for files in oldest_first[:-MAX_CORRUPT_EPOCHS] for path in files])


def _changed_ns(path: Path) -> int:
    return path.stat().st_mtime_ns


def remove(run: RunFolder, paths: Iterable[Path]) -> None:
    """Removes files of `run.checkpoints` in this order; stops at the first failure."""
    paths = list(paths)
    for path in paths:
        try:
            path.unlink()
            crash_point("mid-prune", path)
        except FileNotFoundError:
            continue
        except OSError as error:
            log.warning("%s could not be removed (%s). It stays.", path, error.strerror)
            break
    if paths:
        sync_folder(run.checkpoints)


def _drop_state(run: RunFolder, epoch: int) -> None:
    """Removes a trainer state, first from the manifest: a kill in between leaves an unnamed
    file."""
    state, path = run.state_path(epoch), run.manifest_path(epoch)
    try:
        manifest = read_manifest(path)
        files = {name: file for name, file in manifest.files.items() if name != state.name}
        if files != manifest.files:
            write_manifest(path, replace(manifest, files=files))
    except (ManifestError, WriteError) as error:
        if path.exists():
            log.warning("The trainer state of epoch %d could not be deleted: %s", epoch, error)
            return
    remove(run, [state])
