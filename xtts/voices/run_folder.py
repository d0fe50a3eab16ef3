"""The run folder: paths, checkpoints, and the newest and best verified weights.

The trainer writes it (`train.checkpointing.checkpoints`); sampling, `speak` and the API read it. It
contains no absolute paths, so a run can be moved.

    checkpoints/checkpoint_epoch_N.pt      weights and provenance
    checkpoints/trainer_state_epoch_N.pt   optimizer and all; the two newest epochs only
    checkpoints/adapter_epoch_N.safetensors    with LORA_RANK: what was learned, without the base
    checkpoints/checkpoint_epoch_N.json    the manifest of all three, written last
    checkpoints/best.json                  which weights are the best, and why (docs/evaluation.md)
    checkpoints/best.pt, best.manifest.json    a blend of an epoch with the base, if one is best
    checkpoints/best_decoder.safetensors   a vocoder learned for the best weights
    checkpoints/best_decoder.json          the weights that it was learned for, and the result
    checkpoints/decoder_epoch_N.*          the same for an epoch: what its sample is spoken with
    checkpoints/interrupted.pt, .json      a stop inside an epoch
    evaluation.json                        how the base, each epoch and each blend speak
    curves.json                            whose curves in RUNS_DIR are this run's
    samples/on_demand/                     what `train sample` spoke; neither pruned nor replaced
    speakers/                              named speakers (`xtts.voices.speakers`)
    samples/  metrics.jsonl  archive/      old runs under archive/<UTC time>/, in the same layout
"""

import contextlib
import logging
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine import commands
from machine.errors import SotaqueError
from machine.storage import locks
from machine.storage.atomic import STALE_SECONDS, WriteError, remove_stale
from machine.storage.checksums import Manifest, ManifestError, fault_of, read_manifest, zip_fault
from machine.storage.reading import read_json
from machine.text import load_error
from xtts.text.normalization.registry import COQUI
from xtts.voices.evaluation_file import (
    CandidateKind,
    Evaluation,
    Verdict,
    read_evaluation,
    verdict_of_best,
)

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger(__name__)

CHECKPOINT_SCHEMA = 1
_EPOCH_FILE = re.compile(r"^checkpoint_epoch_(\d+)\.(pt|json)$")
_STATE_FILE = re.compile(r"^trainer_state_epoch_(\d+)\.pt$")


class RunError(SotaqueError):
    """A run or checkpoint cannot be used; the message names file and reason."""


@dataclass(frozen=True)
class Verified:
    """One epoch whose files all have the size and SHA-256 of its manifest."""

    epoch: int
    step: int
    checkpoint: Path
    sha256: str
    state: Path | None
    manifest: Manifest


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint. model: `gpt.*` by Coqui's names and orientation, float32; memory-mapped, so
    read-only."""

    model: "dict[str, Tensor]"
    provenance: dict[str, Any]


@dataclass(frozen=True)
class BestWeights:
    """The weights that VOICE=best selects.

    Attributes:
        kind: The base, an epoch's own weights, or a blend of the two.
        epoch: 0 for the base.
        share: The share of the fine-tuned weights: 0 for the base, 1 for an epoch.
        weights: The checkpoint; None for the base's own.
        sha256: The SHA-256 of that file; "" for the base.
        reason: Why it is the best, as a sentence.
        fallback: What is wrong with the file of the best weights, and what is used instead, in
            sentences; "" if these are the best.
    """

    kind: CandidateKind
    epoch: int
    share: float
    weights: Path | None
    sha256: str
    reason: str
    fallback: str = ""


class RunFolder:
    """One OUTPUT_DIR. Reading it creates nothing."""

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
        self.evaluation_file = output_dir / "evaluation.json"
        self.interrupted = self.checkpoints / "interrupted.pt"
        self.interrupted_manifest = self.checkpoints / "interrupted.json"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Locks the run for this process, one trainer at a time, and removes what killed writers
        left.

        Raises:
            RunError: Another trainer has the lock; the message names its process.
            WriteError: The folder cannot be written.
        """
        with ExitStack() as stack:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locks.exclusive(self.lock_file))
            except locks.LockHeld as owner:
                raise RunError(
                    f"Another trainer (process {owner}) is working in OUTPUT_DIR={self.folder}. "
                    "Wait for it or stop it, or set OUTPUT_DIR to another folder."
                ) from None
            except OSError as error:
                raise WriteError(
                    f"OUTPUT_DIR={self.folder} cannot be written ({error.strerror}). Make it "
                    "writable for this user, or set OUTPUT_DIR to another folder."
                ) from error
            left = [*remove_stale(self.folder), *remove_stale(self.checkpoints),
                    *remove_stale(self.samples)]  # fmt: skip
            # `train sample` writes there without the lock, possibly now.
            left += remove_stale(self.samples_on_demand, older_than_seconds=STALE_SECONDS)
            for path in left:
                log.info("Removed %s, left by a run that was killed while writing.", path.name)
            yield

    def is_locked(self) -> bool | None:
        """Whether a trainer works in this folder, in any container of this machine; None if the
        file system has no locks. Only reads."""
        return locks.held(self.lock_file)

    def checkpoint_path(self, epoch: int) -> Path:
        return self.checkpoints / f"checkpoint_epoch_{epoch}.pt"

    def state_path(self, epoch: int) -> Path:
        return self.checkpoints / f"trainer_state_epoch_{epoch}.pt"

    def manifest_path(self, epoch: int) -> Path:
        return self.checkpoints / f"checkpoint_epoch_{epoch}.json"

    def adapter_path(self, epoch: int) -> Path:
        return self.checkpoints / f"adapter_epoch_{epoch}.safetensors"

    def decoder_path(self, epoch: int) -> Path:
        return self.checkpoints / f"decoder_epoch_{epoch}.safetensors"

    def epochs(self) -> list[int]:
        """Every epoch with a checkpoint or a manifest, in numeric order, verified or not."""
        return self._numbers(_EPOCH_FILE)

    def state_epochs(self) -> list[int]:
        """Every epoch with a trainer state on disk, in numeric order."""
        return self._numbers(_STATE_FILE)

    def verify(self, epoch: int, *, fresh: bool = False) -> str | None:
        """What is wrong with the files of an epoch, as a sentence; None if they are complete.

        fresh: read the files again even if this process has verified them before.
        """
        result = self._look(epoch, fresh)
        return result if isinstance(result, str) else None

    def absent(self, epoch: int) -> str | None:
        """Why an epoch has no file: pruned, never saved, not reached; None if it has one."""
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
        return f"{self.folder} has no epoch {epoch}; its newest is {newest or 'none'}."

    def verified(self, epoch: int, *, fresh: bool = False) -> Verified | None:
        """The epoch, if its files are complete; else None."""
        result = self._look(epoch, fresh)
        return None if isinstance(result, str) else result

    def newest_verified(self, *, quarantine: bool = False, fresh: bool = False) -> Verified | None:
        """The newest epoch whose files are complete; logs newer ones that are not.

        quarantine: also renames damaged files to `<name>.corrupt`; needs the lock. Files without a
        manifest stay, because a save that was killed is no damage.
        """
        for epoch in reversed(self.epochs()):
            result = self._look(epoch, fresh)
            if isinstance(result, Verified):
                return result
            if self.unfinished(epoch):
                log.warning(
                    "%s has no manifest: the run was killed before it was saved to the end (or %s "
                    "was deleted). It is not used; the same epoch, trained again, replaces it.",
                    self.checkpoint_path(epoch), self.manifest_path(epoch).name,
                )  # fmt: skip
            elif quarantine:
                self.set_aside(epoch, result)
            else:
                log.warning("Epoch %d is not used: %s", epoch, result)
        return None

    def evaluation(self) -> Evaluation | None:
        """The evaluation of base, epochs and blends; None if nothing was judged."""
        return read_evaluation(self.evaluation_file)

    def verdict(self) -> Verdict | None:
        """Which candidate is best, by evaluation.json, or by best.json if that is missing or
        damaged. None if nothing was judged."""
        evaluation = self.evaluation()
        if evaluation is not None:
            return evaluation.verdict
        return verdict_of_best(self.read_best())

    def best_weights(self) -> BestWeights | None:
        """The weights that the verdict names, if their file is complete; otherwise the best
        alternative, which `fallback` explains. None without any complete weights.

        Decides by evaluation.json and the manifests, because best.json may be outdated after a
        kill.
        """
        verdict = self.verdict()
        if verdict is None:
            return self._unjudged()
        if verdict.kind == "base":
            return BestWeights("base", 0, 0.0, None, "", verdict.reason)
        fault = self.fault_of_best(verdict)
        if not fault and verdict.kind == "blend" and (blend := self.whole_blend()):
            return _best_weights(blend, verdict.reason)
        epoch = self.verified(verdict.epoch)
        same = epoch is not None and epoch.sha256 == verdict.checkpoint_sha256
        best = _best_weights(epoch, verdict.reason) if epoch and same else self._unjudged()
        if not fault or best is None or best.weights is None:
            return best
        if verdict.kind == "blend" and self.is_locked():
            note = f"The best, epoch {verdict.epoch} at {verdict.share:.0%}, is written when the "
            note += f"run ends, which is still at work. {best.weights.name} is used until then."
            return replace(best, fallback=note)
        note = f"{fault} {best.weights.name} is used instead."
        advice = f"`{commands.program('train evaluate')}` repairs what it can."
        return replace(best, fallback=f"{note} {advice}")

    def fault_of_best(self, verdict: Verdict) -> str | None:
        """What is wrong with the file that a verdict names, as a sentence; None if it is
        complete."""
        if verdict.kind == "base":
            return None
        if verdict.kind == "epoch":
            epoch = self._look(verdict.epoch, fresh=False)
            if isinstance(epoch, str) or epoch.sha256 == verdict.checkpoint_sha256:
                return epoch if isinstance(epoch, str) else None
            return f"{epoch.checkpoint} holds other weights than those that were evaluated."
        try:
            manifest = read_manifest(self.best_blend_manifest)
        except ManifestError as error:
            return str(error)
        if manifest.blend != verdict.weights:
            return f"{self.best_blend} is not the blend that was judged the best."
        return fault_of(manifest, self.checkpoints)

    def whole_blend(self) -> Verified | None:
        """best.pt if it is complete, else None; `manifest.blend` says of what it is a blend."""
        with contextlib.suppress(ManifestError, KeyError):
            manifest = read_manifest(self.best_blend_manifest)
            if manifest.blend and not fault_of(manifest, self.checkpoints):
                return _verified(manifest, self.best_blend)
        return None

    def newest_whole(self) -> Verified | None:
        """The newest complete epoch, or best.pt if there is none."""
        return self.newest_verified() or self.whole_blend()

    def made_from(self) -> Manifest | None:
        """The newest readable manifest, whether or not its files are complete: it names base and
        fingerprint of the run. None if nothing was saved."""
        epochs = map(self.manifest_path, reversed(self.epochs()))
        for path in (*epochs, self.interrupted_manifest, self.best_blend_manifest):
            with contextlib.suppress(ManifestError):
                return read_manifest(path)
        return None

    def _unjudged(self) -> BestWeights | None:
        """The complete epoch with the lowest validation loss; without validation, the newest;
        without an epoch, best.pt."""
        for find, reason in (
            (self.lowest_loss, "the lowest validation loss; there is no evaluation"),
            (self.newest_verified, "the newest epoch; nothing was validated or evaluated"),
            (self.whole_blend, "the only complete weights; there is no evaluation"),
        ):
            if newest := find():
                return _best_weights(newest, reason)
        return None

    def lowest_loss(self) -> Verified | None:
        """The complete epoch with the lowest validation audio loss in its manifest."""
        for _, epoch in sorted(self.losses()):
            if verified := self.verified(epoch):
                return verified
        return None

    def read_best(self) -> dict[str, Any]:
        """The content of best.json; {} if it is missing or damaged."""
        return read_json(self.best_file)

    def losses(self) -> list[tuple[float, int]]:
        """(validation audio loss, epoch) of every epoch with a readable manifest."""
        rows = []
        for epoch in self.epochs():
            with contextlib.suppress(ManifestError):
                loss = read_manifest(self.manifest_path(epoch)).losses.get("validation_audio_loss")
                if loss is not None and math.isfinite(loss):
                    rows.append((loss, epoch))
        return rows

    def unfinished(self, epoch: int) -> bool:
        """Whether a checkpoint exists without its manifest, which is written last."""
        return self.checkpoint_path(epoch).exists() and not self.manifest_path(epoch).exists()

    def set_aside(self, epoch: int, reason: str) -> None:
        """Renames an epoch's files to `<name>.corrupt`, so that nothing loads them."""
        paths = (
            self.manifest_path(epoch), self.checkpoint_path(epoch), self.state_path(epoch),
            self.adapter_path(epoch),
        )  # fmt: skip
        set_aside(paths, reason)

    def _numbers(self, pattern: re.Pattern[str]) -> list[int]:
        try:
            names = os.listdir(self.checkpoints)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted({int(match[1]) for name in names if (match := pattern.match(name))})

    def _look(self, epoch: int, fresh: bool) -> Verified | str:
        if absent := self.absent(epoch):
            return absent
        try:
            manifest = read_manifest(self.manifest_path(epoch))
        except ManifestError as error:
            return str(error)
        checkpoint, state = self.checkpoint_path(epoch), self.state_path(epoch)
        if manifest.epoch != epoch or checkpoint.name not in manifest.files:
            return f"{self.manifest_path(epoch)} is the manifest of another epoch."
        if fault := fault_of(manifest, self.checkpoints, fresh=fresh):
            return fault
        return _verified(manifest, checkpoint, state if state.name in manifest.files else None)


def _verified(manifest: Manifest, checkpoint: Path, state: Path | None = None) -> Verified:
    sha256 = manifest.files[checkpoint.name].sha256
    return Verified(manifest.epoch, manifest.step, checkpoint, sha256, state, manifest)


def _best_weights(verified: Verified, reason: str) -> BestWeights:
    kind: CandidateKind = "blend" if verified.manifest.blend else "epoch"
    share = float(verified.manifest.blend.get("share", 1.0))
    return BestWeights(kind, verified.epoch, share, verified.checkpoint, verified.sha256, reason)


def epoch_of(checkpoint: Path) -> int | None:
    """The epoch whose checkpoint a file is, by its name; None for another file."""
    match = _EPOCH_FILE.match(checkpoint.name)
    return int(match[1]) if match else None


def manifest_beside(checkpoint: Path) -> Path:
    """The path of a checkpoint's manifest. That of best.pt is not best.json, which names the best
    weights."""
    suffix = ".manifest.json" if checkpoint.name == "best.pt" else ".json"
    return checkpoint.with_suffix(suffix)


def set_aside(paths: Iterable[Path], reason: str) -> None:
    """Renames the existing ones of `paths` to `<name>.corrupt` and logs the reason."""
    moved = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, path.with_name(path.name + ".corrupt"))
            moved.append(path.name + ".corrupt")
    log.warning("%s Set aside as %s.", reason, ", ".join(moved) or "nothing")


def reference_beside(checkpoint: Path) -> Path | None:
    """The reference recording of an epoch's sample or, if it has none, the newest of its run."""
    match = _EPOCH_FILE.match(checkpoint.name)
    run = RunFolder(checkpoint.parent.parent)
    if match is None and checkpoint != run.best_blend:
        return None
    path = run.samples / (f"epoch_{match[1]}_reference.wav" if match else "best_reference.wav")
    return path if path.is_file() else newest_reference(run)


def newest_reference(run: RunFolder) -> Path | None:
    """The reference recording of the newest sample of a run."""
    best = run.samples / "best_reference.wav"
    if best.is_file():
        return best
    for folder in (run.samples, run.samples_on_demand):
        others = sorted(folder.glob("epoch_*_reference.wav"), key=lambda one: one.stat().st_mtime)
        if others:
            return others[-1]
    return None


def read_checkpoint(path: Path) -> Checkpoint:
    """Weights and provenance of a `checkpoint_epoch_N.pt` or `interrupted.pt`.

    Verifies it against its manifest before anything is unpickled; without one (a file that was
    copied from its run), against the checksums inside the file. Raises RunError.
    """
    content = load_verified(path)
    try:
        return Checkpoint(model=content["model"], provenance=content["provenance"])
    except KeyError as error:
        raise RunError(
            f"{path} is not a checkpoint of Sotaque: it has no {error.args[0]!r}. "
            "Name a checkpoint_epoch_N.pt out of OUTPUT_DIR/checkpoints."
        ) from None


def normalizer_of(provenance: Mapping[str, Any]) -> str:
    """The normaliser of the texts that a checkpoint learned from; Coqui's if it names none, because
    there was no other at the time."""
    return str(provenance.get("normalizer", COQUI))


def load_verified(path: Path, *, manifest: Path | None = None, mmap: bool = True) -> dict[str, Any]:
    """The dictionary in a file that `torch.save` wrote, after verifying it. Raises RunError.

    manifest: its path, if it is not beside the file under the same name.
    """
    if not path.is_file():
        raise RunError(_missing(path))
    if fault := _fault_before_loading(path, manifest or manifest_beside(path)):
        raise RunError(fault)
    import torch  # here, because listing runs, as the API does, needs no torch

    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:
        raise RunError(f"{path} cannot be read as a checkpoint ({load_error(error)}).") from error
    if not isinstance(content, dict):
        raise RunError(f"{path} is not a checkpoint: it holds a {type(content).__name__}.")
    return content


def _missing(path: Path) -> str:
    sentence = f"{path} does not exist."
    run, match = RunFolder(path.parent.parent), _EPOCH_FILE.match(path.name)
    if match and run.epochs() and (absent := run.absent(int(match[1]))):
        epochs = ", ".join(str(number) for number in run.epochs())
        return f"{sentence} {absent} There are the epochs {epochs}."
    return f"{sentence} Name an existing checkpoint file."


def _fault_before_loading(path: Path, beside: Path) -> str | None:
    if not beside.is_file():
        return zip_fault(path)
    try:
        manifest = read_manifest(beside)
    except ManifestError as error:
        return str(error)
    if path.name not in manifest.files:
        return f"{beside} does not name {path.name}; it belongs to another file."
    return fault_of(manifest, path.parent, only=path.name)
