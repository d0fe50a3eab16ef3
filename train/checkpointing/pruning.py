"""Decides which old checkpoints to delete; never the newest verified one or the best.

Called by `train.checkpointing.checkpoints` after every save. A failure to remove never stops a
run.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from machine.storage.atomic import WriteError, crash_point, sync_folder
from machine.storage.checksums import ManifestError, read_manifest, write_manifest
from xtts.voices.run_folder import RunFolder, manifest_beside

log = logging.getLogger(__name__)

# With two, a damaged newest epoch still leaves one to go on from exactly.
KEPT_TRAINER_STATES = 2
# Damaged epochs are kept to find out why; so many, since each takes gigabytes.
KEPT_CORRUPT_FILES = 3


def prune(run: RunFolder, keep: int | None) -> None:
    """Removes epochs and trainer states beyond what is kept; keep = None keeps every epoch.

    A pruned epoch keeps its sample. Failures are logged only.
    """
    verified: list[int] = []
    for epoch in reversed(run.epochs()):
        if len(verified) < KEPT_TRAINER_STATES and run.verify(epoch) is None:
            verified.append(epoch)
    best = best_epoch(run)
    for epoch in to_prune(run.epochs(), verified[:1], best, keep):
        # The manifest first: none may name files that are gone.
        decoder = run.decoder_path(epoch)
        remove(
            run,
            (run.manifest_path(epoch), run.checkpoint_path(epoch), run.state_path(epoch),
             run.adapter_path(epoch), manifest_beside(decoder), decoder),
        )  # fmt: skip
    for epoch in run.state_epochs():
        if verified and epoch < min(verified):
            _drop_state(run, epoch)


def best_epoch(run: RunFolder) -> int | None:
    """The epoch that the verdict is about, be it blended; where there is none, or the
    base is the best, the one with the lowest validation loss."""
    verdict = run.verdict()
    if verdict and verdict.kind != "base":
        return verdict.epoch
    return min(run.losses(), default=(0.0, None))[1]


def to_prune(
    epochs: list[int], newest_verified: list[int], best: int | None, keep: int | None
) -> list[int]:
    """The epochs that go: all but the newest `keep`, the newest verified one and the best."""
    if keep is None:
        return []
    kept = {*epochs[max(0, len(epochs) - keep) :], *newest_verified, best}
    return [epoch for epoch in epochs if epoch not in kept]


def drop_corrupt(run: RunFolder) -> None:
    """Removes what was set aside as `<name>.corrupt`, but for the newest files."""
    corrupt = [path for path in run.checkpoints.glob("*.corrupt") if path.is_file()]
    oldest_first = sorted(corrupt, key=lambda path: path.stat().st_mtime_ns)
    remove(run, oldest_first[:-KEPT_CORRUPT_FILES])


def remove(run: RunFolder, paths: Iterable[Path]) -> None:
    """Removes files of `run.checkpoints` in this order, up to the first that will not go."""
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
    """First the manifest forgets it: a kill in between leaves a file that no manifest names."""
    state, path = run.state_path(epoch), run.manifest_path(epoch)
    try:
        manifest = read_manifest(path)
        kept = {name: file for name, file in manifest.files.items() if name != state.name}
        if kept != manifest.files:
            write_manifest(path, replace(manifest, files=kept))
    except (ManifestError, WriteError) as error:
        if path.exists():
            log.warning("The trainer state of epoch %d could not be deleted: %s", epoch, error)
            return
    remove(run, [state])
