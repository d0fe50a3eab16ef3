"""The feature cache: DVAE codes and conditioning mels, computed once and memory-mapped.

DVAE and mels are frozen, so a recording's features are constant. Computing them at every step would
decode each clip twice and run two mel front-ends and a DVAE for nothing.

    CACHE_DIR/features-<key>/<shard>.bin    records end to end: codes int16, mel float16
    CACHE_DIR/features-<key>/<shard>.json   audio SHA-256 -> [offset, codes, frames, SHA-256]

Offsets are in bytes. The key hashes the DVAE, the mel statistics and the version of this code. New
clips add shards; a newer record replaces an older one. The device is not part of the key: a GPU
rounds differently from a CPU, as do two CPUs, and a GPU that failed its check computes no features
(`machine.devices.selection`). A shard's JSON is written after its data, so a build may be killed at
any time. Two trainers may build at once; records that both compute are stored twice and are equal.

A run checks the hash of each record at its first use, so that a start does not read gigabytes. If
one is damaged, all are checked, and the damaged ones are computed again on the CPU. That is slow,
but only needed after disk faults.
"""

import contextlib
import hashlib
import itertools
import json
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
import torch

from machine import commands
from machine.devices import cuda_errors
from machine.devices.selection import Choice
from machine.errors import SotaqueError
from machine.memory import without_collection
from machine.storage.atomic import STALE_SECONDS, remove_stale, replace_file, write_json
from machine.storage.hashes import sha256_of
from train.dataset.dataset import Clip, Dataset
from train.progress import in_threads, lookahead, with_progress
from xtts.audio import (
    CODE_RATE,
    MEL_BANDS,
    SAMPLES_PER_CODE,
    AudioError,
    conditioning_mel,
    dvae_mel,
    read,
)
from xtts.model.config import ModelConfig
from xtts.model.loading import mel_stats, read_tensors
from xtts.model.vocoder import load_dvae

log = logging.getLogger("train")

VERSION = 2
CLIPS_PER_SHARD = 256
# The share of clips that may have become unreadable since they were checked; more is an error.
LARGEST_LOST_SHARE = 0.01
T = TypeVar("T")
ON_CPU = Choice("cpu", "no GPU was requested")
_MOST_READERS = 8
# Records per thread task: passing one to a thread takes about as long as hashing it.
_PORTION = 64


class FeaturesError(SotaqueError):
    """The feature cache is damaged; the message says how to repair it."""


class Record(NamedTuple):
    """The place of a recording's features in a shard."""

    shard: Path
    offset: int
    codes: int
    frames: int
    sha256: str

    @property
    def bytes(self) -> int:
        """Length of the record: int16 codes and float16 mel."""
        return 2 * self.codes + 2 * MEL_BANDS * self.frames


class FeatureCache:
    """The features of a dataset's clips, by index.

    Args:
        write: Writes new records of clips into `folder`, computed on a device.
    """

    def __init__(
        self, clips: Sequence[Clip], folder: Path, write: Callable[[Sequence[Clip], Choice], None]
    ) -> None:
        self.folder = folder
        self._clips = clips
        self._write = write
        self._compared: set[str] = set()
        self._read()

    def compute(self, clips: Sequence[Clip], place: Choice = ON_CPU) -> None:
        """Computes the features of clips; new records replace older ones."""
        self._write(clips, place)
        self._read()

    def _read(self) -> None:
        with without_collection():
            self.records = _read_records(self.folder)
        self._maps: dict[Path, np.memmap] = {}

    def codes(self, clip: int) -> np.ndarray:
        """Codes `[ceil(samples / 1024)]` int16, of the recording at 22,050 Hz. Raises FeaturesError
        for a damaged record that cannot be computed again."""
        record = self._intact(clip)
        return self._bytes(record)[: 2 * record.codes].view(np.int16)

    def mel(self, clip: int) -> np.ndarray:
        """Conditioning mel `[80, frames]` float16 of the whole recording. Raises as `codes`."""
        record = self._intact(clip)
        return self._bytes(record)[2 * record.codes :].view(np.float16).reshape(MEL_BANDS, -1)

    def _intact(self, clip: int) -> Record:
        """The record of a clip, after its hash was checked."""
        sha256 = self._clips[clip].audio_sha256
        if sha256 not in self._compared:
            if not self._whole(self.records[sha256]):
                self.repair()
                record = self.records.get(sha256)
                if record is None or not self._whole(record):
                    raise FeaturesError(
                        f"The features of {self._clips[clip].name} are damaged and could not be "
                        "computed again. Repair the cache with "
                        f"`{commands.program('train check --repair')}`. "
                        "The command that you gave then resumes from the last checkpoint."
                    )
            self._compared.add(sha256)
        return self.records[sha256]

    def repair(self) -> list[str]:
        """Computes all damaged records again and logs that. Returns the names of their clips."""
        damaged = self.damaged()
        names = sorted(clip.name for clip in damaged)
        if damaged:
            log.warning(
                "%d records in %s are damaged: their SHA-256 does not match. They are "
                "computed again. Clips: %s.", len(damaged), self.folder, ", ".join(names[:20]),
            )  # fmt: skip
            self.compute(damaged)
            if missing := self.missing():  # the index of their shard is damaged, too
                self.compute(missing)
        return names

    def missing(self) -> list[Clip]:
        """The clips without a record; `build` computes them."""
        return [clip for clip in self._clips if clip.audio_sha256 not in self.records]

    def present(self, indices: Sequence[int]) -> tuple[int, ...]:
        """The clips among `indices` that have a record; `build` leaves out clips that cannot be
        decoded."""
        return tuple(i for i in indices if self._clips[i].audio_sha256 in self.records)

    def damaged(self) -> list[Clip]:
        """The clips whose record does not match its hash; `repair` computes them again."""
        there = [clip for clip in self._clips if clip.audio_sha256 in self.records]
        records = [self.records[clip.audio_sha256] for clip in there]
        whole = in_threads(self._whole, records, _PORTION)  # hashing releases the GIL
        return [clip for clip, is_whole in zip(there, whole, strict=True) if not is_whole]

    def _whole(self, record: Record) -> bool:
        try:
            return hashlib.sha256(self._bytes(record).data).hexdigest() == record.sha256
        except FeaturesError:
            return False

    def _bytes(self, record: Record) -> np.ndarray:
        if record.shard not in self._maps:
            self._maps[record.shard] = np.memmap(record.shard, dtype=np.uint8, mode="r")
        content = self._maps[record.shard][record.offset : record.offset + record.bytes]
        if len(content) != record.bytes:
            raise FeaturesError(
                f"{record.shard} is shorter than it was written. Repair the cache with "
                f"`{commands.program('train check --repair')}`, or delete the folder."
            )
        return content


def _read_records(folder: Path) -> dict[str, Record]:
    """All records of a cache folder, except in shards whose index cannot be read."""
    records: dict[str, Record] = {}
    for index in sorted(folder.glob("*.json")):
        shard = index.with_suffix(".bin")
        try:
            size = shard.stat().st_size
            own = {sha: Record(shard, *entry) for sha, entry in _read_index(index).items()}
            if any(record.offset + record.bytes > size for record in own.values()):
                raise ValueError(f"{shard.name} holds only {size} bytes")
            records |= own
        except (OSError, ValueError, TypeError) as error:
            log.warning("%s is damaged. Its clips are computed again (%s).", index, error)
            with contextlib.suppress(OSError):  # else the warning would repeat at every start
                os.replace(index, index.with_suffix(".corrupt"))
    return records


def _read_index(path: Path) -> dict[str, list[Any]]:
    entries = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(entries, dict):
        raise ValueError(f"{type(entries).__name__} instead of an object")
    return entries


def build(
    dataset: Dataset, base: Path, config: ModelConfig, cache_dir: Path, place: Choice = ON_CPU
) -> FeatureCache:
    """The features of every clip. Computes missing ones now, and damaged ones when the first of
    them is used.

    place: the device, from `machine.devices.selection.Place.features`. A clip that can no longer be
    decoded is logged and left out (`FeatureCache.present`). Raises FeaturesError if more than one
    clip in a hundred is left out.
    """
    cache = opened(dataset, base, config, cache_dir)
    remove_stale(cache.folder, older_than_seconds=STALE_SECONDS)
    if missing := cache.missing():
        cache.compute(missing, place)
    return cache


def opened(dataset: Dataset, base: Path, config: ModelConfig, cache_dir: Path) -> FeatureCache:
    """The cache of a dataset with its existing features; computes none."""
    folder = folder_of(base, cache_dir)
    most_lost = int(LARGEST_LOST_SHARE * len({clip.audio_sha256 for clip in dataset.clips}))

    def compute(clips: Sequence[Clip], place: Choice) -> None:
        _compute(clips, base, config, folder, place, most_lost)

    return FeatureCache(dataset.clips, folder, compute)


def folder_of(base: Path, cache_dir: Path) -> Path:
    """The cache folder of a base model, named by the hash of its DVAE and mel scales."""
    parts = [str(VERSION), sha256_of(base / "dvae.pth")]
    parts.append(mel_stats(base, read_tensors(base / "model.pth")).numpy().tobytes().hex())
    return cache_dir / f"features-{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:16]}"


def _compute(
    clips: Sequence[Clip], base: Path, config: ModelConfig, folder: Path, place: Choice,
    most_lost: int,
) -> None:  # fmt: skip
    """Writes shards of the clips that can still be decoded."""
    folder.mkdir(parents=True, exist_ok=True)
    log.info(
        "Computing features of %d clips, once, on %s (%s).", len(clips), place.value,
        place.reason,
    )  # fmt: skip
    extractor, lost = _Extractor(base, config, place), 0

    def computed(pool: ThreadPoolExecutor) -> Iterator[tuple[Clip, np.ndarray, np.ndarray]]:
        nonlocal lost
        shown = with_progress(clips, len(clips), "Features")
        begun = ((clip, pool.submit(read, clip.path, CODE_RATE)) for clip in shown)
        for clip, waveform in lookahead(begun, extractor.readers):
            try:
                yield clip, *extractor.features(waveform.result())
            except AudioError as error:
                lost += 1
                if lost > most_lost:
                    raise FeaturesError(
                        f"{error} In total, {lost} clips can no longer be decoded; at most "
                        f"{most_lost} (one in a hundred) may be left out. Repair the files or "
                        "remove their rows."
                    ) from error
                log.warning("%s is left out of this run: %s", clip.name, error)

    with ThreadPoolExecutor(extractor.readers) as pool:
        rest = computed(pool)
        for _ in range(0, len(clips), CLIPS_PER_SHARD):
            stem = folder / f"{time.time_ns()}-{uuid.uuid4().hex[:8]}"
            _write_shard(stem, itertools.islice(rest, CLIPS_PER_SHARD))
    extractor.close()


def _write_shard(stem: Path, clips: Iterable[tuple[Clip, np.ndarray, np.ndarray]]) -> None:
    index: dict[str, list[int | str]] = {}

    def write(file: BinaryIO) -> None:
        offset = 0
        for clip, codes, mel in clips:
            data = codes.tobytes() + mel.tobytes()
            file.write(data)
            digest = hashlib.sha256(data).hexdigest()
            index[clip.audio_sha256] = [offset, len(codes), mel.shape[1], digest]
            offset += len(data)

    replace_file(stem.with_suffix(".bin"), write)
    write_json(stem.with_suffix(".json"), index)


class _Extractor:
    """Computes features on a GPU; if it fails, continues with that clip on the CPU."""

    def __init__(self, base: Path, config: ModelConfig, place: Choice) -> None:
        self._device = place.value
        self._load = partial(DeviceFeatures, base, config)
        self._on_gpu = None if self._device == "cpu" else self._tried(self._load, self._device)

    @cached_property
    def _on_cpu(self) -> "DeviceFeatures":
        return self._load()

    @property
    def readers(self) -> int:
        """The number of recordings to read ahead, so that a GPU does not wait."""
        return min(_MOST_READERS, os.cpu_count() or 1) if self._on_gpu else 1

    def features(self, waveform: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """As `features_of`."""
        computed = self._tried(self._by_gpu, waveform) if self._on_gpu else None
        return computed or self._on_cpu.of(waveform)

    def _by_gpu(self, waveform: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        assert self._on_gpu
        features = self._on_gpu.of(waveform)
        if not np.isfinite(features[1]).all():
            raise cuda_errors.NotFinite("its mel has non-finite values.")
        return features

    def _tried(self, work: Callable[..., T], *given: Any) -> T | None:
        """The result of `work`. Returns None if the GPU failed, and does not use it again."""
        try:
            return work(*given)
        except Exception as error:
            if not isinstance(error, cuda_errors.NotFinite) and not cuda_errors.classify(error):
                raise
            words = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        log.warning("Features are computed on the CPU from here on: %s: %s.", self._device, words)
        self._on_gpu = None
        cuda_errors.free_after_fault(self._device)
        return None

    def close(self) -> None:
        """Releases the GPU's memory."""
        if self._on_gpu:
            self._on_gpu = None
            cuda_errors.free_after_fault(self._device)


class DeviceFeatures:
    """The DVAE and the mel scales on one device."""

    def __init__(self, base: Path, config: ModelConfig, device: str = "cpu") -> None:
        self._device = torch.device(device)
        self._dvae = load_dvae(base, config).to(self._device)
        self._stats = mel_stats(base, read_tensors(base / "model.pth")).to(self._device)

    def of(self, waveform: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """As `features_of`. cuDNN is off on a GPU: it would plan about ten convolutions again for
        every clip length, and compute in TF32."""
        # On the CPU, this may run during a training step, whose cuDNN flags must not change.
        if self._device.type == "cpu":
            return features_of(waveform, self._dvae, self._stats)
        with torch.backends.cudnn.flags(enabled=False):
            return features_of(waveform.to(self._device), self._dvae, self._stats)


@torch.inference_mode()
def features_of(
    waveform: torch.Tensor, dvae: torch.nn.Module, stats: torch.Tensor
) -> tuple[np.ndarray, np.ndarray]:
    """(codes `[n]` int16, mel `[80, frames]` float16) of one recording, `[samples]` at 22,050 Hz,
    without padding."""
    codes = codes_of(waveform, dvae, stats)
    mel = conditioning_mel(waveform[None], stats)[0]
    return codes, mel.cpu().numpy().astype(np.float16)


@torch.inference_mode()
def codes_of(waveform: torch.Tensor, dvae: torch.nn.Module, stats: torch.Tensor) -> np.ndarray:
    """Codes `[n]` int16 of one recording, `[samples]` at 22,050 Hz."""
    count = -(-len(waveform) // SAMPLES_PER_CODE)
    codes: torch.Tensor = dvae.get_codebook_indices(dvae_mel(waveform[None], stats))  # type: ignore[operator]
    return codes[0, :count].cpu().numpy().astype(np.int16)
