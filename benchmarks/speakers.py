"""`python -m benchmarks speakers` trains one run on several people and listens to each of them.

The people say the demo dataset's texts, each other ones. Every speaker of the run then says the
reporting set, beside the base that is given the same recording. `--style` adds a second way to
speak of the first person, made by sox: lower and slower. Its figures say in how many sentences
pitch and pace come out on the right side of the person's usual way.
"""

import argparse
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import soundfile
import torch
from torch import Tensor

from benchmarks import judges, measuring, tables, texts, voice
from train.dataset.metadata import read_entries
from xtts.audio import SPEAKER_RATE, VOCODER_RATE, read, resample
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices import speakers
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec

DEMO_DATASET = Path("train/data/demo")
SET, LANGUAGE = "reporting", "en"
STYLE = "low"
# Cents and a share of the pace, as sox's effects take them.
PITCH_CENTS, TEMPO = -300, 0.8
# Somebody who is in no part of the run, whom a request brings along.
GUEST = "slt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--voices", default="awb,lyubov,ked", help="of flite, festival, RHVoice")
    parser.add_argument("--style", action="store_true", help="one person in two ways to speak")
    parser.add_argument("--clips", type=int, default=None, help="of the demo's texts, in all")
    parser.add_argument("--sentences", type=int, default=None, help="of the set")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("build/speakers"))


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Figures of each speaker of the run and of the base; with --style, of the two ways."""
    names = arguments.voices.split(",")[: 1 if arguments.style else None]
    if arguments.style:
        names.append(f"{names[0]}:{STYLE}")
    dataset = spoken_dataset(names, arguments.clips, arguments.work / "dataset")
    folder = arguments.work / "run"
    measuring.train_once(
        folder / "done", arguments.work / "run.log", folder,
        dataset_dir=dataset, output_dir=folder,
    )  # fmt: skip
    sentences = texts.sentences(SET)[: arguments.sentences]
    if arguments.style:
        return {"style": two_ways(folder, names, sentences)}
    judged = partial(figures_of, folder, names, sentences, arguments.seeds)
    found: dict[str, Any] = {name: judged(name) for name in names}
    return {"speakers": found, "guest_equal": guest_is_equal(folder, sentences[:4])}


def report(found: Mapping[str, Any]) -> str:
    """A row for each speaker and way to speak."""
    if "style" in found:
        return tables.text(found["style"])
    rows = {
        f"{name}, {who}": row for name, of in found["speakers"].items() for who, row in of.items()
    }
    return f"{tables.text(rows)}\nA guest's bits are the same: {found['guest_equal']}."


# ---- the dataset ----


def spoken_dataset(names: Sequence[str], count: int | None, folder: Path) -> Path:
    """The demo's texts in turns by these speakers, with a column for each and for the style."""
    if (folder / "metadata.csv").is_file():
        return folder
    rows = ["file_name,text,speaker,style"]
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    entries = read_entries(DEMO_DATASET, "auto", LANGUAGE)[:count]
    for entry, name in zip(entries, itertools.cycle(names), strict=False):
        person, _, style = name.partition(":")
        file = folder / "wavs" / f"{entry.path.stem}.wav"
        soundfile.write(file, said_by(name, entry.text).numpy(), SPEAKER_RATE, "PCM_16")
        rows.append(f'wavs/{file.name},"{entry.text}",{person},{style}')
    (folder / "metadata.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def said_by(name: str, text: str) -> Tensor:
    """A text by a person, or in their style: [samples] at 16 kHz."""
    person, _, style = name.partition(":")
    plain = judges.teacher(person, text)
    if not style:
        return plain
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "plain.wav", Path(folder) / "style.wav"
        soundfile.write(before, plain.numpy(), SPEAKER_RATE)
        subprocess.run(
            ["sox", before, after, "pitch", str(PITCH_CENTS), "tempo", "-s", str(TEMPO)],
            check=True, capture_output=True,
        )  # fmt: skip
        return read(after, SPEAKER_RATE)


# ---- what the run says ----


def figures_of(
    folder: Path, names: Sequence[str], sentences: Sequence[str], seeds: int, name: str
) -> dict[str, dict[str, float]]:
    """As `voice.figures`, the mean over the seeds, of the run and of the base as one speaker."""
    others = dict.fromkeys((*names, *judges.VOICES))
    clips = {other: [said_by(other, text) for text in voice.JUDGE_TEXTS] for other in others}
    judge = judges.VoiceJudge.learn(clips, name)
    source = [said_by(name, text) for text in sentences]
    recording = speakers.read(folder)[name]
    opened = {
        "own": None,
        "base": load_voice(VoiceSpec("demo", reference=recording), ComputeConfig()),
        "run": load_voice(VoiceSpec(str(folder), speaker=name), ComputeConfig()),
    }
    found = {}
    for who, speaks in opened.items():
        rows = [
            voice.figures(
                source if speaks is None else spoken(speaks, sentences, seed), source, sentences,
                judge,
            )
            for seed in range(1 if speaks is None else seeds)
        ]  # fmt: skip
        found[who] = {
            key: round(sum(row[key] for row in rows) / len(rows), 4)
            for key in ("word_errors", "heard_as_wanted", "distance", "distortion_db", "astray")
        }
    return found


def spoken(speaks: LoadedVoice, sentences: Sequence[str], seed: int) -> list[Tensor]:
    """Each sentence, [samples] at 16 kHz, under the guard."""
    asked = [SynthesisRequest(text, LANGUAGE, seed) for text in sentences]
    waves = [torch.as_tensor(speaks.synthesize(request)) for request in asked]
    return [resample(wave, VOCODER_RATE, SPEAKER_RATE) for wave in waves]


def guest_is_equal(folder: Path, sentences: Sequence[str]) -> bool:
    """Whether another person's recording is spoken with the same bits as by the same run without
    named speakers."""
    with tempfile.TemporaryDirectory() as name:
        recording = Path(name) / "guest.wav"
        sound = judges.teacher(GUEST, voice.REFERENCE_TEXT)
        soundfile.write(recording, sound.numpy(), SPEAKER_RATE)
        alone = Path(name) / "run"
        shutil.copytree(folder, alone, ignore=shutil.ignore_patterns(speakers.FOLDER))
        both = [
            load_voice(VoiceSpec(str(one), reference=recording), ComputeConfig())
            for one in (folder, alone)
        ]
        pairs = zip(*(spoken(one, sentences, 0) for one in both), strict=True)
        return all(torch.equal(one, other) for one, other in pairs)


# ---- two ways to speak ----


def two_ways(folder: Path, names: Sequence[str], sentences: Sequence[str]) -> dict[str, Any]:
    """Of the person and their style: median F0 in Hz and seconds over all sentences, at the source
    and in the run; and in how many sentences the style is lower, and slower."""
    plain, style = names
    opened = load_voice(VoiceSpec(str(folder), speaker=plain), ComputeConfig())
    tagged = [f"[style:{STYLE}]{text}" for text in sentences]
    sounds = {
        "source": [[said_by(name, text) for text in sentences] for name in (plain, style)],
        "run": [spoken(opened, sentences, 0), spoken(opened, tagged, 0)],
    }
    return {who: _apart(*both) for who, both in sounds.items()}


def _apart(plain: Sequence[Tensor], style: Sequence[Tensor]) -> dict[str, float]:
    pitches = [[float(judges.fundamental(one).median()) for one in of] for of in (plain, style)]
    seconds = [[len(one) / SPEAKER_RATE for one in of] for of in (plain, style)]
    lower = sum(other < one for one, other in zip(*pitches, strict=True))
    slower = sum(other > one for one, other in zip(*seconds, strict=True))
    medians = [float(torch.tensor(of).median()) for of in pitches]
    return {
        "plain_hz": round(medians[0], 1), "style_hz": round(medians[1], 1),
        "plain_seconds": round(sum(seconds[0]), 1), "style_seconds": round(sum(seconds[1]), 1),
        "lower": lower, "slower": slower, "sentences": len(plain),
    }  # fmt: skip
