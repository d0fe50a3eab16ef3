"""`python -m benchmarks people` fine-tunes on people by whom nothing was chosen.

`--voice ked` (of flite, festival or RHVoice) says the demo dataset's texts for a run with default
settings, and the reporting set to compare with. `--dataset DIR --folds 4` is for a real person with
few clips: a run learns from three quarters of them and speaks the fourth, in turn, which is
compared with its recordings. Five candidates speak by the run's own reference: the base, the base
with a decoder learned for it, what the run serves without and with its decoder, and the last epoch.
"""

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import soundfile
from torch import Tensor

from benchmarks import judges, measuring, tables, texts, voice
from machine.errors import SotaqueError
from train.dataset.metadata import read_entries
from xtts.audio import SPEAKER_RATE, read
from xtts.inference.compute_config import ComputeConfig
from xtts.voices.base_models import DEMO
from xtts.voices.run_folder import RunFolder
from xtts.workers import decoder_learning
from xtts.workers.file_synthesis import FileSpeaker
from xtts.workers.requests import LearnDecoderRequest, TranscribedClip

DEMO_DATASET = Path("train/data/demo")
# As DECODER_CLIPS, and as long as a run may take without a budget.
DECODER_CLIPS, LEARNING_SECONDS = 64, 600.0
SET, LANGUAGE = "reporting", "en"
WHO = ("base", "decoder alone", "GPT alone", "served", "last epoch")


@dataclass(frozen=True)
class Spoken:
    """One text by one candidate: word errors and words, distance and distortion from the person's
    own recording, and the length as a share of its length."""

    who: str
    seed: int
    text: str
    errors: int
    words: int
    distance: float
    distortion_db: float
    length: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    whom = parser.add_mutually_exclusive_group(required=True)
    whom.add_argument("--voice", help="a voice of flite, festival or RHVoice")
    whom.add_argument("--dataset", type=Path, help="a dataset of a person's recordings")
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path("build/people"))


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Figures of each candidate, and every row."""
    if arguments.voice:
        parts = [spoken_part(arguments.voice, arguments.work)]
    else:
        parts = folds(arguments.dataset, arguments.folds, arguments.work)
    rows = [
        row
        for number, (dataset, own) in enumerate(parts)
        for row in compared(dataset, own, arguments.work / f"run_{number}", arguments.seeds)
    ]
    found = {who: figures([row for row in rows if row.who == who]) for who in ("own", *WHO)}
    return {"figures": found, "rows": [asdict(row) for row in rows]}


def to_record(found: Mapping[str, Any]) -> dict[str, Any]:
    """Without the rows."""
    return {"figures": found["figures"]}


def report(found: Mapping[str, Any]) -> str:
    """Without the rows."""
    return tables.text(found["figures"])


# ---- the dataset to learn from, and the recordings to compare with ----


def spoken_part(name: str, work: Path) -> tuple[Path, dict[str, Tensor]]:
    """A dataset of the demo's texts by this voice, and its recordings [samples] at 16 kHz of the
    reporting set."""
    folder = work / f"dataset_{name}"
    if not (folder / "metadata.csv").is_file():
        rows = read_entries(DEMO_DATASET, "auto", LANGUAGE)
        _write(folder, [(row.path.stem, row.text, judges.teacher(name, row.text)) for row in rows])
    return folder, {text: judges.teacher(name, text) for text in texts.sentences(SET)}


def folds(dataset: Path, count: int, work: Path) -> list[tuple[Path, dict[str, Tensor]]]:
    """For each of `count` parts of a dataset, a dataset of the other clips, and the recordings that
    it leaves out. Raises SotaqueError and DatasetError."""
    rows = read_entries(dataset, "auto", LANGUAGE)
    if len(rows) < count:
        raise SotaqueError(
            f"{dataset} has {len(rows)} clips, too few for {count} parts; --folds says how many."
        )
    clips = [(row.path.stem, row.text, read(row.path, SPEAKER_RATE)) for row in rows]
    found = []
    for number in range(count):
        folder = work / f"dataset_{number}"
        _write(folder, [one for place, one in enumerate(clips) if place % count != number])
        found.append((folder, {text: wave for _, text, wave in clips[number::count]}))
    return found


def _write(folder: Path, clips: Sequence[tuple[str, str, Tensor]]) -> None:
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    for clip, _, wave in clips:
        soundfile.write(folder / "wavs" / f"{clip}.wav", wave.numpy(), SPEAKER_RATE, "PCM_16")
    lines = "".join(f"{clip}|{text}\n" for clip, text, _ in clips)
    (folder / "metadata.csv").write_text(lines, encoding="utf-8")


# ---- a run and its speech ----


def compared(dataset: Path, own: Mapping[str, Tensor], run: Path, seeds: int) -> list[Spoken]:
    """Every text by the person, the base, what the run serves, and its last epoch."""
    log = run.with_suffix(".log")
    measuring.train_once(
        run / "done", log, run,
        dataset_dir=dataset, output_dir=run, keep_checkpoints="all",
    )  # fmt: skip
    folder = RunFolder(run)
    best, last = folder.best_weights(), folder.epochs()[-1]
    if best is None:
        raise SotaqueError(f"{run} serves nothing; its log is {log}.")
    reference = run / "samples" / "best_reference.wav"
    alone, epoch = run / "decoder_of_base.safetensors", str(folder.checkpoint_path(last))
    learn_for_base(dataset, reference, alone)
    bundles: tuple[tuple[str, Path | Literal["own", "base"]], ...] = (
        ("demo", "base"), ("demo", alone), (str(run), "base"), (str(run), "own"), (epoch, "own"),
    )  # fmt: skip
    said = list(own)
    rows = [heard(("own", 0), text, wave, wave) for text, wave in own.items()]
    for who, (bundle, decoder) in zip(WHO, bundles, strict=True):
        waves = voice.spoken(
            bundle, "", said, seeds, "fp32", low=False, recording=reference, decoder=decoder
        )
        for seed, clips in enumerate(waves):
            pairs = zip(said, clips, strict=True)
            rows += [heard((who, seed), text, wave, own[text]) for text, wave in pairs]
    return rows


def learn_for_base(dataset: Path, reference: Path, out: Path) -> None:
    """A decoder for the base's GPT, as a run learns one where its base is best; once."""
    if out.exists():
        return
    clips = [
        TranscribedClip(row.path, row.text, LANGUAGE)
        for row in read_entries(dataset, "auto", LANGUAGE)[:DECODER_CLIPS]
    ]
    FileSpeaker(DEMO, ComputeConfig(precision="fp32")).ask(
        LearnDecoderRequest(
            tuple(clips), reference, out, None, 0.0, decoder_learning.STEPS, LEARNING_SECONDS
        )
    )


def heard(whose: tuple[str, int], text: str, wave: Tensor, own: Tensor) -> Spoken:
    """A text's figures; `wave` and `own` are [samples] at 16 kHz."""
    errors, words = judges.counted_errors(text, judges.words_heard(wave))
    return Spoken(
        *whose, text, errors, words, judges.distance(wave, own),
        judges.cepstral_distortion(wave, own), len(wave) / len(own),
    )  # fmt: skip


def figures(rows: Sequence[Spoken]) -> dict[str, Any]:
    """Over all texts and seeds: word errors, means of distance and distortion, and how many texts
    of some words are cut or babble."""
    return {
        "word_errors": round(sum(one.errors for one in rows) / sum(one.words for one in rows), 4),
        "distance": round(statistics.fmean(one.distance for one in rows), 2),
        "distortion_db": round(statistics.fmean(one.distortion_db for one in rows), 3),
        "astray": voice.astray([one.text for one in rows], [one.length for one in rows]),
        "spoken": len(rows),
    }
