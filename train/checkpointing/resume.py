"""Resumes: finds the newest verified checkpoint, checks the fingerprint, archives an old run.

RESUME=auto    resumes from the newest epoch or from a stop inside an epoch, whichever is further
RESUME=never   moves the whole old run to OUTPUT_DIR/archive/<UTC time>/ and starts over
RESUME=PATH    starts from a checkpoint file; given again, it resumes the run that started there
"""

import contextlib
import logging
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from torch import Tensor

from machine.errors import SotaqueError
from machine.storage.checksums import Unreadable, forget_hashes, sha256_of
from train.checkpointing.fingerprint import Fingerprint, Provenance, differences
from train.metrics import curves
from train.optim.trainable import TrainerState
from xtts.voices.run_folder import RunError, RunFolder, VerifiedCheckpoint, load_verified, read_checkpoint

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Resumed:
    """A state to resume from.

    Attributes:
        epoch: finished epochs.
        batch: finished batches of the next epoch.
        step: optimizer steps.
        trainer_state: None if only the weights are left.
    """

    epoch: int
    step: int
    batch: int
    model_state: dict[str, Tensor]
    trainer_state: TrainerState | None
    source: Path
    provenance: Provenance


def resume(
    run: RunFolder,
    setting: str,
    fingerprint: Fingerprint,
    *,
    learning_rate: float | None = None,
    runs_dir: Path | None = None,
) -> Resumed | None:
    """The state to resume from, or None to start from the base. The caller holds the lock.

    Raises SotaqueError for a run of another base or other data; nothing is changed then.
    """
    if setting == "never":
        archive(run, runs_dir)
        return None
    current = _furthest_state(run)
    if setting == "auto" or (current and _has_started_from(current, Path(setting))):
        require_same_fingerprint(run, fingerprint)
        resumed = current
    else:
        resumed = _start_from_file(run, Path(setting), current, fingerprint)
    if resumed:
        _log_changes(resumed, learning_rate)
    return resumed


def trainer_state_of(resumed: Resumed | None) -> TrainerState:
    """The trainer state that a run resumes from; empty if there is none."""
    return (resumed.trainer_state if resumed else None) or TrainerState()


def require_same_fingerprint(run: RunFolder, now: Fingerprint) -> None:
    """Checks the fingerprint for every verb that writes into a run.

    Raises SotaqueError with the differences if the base or the data changed; nothing is written.
    """
    saved = run.newest_manifest()
    if saved is None:
        return
    recorded = {"fingerprint": saved.fingerprint, "base": saved.base, "data": saved.data}
    if different := differences(cast("Provenance", recorded), now):
        raise SotaqueError(
            f"The run in OUTPUT_DIR={run.folder} does not match this start: "
            f"{'; '.join(different.values())}. Undo the change, or set OUTPUT_DIR to another "
            "folder. Or start over with RESUME=never, which moves the whole old run to "
            "OUTPUT_DIR/archive."
        )


def archive(run: RunFolder, runs_dir: Path | None) -> Path | None:
    """Moves the run, with its TensorBoard events, to archive/<UTC time>/; None if there is no run.

    The checkpoints go first, in one rename, so that a kill in between leaves no half of a run to
    resume. Raises SotaqueError if something cannot be moved.
    """
    paths = (run.checkpoints, run.samples, run.metrics, run.evaluation_file, run.speakers)
    paths_on_disk = [path for path in paths if path.exists()]
    if not paths_on_disk:
        return None
    target = run.archive / datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    while target.exists():
        target = target.with_name(target.name + "+")
    try:
        target.mkdir(parents=True)
        for path in paths_on_disk:
            path.replace(target / path.name)
        _move_events(run, runs_dir, target / "runs")
    except OSError as error:
        raise SotaqueError(
            f"RESUME=never: the old run could not be moved to {target} ({error}). "
            "Move it yourself, or set OUTPUT_DIR to another folder."
        ) from error
    log.info("RESUME=never: the old run is now in %s.", target)
    return target


def _move_events(run: RunFolder, runs_dir: Path | None, target: Path) -> None:
    """Moves this run's events; RUNS_DIR may be on another disk and also holds other runs."""
    folder = curves.find(run, runs_dir) if runs_dir else None
    for path in sorted(folder.rglob(curves.EVENTS)) if folder else []:
        destination = target / path.relative_to(folder or path.parent)
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, destination)


def _furthest_state(run: RunFolder) -> Resumed | None:
    epoch = _newest_verified_epoch(run)
    interrupted = _interrupted_state(run)
    if interrupted and (not epoch or (interrupted.epoch, interrupted.step) > (epoch.epoch, epoch.step)):
        return interrupted
    if epoch is None:
        return None
    return _read(epoch.checkpoint, _trainer_state(run, epoch.epoch) if epoch.state else None)


def _newest_verified_epoch(run: RunFolder) -> VerifiedCheckpoint | None:
    """As `RunFolder.newest_verified`, after reading all files again. Sets damaged ones aside.

    Raises RunError for files that may be intact; nothing is changed then.
    """
    forget_hashes()
    for epoch in reversed(run.epochs()):
        result = run.verify(epoch)
        if isinstance(result, VerifiedCheckpoint):
            return result
        _refuse_unreadable(result)
        manifest, checkpoint = run.manifest_path(epoch), run.checkpoint_path(epoch)
        if run.is_unfinished(epoch):
            log.warning(
                "%s lacks a manifest, because the run was killed while saving it (or %s was "
                "deleted). It is not used, and is replaced when the epoch is trained again.",
                checkpoint,
                manifest.name,
            )
        else:
            files = (manifest, checkpoint, run.state_path(epoch), run.adapter_path(epoch))
            _set_aside(files, result)
    return None


def _refuse_unreadable(fault: str) -> None:
    """Raises RunError if the files with this fault may be intact."""
    if isinstance(fault, Unreadable):
        raise RunError(
            f"{fault} No file was changed. Start again when it can be read, set OUTPUT_DIR to another "
            "folder, or start over with RESUME=never, which moves the whole run to OUTPUT_DIR/archive."
        )


def _set_aside(paths: Iterable[Path], reason: str) -> None:
    """Renames those of `paths` that exist to `<name>.corrupt`, so that they are not loaded, and
    logs the reason."""
    moved = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, path.with_name(path.name + ".corrupt"))
            moved.append(path.name + ".corrupt")
    log.warning("%s Set aside as %s.", reason, ", ".join(moved) or "nothing")


def _read(path: Path, trainer_state: TrainerState | None = None) -> Resumed:
    """The state in an epoch's checkpoint, or in that of a stop, which includes the trainer state."""
    content = load_verified(path)
    provenance, is_interrupted = content["provenance"], "trainer" in content
    if is_interrupted:
        # Not memory-mapped: the optimizer writes into its state, and this file will be removed.
        trainer_state = load_verified(path, mmap=False)["trainer"]
    return Resumed(
        epoch=provenance["epoch"] - is_interrupted,
        step=provenance["step"],
        batch=provenance["batch"] if is_interrupted else 0,
        model_state=content["model"],
        trainer_state=trainer_state,
        source=path,
        provenance=provenance,
    )


def _interrupted_state(run: RunFolder) -> Resumed | None:
    """The state of a stop inside an epoch, if there is one. Sets a damaged one aside."""
    if run.interrupted_manifest.exists():
        try:
            return _read(run.interrupted)
        except RunError as error:
            _refuse_unreadable(error.args[0])
            _set_aside((run.interrupted_manifest, run.interrupted), str(error))
    elif run.interrupted.exists():
        log.warning(
            "%s lacks a manifest: the run was killed while saving it (or %s was "
            "deleted). It is not used; saving the next epoch removes it.",
            run.interrupted,
            run.interrupted_manifest.name,
        )
    return None


def _start_from_file(run: RunFolder, path: Path, current: Resumed | None, now: Fingerprint) -> Resumed:
    """The first start with RESUME=PATH."""
    if current and current.source.resolve() != path.resolve():
        raise SotaqueError(
            f"RESUME={path}, but OUTPUT_DIR={run.folder} already holds a run at epoch "
            f"{current.epoch}, step {current.step}. Set OUTPUT_DIR to another folder, or leave "
            "RESUME=auto to resume that run."
        )
    resumed = _require_same_model(_load(path), path, now)
    origin = {"name": path.name, "sha256": sha256_of(path)}
    return replace(resumed, provenance={**resumed.provenance, "started_from": origin})


def _has_started_from(current: Resumed, path: Path) -> bool:
    """Whether the run began with RESUME=`path`. A later start with the same setting resumes it."""
    origin = current.provenance.get("started_from") or {}
    if not path.is_file():  # pruned or moved since
        return origin.get("name") == path.name
    return bool(origin) and origin.get("sha256") == sha256_of(path)


def _load(path: Path) -> Resumed:
    epoch, folder = read_checkpoint(path).provenance["epoch"], RunFolder(path.parent.parent)
    has_state = folder.checkpoint_path(epoch) == path and folder.state_path(epoch).is_file()
    return _read(path, _trainer_state(folder, epoch) if has_state else None)


def _require_same_model(resumed: Resumed, path: Path, now: Fingerprint) -> Resumed:
    """Accepts a checkpoint of other data, which RESUME=PATH is for; refuses another model."""
    different = differences(resumed.provenance, now)
    if different.keys() - {"data_sha256"}:
        raise SotaqueError(
            f"RESUME={path} belongs to another model: {'; '.join(different.values())}. "
            "Set BASE_MODEL to its base model, or RESUME=auto to start without it."
        )
    if not different:
        return resumed
    log.info("%s was trained on other data. The run starts from its weights at epoch 1.", path)
    return replace(resumed, epoch=0, step=0, batch=0, trainer_state=None)


def _trainer_state(run: RunFolder, epoch: int) -> TrainerState:
    path = run.state_path(epoch)
    content = load_verified(path, manifest=run.manifest_path(epoch), mmap=False)
    state: TrainerState = content["trainer"]
    return state


def _log_changes(resumed: Resumed, learning_rate: float | None) -> None:
    if resumed.trainer_state is None and resumed.epoch:
        log.info("%s has no optimizer state: the optimizer starts over.", resumed.source.name)
    old = resumed.provenance.get("learning_rate")
    if None not in (old, learning_rate) and old != learning_rate:
        log.info("LEARNING_RATE changes from %g to %g.", old, learning_rate)
