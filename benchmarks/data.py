"""`python -m benchmarks data` measures a start and a batch as a dataset grows.

The trainer accepts the dataset, which is cheap to make: its recordings are hard links of a few
files, the results of checks and computations are written into the cache beforehand, and the
features are a sparse file. A second start is measured: it reads the transcript, looks each file up
among the known facts, reads the index of the features, and plans an epoch. Each size runs in a
separate process.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import measuring

SIZES = (100, 1_000, 10_000, 100_000)
CLIP_SECONDS = 2.0
# Of a clip.
_NUM_CODES, _NUM_FRAMES = 43, 172
_NUM_TEXTS = 10
# File systems limit the hard links to a file; the usual limits are higher.
_MAX_LINKS = 30_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clips", type=int, nargs="*", default=SIZES)


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """The figures of each size, each by a child."""
    return {"clips": {f"{n:,}": measuring.ask("benchmarks.data", n) for n in arguments.clips}}


def second_start(folder: Path, count: int) -> dict[str, float]:
    """Seconds and CPU seconds of a second start, CPU time of a batch that is read for the first
    time, and the memory that they take. There is no parallel work in it, so CPU seconds are what a
    quiet machine takes."""
    from train.dataset import dataset, features
    from train.dataset.batches import Batches
    from train.settings import TrainSettings
    from xtts.model.config import ModelConfig
    from xtts.text.tokenizer import Tokenizer
    from xtts.voices import base_models

    base = base_models.DEMO
    config = ModelConfig.read(base)
    tokenizer = Tokenizer(config, base)
    write_dataset(folder, base, count)
    time.sleep(dataset.RACY_SECONDS)
    settings = TrainSettings(dataset_dir=folder / "data", cache_dir=folder / "cache")
    dataset.read(settings, tokenizer, config.gpt)  # the first start
    bytes_before, started_at = measuring.memory_bytes("RssAnon"), time.perf_counter()
    cpu_started_at = time.process_time()
    data = dataset.read(settings, tokenizer, config.gpt)
    data.report()
    data.sha256  # noqa: B018
    cache = features.build(data, base, config, settings.cache_dir)
    batches = Batches(
        data.clips,
        data.train,
        cache,
        config.gpt,
        seed=0,
        batch_seconds=40.0,
        stop_input=config.stop_input_trained,
        sources=data.train,
    )
    groups = batches.plan(1)
    cpu_planned_at, seconds = time.process_time(), time.perf_counter() - started_at
    for group in groups[:5]:
        batches.batch(1, group)
    batch_cpu_seconds = (time.process_time() - cpu_planned_at) / len(groups[:5])
    return {
        "clips": len(data.clips),
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu_planned_at - cpu_started_at, 3),
        "batch_cpu_ms": round(1e3 * batch_cpu_seconds, 1),
        "memory_mb": round((measuring.memory_bytes("RssAnon") - bytes_before) / 1e6, 1),
    }


def write_dataset(folder: Path, base: Path, count: int) -> None:
    """A dataset of `count` clips and a complete cache for it."""
    import soundfile

    from machine.storage.facts import Facts
    from train.dataset.dataset import VERSION
    from train.dataset.features import folder_of

    wavs = folder / "data" / "wavs"
    wavs.mkdir(parents=True)
    generator = np.random.default_rng(0)
    sound = (0.1 * generator.standard_normal(int(22_050 * CLIP_SECONDS))).astype(np.float32)
    paths = [wavs / f"{number}.wav" for number in range(count)]
    for number, path in enumerate(paths):
        if number % _MAX_LINKS == 0:
            soundfile.write(path, sound, 22_050)
        else:
            os.link(paths[number - number % _MAX_LINKS], path)
    rows = (f"{number}|{'one ' * (1 + number % _NUM_TEXTS)}two three." for number in range(count))
    (folder / "data" / "metadata.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    hashes = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(count)]
    facts = Facts(folder / "cache", f"clips {VERSION}")
    for path, sha256 in zip(paths, hashes, strict=True):
        status = path.stat()
        key = f"{path.absolute()}|{status.st_size}|{status.st_mtime_ns}|{status.st_ctime_ns}"
        facts.put(key, (CLIP_SECONDS, sha256, "", ""))
    facts.save()
    size = 2 * _NUM_CODES + 160 * _NUM_FRAMES
    digest = hashlib.sha256(bytes(size)).hexdigest()
    cache = folder_of(base, folder / "cache")
    cache.mkdir(parents=True)
    with (cache / "0.bin").open("wb") as file:
        file.truncate(count * size)
    index = {sha: [number * size, _NUM_CODES, _NUM_FRAMES, digest] for number, sha in enumerate(hashes)}
    (cache / "0.json").write_text(json.dumps(index), encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps(second_start(Path(name), int(sys.argv[1]))))
