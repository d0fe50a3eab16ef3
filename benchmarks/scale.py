"""What a start and a batch cost as a dataset grows: for `benchmarks data --scale`.

The dataset is real to the trainer and cheap to make: its recordings are names of a few files, and
what judging and computing would find out of each is written into the cache beforehand,
a sparse file for the features. So what is measured is what a second start does: read the
transcript, look at every file, index the cache, hold it against its hashes, plan.
Each count runs in a process of its own.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

COUNTS = (100, 1_000, 10_000, 100_000)
CODES, FRAMES = 43, 172  # of a clip of 2 s: what is looked at per clip, not per second
SECONDS = 2.0
TEXTS = 10
# A file system allows so many names of one file, and some more.
LINKS = 30_000


def started(count: int) -> dict[str, float]:
    """One count, in a child."""
    command = [sys.executable, "-m", "benchmarks.scale", str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(count: int) -> dict[str, float]:
    """Seconds of a second start's data, of a plan and a batch, and the memory they take."""
    from train.dataset import dataset, features
    from train.dataset.batches import Batches, ConditioningChoice
    from train.settings import TrainSettings
    from xtts.model.config import ModelConfig
    from xtts.text.tokenizer import Tokenizer
    from xtts.voices import base_models

    base = base_models.DEMO
    config = ModelConfig.read(base)
    tokenizer = Tokenizer(config, base)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, base, count)
        settings = TrainSettings(dataset_dir=folder / "data", cache_dir=folder / "cache")
        dataset.read(settings, tokenizer, config.gpt)  # remembers texts and sounds
        before, clock, used = memory_bytes(), time.perf_counter(), time.process_time()
        data = dataset.read(settings, tokenizer, config.gpt)
        read = time.perf_counter()
        found = features.build(data, base, config, settings.cache_dir)
        built = time.perf_counter()
        batches = Batches(
            data.clips, data.train, found, config.gpt, seed=0, batch_seconds=40.0,
            stop_input=config.stop_input_trained,
            conditions=ConditioningChoice("other_clip", data.train),
        )  # fmt: skip
        planned = batches.plan(1)
        plan, used = time.perf_counter(), time.process_time() - used
        for group in planned[:5]:
            batches.batch(1, group)
        batch = (time.perf_counter() - plan) / len(planned[:5])
        return {
            "clips": count, "used": len(data.clips), "read_seconds": read - clock,
            "cache_seconds": built - read, "plan_seconds": plan - built,
            "start_seconds": plan - clock, "start_cpu_seconds": used,
            "batch_milliseconds": 1e3 * batch, "memory_mb": (memory_bytes() - before) / 1e6,
        }  # fmt: skip


def write(folder: Path, base: Path, count: int) -> None:
    """A dataset of `count` clips, each its own file, and a whole cache for it."""
    import soundfile

    from train.dataset.features import folder_of

    (folder / "data" / "wavs").mkdir(parents=True)
    generator = np.random.default_rng(0)
    sound = (0.1 * generator.standard_normal(int(22_050 * SECONDS))).astype(np.float32)
    rows, known, index = [], {}, {}
    size = 2 * CODES + 160 * FRAMES
    digest = hashlib.sha256(bytes(size)).hexdigest()
    for number in range(count):
        path = folder / "data" / "wavs" / f"{number}.wav"
        if number % LINKS == 0:
            first = path
            soundfile.write(first, sound, 22_050)
        else:
            os.link(first, path)
        sha256 = hashlib.sha256(str(number).encode()).hexdigest()
        status = path.stat()
        key = f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}"
        known[key] = (SECONDS, sha256, "", "")
        index[sha256] = [number * size, CODES, FRAMES, digest]
        rows.append(f"{number}|{'one ' * (1 + number % TEXTS)}two three.")
    (folder / "data" / "metadata.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    _remember(folder / "cache", known)
    cache = folder_of(base, folder / "cache")
    cache.mkdir(parents=True)
    with (cache / "0.bin").open("wb") as file:
        file.truncate(count * size)
    (cache / "0.json").write_text(json.dumps(index), encoding="utf-8")


def _remember(cache: Path, known: dict[str, Any]) -> None:
    from machine.storage.file_cache import FileCache
    from train.dataset.clips import SOUNDS_VERSION

    sounds = FileCache(cache / f"sounds-{SOUNDS_VERSION}.json")
    for key, value in known.items():
        sounds.put(key, value)
    sounds.save()


def memory_bytes() -> int:
    """Resident memory that is this process's own: mapped files are the page cache's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def told(rows: Sequence[dict[str, float]]) -> str:
    """The table."""
    lines = [
        f"{'clips':>8} {'used':>8} {'read':>8} {'cache':>8} {'plan':>8} {'start':>8} {'CPU':>8} "
        f"{'batch':>9} {'memory':>9}"
    ]
    lines += [
        f"{row['clips']:8.0f} {row['used']:8.0f} {row['read_seconds']:6.2f} s "
        f"{row['cache_seconds']:6.2f} s {row['plan_seconds']:6.2f} s {row['start_seconds']:6.2f} s "
        f"{row['start_cpu_seconds']:6.2f} s {row['batch_milliseconds']:6.1f} ms "
        f"{row['memory_mb']:6.0f} MB"
        for row in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[1]))))
