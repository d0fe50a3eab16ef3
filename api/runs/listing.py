"""Lists runs, epochs, samples, losses and evaluations from the run folder.

It only reads. Ids are looked up among the runs that `scan` returned, so a caller's input never
becomes part of a path. Ids of candidates are `base`, `base_decoder` (the base with a decoder that
learned the clips), `epoch_3` and `epoch_3_share_0.5` (a blend of epoch 3 and the base).
"""

import contextlib
import json
import os
import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from api.schemas import (
    CandidateRow,
    CandidateSentences,
    EpochRow,
    EvaluationRow,
    RunKind,
    RunRow,
    SaidSentence,
    Sample,
    Served,
    VerdictRow,
    WordTimestamp,
)
from machine.storage.checksums import FileStamp, Manifest, ManifestError, read_manifest, stamp_of
from machine.storage.files import JsonObject, read_json
from xtts.voices import learned_decoder
from xtts.voices.evaluation_file import Candidate, Evaluation, candidate_id, read_evaluation
from xtts.voices.learned_decoder import LearnedDecoder
from xtts.voices.run_folder import RunFolder, reference_beside

CURRENT = "current"
BASE = "base"
# On a file system without locks, a run whose log is older than this has ended.
_WRITING_SECONDS = 30.0
_MAX_RECORDS = 5_000
_MAX_BYTES = 8 << 20
_MAX_EVALUATIONS = 256

_SAMPLE = re.compile(r"epoch_([0-9]+)_output\.json")
# The state of a checkpoint on disk: complete; deleted to save space; still being written (its
# manifest is missing); or different from what was saved.
CheckpointState = Literal["whole", "pruned", "unfinished", "damaged"]


@dataclass(frozen=True)
class EpochSummary:
    """The files of one epoch. sample: its sidecar's JSON, None without one; checkpoint: None if its
    size does not match its manifest (`state` says why); decoder: the digest of the decoder that was
    learned for these weights, "" without one."""

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
    def sampled(self) -> str:
        """The SHA-256 of the checkpoint that spoke its sample; still known after pruning."""
        return str((self.sample or {}).get("checkpoint_sha256") or "")


@dataclass(frozen=True)
class RunSummary:
    """A run and its epochs by number. kind: as `RunRow`; evaluation: None if nothing was judged;
    learned: the content of best_decoder.json; blend: the manifest of best.pt, None if that has
    another size; recording: the person's; metrics_bytes: the size of its metrics.jsonl."""

    id: str
    kind: RunKind
    folder: RunFolder
    created: float
    epochs: Mapping[int, EpochSummary]
    training: bool
    metrics_bytes: int
    evaluation: Evaluation | None = None
    learned: LearnedDecoder | None = None
    blend: Manifest | None = None
    recording: Path | None = None

    @property
    def best(self) -> int | None:
        """The epoch that the verdict names; None if it names the base or a blend. Without a
        verdict, the epoch with the lowest validation audio loss among those with a checkpoint."""
        if self.evaluation and (verdict := self.evaluation.verdict):
            return verdict.epoch if verdict.kind == "epoch" else None
        return lowest_loss(epoch for epoch in self.epochs.values() if epoch.checkpoint)

    @property
    def minutes(self) -> float | None:
        """The length of its training clips, from the newest manifest; None if that has none."""
        manifests = [epoch.manifest for epoch in self.epochs.values() if epoch.manifest]
        return manifests[-1].data.get("minutes") if manifests else None


def scan(output_dir: Path) -> dict[str, RunSummary]:
    """Every run under `output_dir` that has an epoch or a curve: the current one, those of the
    training queue, and the archive. If two have the same name, the first counts."""
    runs: dict[str, RunSummary] = {}
    folders: list[tuple[str, RunKind, Path]] = [(CURRENT, "current", output_dir)]
    folders += [(path.name, "named", path) for path in _folders(output_dir / "runs")]
    archived = reversed(_folders(output_dir / "archive"))
    folders += [(path.name, "archived", path) for path in archived]
    for name, kind, path in folders:
        run = _run(name, kind, RunFolder(path))
        if run.epochs or run.folder.metrics.is_file() or name == CURRENT:
            runs.setdefault(name, run)
    return runs


def _folders(parent: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(path for path in parent.iterdir() if path.name[0] != "." and path.is_dir())
    return []


@lru_cache(_MAX_EVALUATIONS)
def _read(stamp: FileStamp) -> Evaluation | None:
    return read_evaluation(Path(stamp.path))


def _evaluation(folder: RunFolder) -> Evaluation | None:
    """A run's evaluation, read again only when its file has changed: the runs are polled every two
    seconds, and a damaged file should be logged once."""
    try:
        return _read(stamp_of(folder.evaluation_file))
    except OSError:
        return None


def _run(name: str, kind: RunKind, folder: RunFolder) -> RunSummary:
    numbers = set(folder.epochs())
    with contextlib.suppress(OSError):  # a pruned epoch keeps its sample
        named = map(_SAMPLE.fullmatch, os.listdir(folder.samples))
        numbers.update(int(match[1]) for match in named if match)
    learned = learned_decoder.unverified_record(folder.best_decoder)
    epochs = {number: _epoch(folder, number) for number in sorted(numbers)}
    # Archived runs are never trained.
    training = kind != "archived" and is_training(folder)
    return RunSummary(
        name,
        kind,
        folder,
        _creation_time(folder),
        epochs,
        training,
        _size(folder.metrics),
        _evaluation(folder),
        learned,
        _blend(folder),
        reference_beside(folder.best_blend),
    )


def _blend(folder: RunFolder) -> Manifest | None:
    with contextlib.suppress(ManifestError, OSError, KeyError):
        manifest, path = read_manifest(folder.best_blend_manifest), folder.best_blend
        if manifest.files[path.name].bytes == path.stat().st_size:
            return manifest
    return None


def _epoch(folder: RunFolder, number: int) -> EpochSummary:
    manifest = None
    with contextlib.suppress(ManifestError):
        manifest = read_manifest(folder.manifest_path(number))
    sample = read_json(folder.samples / f"epoch_{number}_output.json") or None
    checkpoint = folder.checkpoint_path(number)
    state = _state(checkpoint, folder.manifest_path(number), manifest)
    output, reference = (
        path if (path := folder.samples / f"epoch_{number}_{what}.wav").is_file() else None
        for what in ("output", "reference")
    )
    whole = checkpoint if state == "whole" else None
    decoder = learned_decoder.digest_beside(whole) if whole else ""
    return EpochSummary(number, manifest, whole, sample, output, reference, state, decoder)


def _state(checkpoint: Path, manifest_path: Path, manifest: Manifest | None) -> CheckpointState:
    """Judges by name and size; the content is verified later, one checkpoint at a time."""
    try:
        size = checkpoint.stat().st_size
    except OSError:
        # The trainer renames damaged checkpoints, and deletes those that it prunes.
        aside = checkpoint.with_name(f"{checkpoint.name}.corrupt")
        return "damaged" if aside.is_file() else "pruned"
    if manifest is None and not manifest_path.exists():
        return "unfinished"
    written = manifest.files.get(checkpoint.name) if manifest else None
    return "whole" if written and written.bytes == size else "damaged"


def losses_of(epoch: EpochSummary) -> Mapping[str, float | None]:
    """The losses in the epoch's manifest."""
    return epoch.manifest.losses if epoch.manifest else {}


def lowest_loss(epochs: Iterable[EpochSummary]) -> int | None:
    """The number of the epoch with the lowest validation audio loss; None if none has one."""
    losses = [
        (loss, epoch.number)
        for epoch in epochs
        if (loss := losses_of(epoch).get("validation_audio_loss")) is not None
    ]
    return min(losses)[1] if losses else None


def is_training(folder: RunFolder) -> bool:
    """Whether a trainer is running: it holds the lock or, without locks, has written recently."""
    locked = folder.is_locked()
    if locked is not None:
        return locked
    with contextlib.suppress(OSError):
        return time.time() - folder.metrics.stat().st_mtime < _WRITING_SECONDS
    return False


def row_of(
    run: RunSummary, *, served: Served | None, verified: Mapping[str, bool], speakable: Collection[str]
) -> RunRow:
    """One run as /v1/runs lists it. served: None if it belongs to another run; verified: SHA-256 ->
    whether the checkpoint has it; speakable: the ids of the candidates that can speak."""
    best, speaks = run.best, served.candidate if served else None
    rows = []
    for epoch in run.epochs.values():
        whole = verified.get(epoch.sha256)
        rows.append(
            EpochRow(
                epoch=epoch.number,
                step=epoch.manifest.step if epoch.manifest else None,
                checkpoint=epoch.checkpoint is not None,
                checkpoint_state="damaged" if whole is False else epoch.state,
                verified=whole,
                sample=_sample(run, epoch),
                validation_loss=losses_of(epoch).get("validation_audio_loss"),
                is_best=epoch.number == best,
                is_served=speaks == candidate_id("epoch", epoch.number),
            )
        )
    return RunRow(
        id=run.id,
        kind=run.kind,
        path_name=run.folder.folder.name,
        created=datetime.fromtimestamp(run.created, UTC).isoformat(timespec="seconds"),
        training=run.training,
        minutes=run.minutes,
        epochs=rows,
        evaluation=_evaluation_row(run, speaks, speakable),
    )


def _sample(run: RunSummary, epoch: EpochSummary) -> Sample | None:
    if epoch.sample is None:
        return None
    where, sample = f"/v1/runs/{run.id}/epochs/{epoch.number}", epoch.sample
    names = Sample.model_fields.keys() - {"output", "reference", "words"}
    try:
        return Sample(
            output=f"{where}/output.wav" if epoch.output else None,
            reference=f"{where}/reference.wav" if epoch.reference else None,
            words=_words(sample.get("words")),
            **{name: sample.get(name) for name in names},
        )
    except ValidationError:  # written by another program, or by hand
        return None


def _words(value: Any) -> list[WordTimestamp] | None:
    """The times of a sample's words; None if its sidecar has none or is of an earlier version."""
    with contextlib.suppress(ValidationError, TypeError):
        return [WordTimestamp.model_validate(word, strict=True) for word in value]
    return None


def records(path: Path, since: int) -> tuple[list[JsonObject], int]:
    """The rows of a metrics.jsonl from byte `since`, and the position to continue from, in bytes.

    A file that has become shorter (the run resumed from an earlier step) is read from its start.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = since if since <= size else 0
            file.seek(start)
            data = file.read(_MAX_BYTES)
    except OSError:
        return [], 0
    rows: list[JsonObject] = []
    end = start
    for line in data.splitlines(keepends=True):
        if not line.endswith(b"\n") or len(rows) >= _MAX_RECORDS:
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


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def find_candidate(run: RunSummary, identity: str) -> Candidate | None:
    """The judged candidate with this id."""
    return run.evaluation.with_id(identity) if run.evaluation else None


def is_current(run: RunSummary, candidate: Candidate) -> bool:
    """Whether the run still has the judged weights, which change if an epoch is trained again. For
    a pruned epoch, the hash of the checkpoint that spoke its sample decides."""
    epoch = run.epochs.get(candidate.epoch)
    if candidate.kind == "base" or epoch is None:
        return True
    hashes = {sha256 for sha256 in (epoch.sha256, epoch.sampled) if sha256}
    return not hashes or candidate.checkpoint_sha256 in hashes


def _evaluation_row(run: RunSummary, speaks: str | None, speakable: Collection[str]) -> EvaluationRow | None:
    """The evaluation without sentences; None if nothing was judged. speaks: the id of the served
    candidate."""
    evaluation = run.evaluation
    if evaluation is None:
        return None
    verdict = evaluation.verdict
    best = verdict and verdict.candidate
    candidates = []
    for candidate in evaluation.candidates:
        name = candidate.id
        if is_current(run, candidate):
            candidates.append(
                CandidateRow(
                    **vars(candidate),
                    id=name,
                    name=candidate.name,
                    validation_loss=candidate.validation_audio_loss,
                    is_best=best == name,
                    is_served=speaks == name,
                    can_speak=name in speakable,
                )
            )
    return EvaluationRow(
        made_at=evaluation.made_at,
        language=evaluation.language,
        sentence_set=evaluation.sentence_set,
        sentences=max((len(candidate.sentences) for candidate in evaluation.candidates), default=0),
        judges=evaluation.judges,
        smallest_difference=evaluation.smallest_difference,
        candidates=candidates,
        verdict=verdict and VerdictRow(**vars(verdict), candidate=best),
    )


def sentences(run: RunSummary) -> list[CandidateSentences]:
    """Each candidate with its sentences: the URL of the sound, and the judges' figures."""
    rows = []
    for candidate in run.evaluation.candidates if run.evaluation else ():
        if not is_current(run, candidate):
            continue
        name = candidate.id
        where = f"/v1/runs/{run.id}/candidates/{name}/sentences"
        spoken = [
            SaidSentence(
                **vars(sentence), sound=f"{where}/{number}.wav" if sound_of(run, candidate, number) else None
            )
            for number, sentence in enumerate(candidate.sentences)
        ]
        rows.append(CandidateSentences(id=name, name=candidate.name, sentences=spoken))
    return rows


def sound_of(run: RunSummary, candidate: Candidate, number: int) -> Path | None:
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
        inside = path.is_relative_to(folder) and path.suffix == ".wav" and path.is_file()
    except (OSError, RuntimeError):  # a name that is too long, a loop of links
        return None
    return path if inside else None
