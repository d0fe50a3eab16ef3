"""Reads runs, epochs, samples, losses and evaluations from the run folders.

It writes nothing. Ids are looked up among the runs that `read_runs` returned, so a caller's input never
becomes part of a path. Ids of candidates are `base`, `base_decoder` (the base with a decoder that
learned the clips), `epoch_3` and `epoch_3_share_0.5` (a blend of epoch 3 and the base).
"""

import contextlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from api.schemas import RunKind
from machine.storage.checksums import FileStamp, Manifest, ManifestError, read_manifest, stamp_of
from machine.storage.files import JsonObject, read_json
from xtts.voices import learned_decoder
from xtts.voices.evaluation_file import Candidate, Evaluation, read_evaluation
from xtts.voices.learned_decoder import LearnedDecoder
from xtts.voices.run_folder import RunFolder, reference_beside

CURRENT = "current"
# On a file system without locks, a run has ended if its log is older than this.
_MAX_LOG_AGE_SECONDS = 30.0
# The limits of one answer with rows of metrics.jsonl.
_MAX_METRICS_ROWS = 5_000
_MAX_METRICS_BYTES = 8 << 20
_MAX_CACHED_EVALUATIONS = 256

_SAMPLE_FILE = re.compile(r"epoch_([0-9]+)_output\.json")
# The state of a checkpoint on disk: complete; deleted to save space; still being written (its
# manifest is missing); or different from what was saved.
CheckpointState = Literal["whole", "pruned", "unfinished", "damaged"]


@dataclass(frozen=True)
class EpochSummary:
    """The files of one epoch.

    Attributes:
        manifest: None if it is missing or damaged.
        checkpoint: None if its size does not match its manifest; `state` says why.
        sample: The JSON of the sample's sidecar; None without one.
        output, reference: The sample, and the reference recording that it was spoken with.
        decoder: The digest of the decoder that was learned for these weights; "" without one.
    """

    number: int
    manifest: Manifest | None
    checkpoint: Path | None
    sample: JsonObject | None
    output: Path | None
    reference: Path | None
    state: CheckpointState = "whole"
    decoder: str = ""

    @property
    def sha256(self) -> str:
        """The checkpoint's SHA-256, as its manifest states it; "" without one."""
        if self.manifest is None or self.checkpoint is None:
            return ""
        written = self.manifest.files.get(self.checkpoint.name)
        return written.sha256 if written else ""

    @property
    def sampled_sha256(self) -> str:
        """The SHA-256 of the checkpoint that spoke the sample; still known after pruning."""
        return str((self.sample or {}).get("checkpoint_sha256") or "")


@dataclass(frozen=True)
class RunSummary:
    """A run.

    Attributes:
        kind: As in `RunRow`.
        epochs: The epochs by number, in ascending order.
        metrics_bytes: The size of metrics.jsonl.
        evaluation: None if nothing was judged.
        learned_decoder: The content of best_decoder.json.
        blend_manifest: The manifest of best.pt; None if that has another size.
        recording: The recording of the person.
    """

    id: str
    kind: RunKind
    folder: RunFolder
    created: float
    epochs: Mapping[int, EpochSummary]
    is_training: bool
    metrics_bytes: int
    evaluation: Evaluation | None = None
    learned_decoder: LearnedDecoder | None = None
    blend_manifest: Manifest | None = None
    recording: Path | None = None

    @property
    def best_epoch(self) -> int | None:
        """The epoch that the verdict names; None if it names the base or a blend. Without a
        verdict, the epoch with the lowest validation audio loss among those with a checkpoint."""
        if self.evaluation and (verdict := self.evaluation.verdict):
            return verdict.epoch if verdict.kind == "epoch" else None
        return lowest_loss_epoch(epoch for epoch in self.epochs.values() if epoch.checkpoint)

    @property
    def minutes(self) -> float | None:
        """The length of all training clips, from the newest manifest; None if that has none."""
        manifests = [epoch.manifest for epoch in self.epochs.values() if epoch.manifest]
        return manifests[-1].data.get("minutes") if manifests else None


def read_runs(output_dir: Path) -> dict[str, RunSummary]:
    """Every run under `output_dir` that has an epoch or a curve: the current one, those of the
    training queue, and the archive. If two have the same name, the first counts."""
    runs: dict[str, RunSummary] = {}
    folders: list[tuple[str, RunKind, Path]] = [(CURRENT, "current", output_dir)]
    folders += [(path.name, "named", path) for path in _subfolders(output_dir / "runs")]
    archived = reversed(_subfolders(output_dir / "archive"))
    folders += [(path.name, "archived", path) for path in archived]
    for name, kind, path in folders:
        run = _read_run(name, kind, RunFolder(path))
        if run.epochs or run.folder.metrics.is_file() or name == CURRENT:
            runs.setdefault(name, run)
    return runs


def _subfolders(parent: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(path for path in parent.iterdir() if path.name[0] != "." and path.is_dir())
    return []


@lru_cache(_MAX_CACHED_EVALUATIONS)
def _read_evaluation_of(stamp: FileStamp) -> Evaluation | None:
    return read_evaluation(Path(stamp.path))


def _read_evaluation(folder: RunFolder) -> Evaluation | None:
    """A run's evaluation, read again only when its file has changed: the runs are polled every two
    seconds, and a damaged file is to be logged only once."""
    try:
        return _read_evaluation_of(stamp_of(folder.evaluation_file))
    except OSError:
        return None


def _read_run(name: str, kind: RunKind, folder: RunFolder) -> RunSummary:
    numbers = set(folder.epochs())
    with contextlib.suppress(OSError):  # a pruned epoch keeps its sample
        matches = map(_SAMPLE_FILE.fullmatch, os.listdir(folder.samples))
        numbers.update(int(match[1]) for match in matches if match)
    epochs = {number: _read_epoch(folder, number) for number in sorted(numbers)}
    # Archived runs are never trained.
    is_training = kind != "archived" and has_trainer(folder)
    return RunSummary(
        id=name,
        kind=kind,
        folder=folder,
        created=_creation_time(folder),
        epochs=epochs,
        is_training=is_training,
        metrics_bytes=_num_bytes(folder.metrics),
        evaluation=_read_evaluation(folder),
        learned_decoder=learned_decoder.unverified_record(folder.best_decoder),
        blend_manifest=_read_blend_manifest(folder),
        recording=reference_beside(folder.best_blend),
    )


def _read_blend_manifest(folder: RunFolder) -> Manifest | None:
    with contextlib.suppress(ManifestError, OSError, KeyError):
        manifest, path = read_manifest(folder.best_blend_manifest), folder.best_blend
        if manifest.files[path.name].bytes == path.stat().st_size:
            return manifest
    return None


def _read_epoch(folder: RunFolder, number: int) -> EpochSummary:
    manifest = None
    with contextlib.suppress(ManifestError):
        manifest = read_manifest(folder.manifest_path(number))
    sample = read_json(folder.samples / f"epoch_{number}_output.json") or None
    checkpoint = folder.checkpoint_path(number)
    state = _checkpoint_state(checkpoint, folder.manifest_path(number), manifest)
    output, reference = (
        path if (path := folder.samples / f"epoch_{number}_{kind}.wav").is_file() else None
        for kind in ("output", "reference")
    )
    intact_checkpoint = checkpoint if state == "whole" else None
    decoder = learned_decoder.digest_beside(intact_checkpoint) if intact_checkpoint else ""
    return EpochSummary(number, manifest, intact_checkpoint, sample, output, reference, state, decoder)


def _checkpoint_state(checkpoint: Path, manifest_path: Path, manifest: Manifest | None) -> CheckpointState:
    """Judges by name and size; the content is verified later, one checkpoint at a time."""
    try:
        size = checkpoint.stat().st_size
    except OSError:
        # The trainer renames damaged checkpoints, and deletes those that it prunes.
        renamed = checkpoint.with_name(f"{checkpoint.name}.corrupt")
        return "damaged" if renamed.is_file() else "pruned"
    if manifest is None and not manifest_path.exists():
        return "unfinished"
    written = manifest.files.get(checkpoint.name) if manifest else None
    return "whole" if written and written.bytes == size else "damaged"


def losses_of(epoch: EpochSummary) -> Mapping[str, float | None]:
    """The losses in the epoch's manifest."""
    return epoch.manifest.losses if epoch.manifest else {}


def lowest_loss_epoch(epochs: Iterable[EpochSummary]) -> int | None:
    """The number of the epoch with the lowest validation audio loss; None if none has one."""
    losses = [
        (loss, epoch.number)
        for epoch in epochs
        if (loss := losses_of(epoch).get("validation_audio_loss")) is not None
    ]
    return min(losses)[1] if losses else None


def has_trainer(folder: RunFolder) -> bool:
    """Whether a trainer is running: it holds the lock or, without locks, has written recently."""
    is_locked = folder.is_locked()
    if is_locked is not None:
        return is_locked
    with contextlib.suppress(OSError):
        return time.time() - folder.metrics.stat().st_mtime < _MAX_LOG_AGE_SECONDS
    return False


def read_metrics(path: Path, since: int) -> tuple[list[JsonObject], int]:
    """The rows of a metrics.jsonl from byte `since`, and the byte to continue from.

    A file that has become shorter (the run resumed from an earlier step) is read from its start.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = since if since <= size else 0
            file.seek(start)
            data = file.read(_MAX_METRICS_BYTES)
    except OSError:
        return [], 0
    rows: list[JsonObject] = []
    end = start
    for line in data.splitlines(keepends=True):
        if not line.endswith(b"\n") or len(rows) >= _MAX_METRICS_ROWS:
            break
        end += len(line)
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            if isinstance(row, dict):
                rows.append(row)
    return rows, end


def _creation_time(folder: RunFolder) -> float:
    for path in (folder.metrics, folder.checkpoints, folder.folder):
        with contextlib.suppress(OSError):
            return path.stat().st_mtime
    return 0.0


def _num_bytes(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def find_candidate(run: RunSummary, candidate_id: str) -> Candidate | None:
    """The judged candidate with this id."""
    return run.evaluation.with_id(candidate_id) if run.evaluation else None


def is_current(run: RunSummary, candidate: Candidate) -> bool:
    """Whether the judged weights are still those of the run: they change if an epoch is trained
    again. For a pruned epoch, the hash of the checkpoint that spoke its sample decides."""
    epoch = run.epochs.get(candidate.epoch)
    if candidate.kind == "base" or epoch is None:
        return True
    hashes = {sha256 for sha256 in (epoch.sha256, epoch.sampled_sha256) if sha256}
    return not hashes or candidate.checkpoint_sha256 in hashes


def sentence_sound(run: RunSummary, candidate: Candidate, number: int) -> Path | None:
    """The WAV file of a sentence. evaluation.json may have been edited or copied from elsewhere, so
    only WAV files inside the run folder are served."""
    if not 0 <= number < len(candidate.sentences):
        return None
    wav = candidate.sentences[number].wav
    if wav is None or "\0" in wav:
        return None
    try:
        folder = run.folder.folder.resolve()
        path = (folder / wav).resolve()
        is_inside = path.is_relative_to(folder) and path.suffix == ".wav" and path.is_file()
    except (OSError, RuntimeError):  # a name that is too long, a loop of links
        return None
    return path if is_inside else None
