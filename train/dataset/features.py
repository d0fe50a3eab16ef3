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
import json
import logging
import os
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from machine import commands
from machine.devices import cuda_errors, recovery
from machine.devices.selection import Choice
from machine.errors import SotaqueError
from machine.storage.checksums import sha256_of
from machine.storage.files import STALE_SECONDS, make_folder, remove_stale, replace_file, write_json
from machine.text import enumeration, first_line
from train.concurrency import in_threads, lookahead
from train.dataset.dataset import Clip, Dataset, without_garbage_collection
from train.distributed import ALONE, World
from train.progress import with_progress
from xtts.audio import CODE_RATE, MEL_BANDS, SAMPLES_PER_CODE, AudioError, conditioning_mel, dvae_mel, read
from xtts.model.config import ModelConfig
from xtts.model.loading import load_dvae, mel_stats, read_tensors

log = logging.getLogger("train")

VERSION = 2
CLIPS_PER_SHARD = 256
# The share of clips that may have become unreadable since they were checked; more is an error.
LARGEST_LOST_SHARE = 0.01
ON_CPU = Choice("cpu", "no GPU was requested")
# Recordings that are read ahead, so that a GPU does not wait.
_MAX_READERS = 8
# Records per thread task: passing one to a thread takes about as long as hashing it.
_RECORDS_PER_TASK = 64


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


def build(
    dataset: Dataset,
    base: Path,
    config: ModelConfig,
    cache_dir: Path,
    place: Choice = ON_CPU,
    world: World = ALONE,
) -> "FeatureCache":
    """The features of every clip. Computes missing ones now, and damaged ones when the first of
    them is used.

    place: the device, from `machine.devices.selection.Place.features`. A clip that can no longer be
    decoded is logged and left out (`FeatureCache.present`). Raises FeaturesError if more than one
    clip in a hundred is left out. The first rank of each machine computes; the others wait for it.
    """
    if world.local_rank:
        world.barrier()
    cache = FeatureCache(dataset.clips, base, config, cache_dir)
    remove_stale(cache.folder, older_than_seconds=STALE_SECONDS)
    if missing := cache.missing():
        cache.compute(missing, place)
    if not world.local_rank:
        world.barrier()
    return cache


def folder_of(base: Path, cache_dir: Path) -> Path:
    """The cache folder of a base model, named by the hash of its DVAE and mel scales."""
    parts = [str(VERSION), sha256_of(base / "dvae.pth")]
    parts.append(mel_stats(base, read_tensors(base / "model.pth")).numpy().tobytes().hex())
    return cache_dir / f"features-{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:16]}"


class FeatureCache:
    """The features of a dataset's clips, by index. `build` also computes missing ones."""

    def __init__(self, clips: Sequence[Clip], base: Path, config: ModelConfig, cache_dir: Path) -> None:
        self.folder = folder_of(base, cache_dir)
        self._clips, self._base, self._config = clips, base, config
        self._compared: set[str] = set()
        self._read()

    def codes(self, clip: int) -> np.ndarray:
        """Codes `[ceil(samples / 1024)]` int16, of the recording at 22,050 Hz. Raises FeaturesError
        for a damaged record that cannot be computed again."""
        record = self._intact(clip)
        return self._bytes(record)[: 2 * record.codes].view(np.int16)

    def mel(self, clip: int) -> np.ndarray:
        """Conditioning mel `[80, frames]` float16 of the whole recording. Raises as `codes`."""
        record = self._intact(clip)
        return self._bytes(record)[2 * record.codes :].view(np.float16).reshape(MEL_BANDS, -1)

    def missing(self) -> list[Clip]:
        """The clips without a record; `build` computes them."""
        return [clip for clip in self._clips if clip.audio_sha256 not in self.records]

    def present(self, indices: Sequence[int]) -> tuple[int, ...]:
        """The clips among `indices` that have a record; `build` leaves out clips that cannot be
        decoded."""
        return tuple(i for i in indices if self._clips[i].audio_sha256 in self.records)

    def damaged_clips(self) -> list[Clip]:
        """The clips whose record does not match its hash; `repair` computes them again."""
        clips = [clip for clip in self._clips if clip.audio_sha256 in self.records]
        records = [self.records[clip.audio_sha256] for clip in clips]
        intact = in_threads(self._whole, records, _RECORDS_PER_TASK)  # hashing releases the GIL
        return [clip for clip, is_intact in zip(clips, intact, strict=True) if not is_intact]

    def repair(self) -> list[str]:
        """Computes all damaged records again and logs that. Returns the names of their clips."""
        damaged = self.damaged_clips()
        names = sorted(clip.name for clip in damaged)
        if damaged:
            log.warning(
                "%d records in %s are damaged: their SHA-256 does not match. They are "
                "computed again. Clips: %s.",
                len(damaged),
                self.folder,
                enumeration(names),
            )
            self.compute(damaged)
            if missing := self.missing():  # the index of their shard is damaged, too
                self.compute(missing)
        return names

    def compute(self, clips: Sequence[Clip], place: Choice = ON_CPU) -> None:
        """Writes shards of the clips that can still be decoded; new records replace older ones."""
        make_folder(self.folder)
        log.info("Computing features of %d clips, once, on %s (%s).", len(clips), place.value, place.reason)
        lost, max_lost = 0, int(LARGEST_LOST_SHARE * len(self._clips))
        ahead = 1 if place.value == "cpu" else min(_MAX_READERS, os.cpu_count() or 1)
        records = list[tuple[str, np.ndarray, np.ndarray]]()
        with (
            contextlib.closing(Extractor(self._base, self._config, place.value)) as extractor,
            ThreadPoolExecutor(ahead) as pool,
        ):
            clips_with_progress = with_progress(clips, len(clips), "Features")
            begun = ((clip, pool.submit(read, clip.path, CODE_RATE)) for clip in clips_with_progress)
            for clip, waveform in lookahead(begun, ahead):
                try:
                    records.append((clip.audio_sha256, *extractor.features(waveform.result())))
                except AudioError as error:
                    lost += 1
                    if lost > max_lost:
                        raise FeaturesError(
                            f"{error} In total, {lost} clips can no longer be decoded; at most "
                            f"{max_lost} (one in a hundred) may be left out. Repair the files or "
                            "remove their rows."
                        ) from error
                    log.warning("%s is left out of this run: %s", clip.name, error)
                if len(records) == CLIPS_PER_SHARD:
                    self._write(records)
                    records.clear()
        if records:
            self._write(records)
        self._read()

    def _write(self, records: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> None:
        """Writes a shard of (audio SHA-256, codes, mel)."""
        index, content = dict[str, list[int | str]](), bytearray()
        for audio_sha256, codes, mel in records:
            data = codes.tobytes() + mel.tobytes()
            digest = hashlib.sha256(data).hexdigest()
            index[audio_sha256] = [len(content), len(codes), mel.shape[1], digest]
            content += data
        stem = self.folder / f"{time.time_ns()}-{uuid.uuid4().hex[:8]}"
        replace_file(stem.with_suffix(".bin"), lambda file: file.write(content))
        write_json(stem.with_suffix(".json"), index)

    @without_garbage_collection()
    def _read(self) -> None:
        """Reads the indexes of all shards, except damaged ones."""
        self.records: dict[str, Record] = {}
        self._maps: dict[Path, np.memmap] = {}
        for index in sorted(self.folder.glob("*.json")):
            shard = index.with_suffix(".bin")
            try:
                size = shard.stat().st_size
                rows = json.loads(index.read_text(encoding="utf-8")).items()
                records = {sha256: Record(shard, *row) for sha256, row in rows}
                if any(record.offset + record.bytes > size for record in records.values()):
                    raise ValueError(f"{shard.name} holds only {size} bytes")
                self.records |= records
            except (OSError, ValueError, TypeError, AttributeError) as error:
                log.warning("%s is damaged. Its clips are computed again (%s).", index, error)
                with contextlib.suppress(OSError):  # else the warning would repeat at every start
                    os.replace(index, index.with_suffix(".corrupt"))

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


class Extractor:
    """Computes features on a device; if a GPU fails, continues with that clip on the CPU."""

    def __init__(self, base: Path, config: ModelConfig, device: str) -> None:
        self._base, self._config, self._device = base, config, device
        self._loaded: tuple[torch.nn.Module, torch.Tensor] | None = None  # DVAE, mel scales

    def features(self, waveform: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """As `of`, on the CPU after a fault of the GPU."""
        try:
            features = self.of(waveform)
            if self._device == "cpu" or np.isfinite(features[1]).all():
                return features
            reason = "its mel has non-finite values"
        except Exception as error:
            if self._device == "cpu" or not cuda_errors.classify(error):
                raise
            reason = first_line(error)
        log.warning("Features are computed on the CPU from here on: %s: %s.", self._device, reason)
        self.close()
        self._device = "cpu"
        return self.features(waveform)

    def of(self, waveform: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """(codes `[n]` int16, mel `[80, frames]` float16) of one recording, `[samples]` at
        22,050 Hz, without padding.

        cuDNN is off on a GPU: it would plan about ten convolutions again for every clip length, and
        compute in TF32.
        """
        device = torch.device(self._device)
        if self._loaded is None:
            stats = mel_stats(self._base, read_tensors(self._base / "model.pth"))
            self._loaded = load_dvae(self._base, self._config).to(device), stats.to(device)
        dvae, stats = self._loaded
        # On the CPU, this may run during a training step, whose cuDNN flags must not change.
        on_cpu = device.type == "cpu"
        flags = contextlib.nullcontext() if on_cpu else torch.backends.cudnn.flags(enabled=False)
        with flags, torch.inference_mode():
            waveform = waveform.to(device)
            codes = codes_of(waveform, dvae, stats)
            mel = conditioning_mel(waveform[None], stats)[0]
            return codes, mel.cpu().numpy().astype(np.float16)

    def close(self) -> None:
        """Releases the GPU's memory."""
        self._loaded = None
        if self._device != "cpu":
            recovery.free_after_fault(self._device)


@torch.inference_mode()
def codes_of(waveform: torch.Tensor, dvae: torch.nn.Module, stats: torch.Tensor) -> np.ndarray:
    """Codes `[n]` int16 of one recording, `[samples]` at 22,050 Hz."""
    count = -(-len(waveform) // SAMPLES_PER_CODE)
    codes: torch.Tensor = dvae.get_codebook_indices(dvae_mel(waveform[None], stats))  # type: ignore[operator]
    return codes[0, :count].cpu().numpy().astype(np.int16)
