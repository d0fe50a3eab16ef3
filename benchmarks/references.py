"""`python -m benchmarks references` speaks from one recording of a person, and from ten of them.

Ten are combined as this project does, in turns within one reference (`xtts.joined_reference`), and
as Coqui does: the latents of the files one after the other, of which the first seconds are heard,
and the mean of the files' speaker embeddings (`Xtts.get_conditioning_latents`). One recording is
another one of the ten with each seed, so that its figures are not one recording's luck. The
embedded voice speaks, which has never heard the person. Intervals are bootstrap ones over texts.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import soundfile
import torch
from torch import Tensor

from benchmarks import judges, texts
from xtts.audio import SPEAKER_RATE, VOCODER_RATE, resample
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.speech import synthesize
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.voice import Voice, read_reference, speaker, voice_from_reference
from xtts.joined_reference import Reference
from xtts.model.loading import Model
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec

LANGUAGE = "en"
# The recordings say sentences of the choosing set of as many words: 3 to 6 seconds each.
WORDS = range(9, 17)
RESAMPLES = 2000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--speak-as", default="lyubov", help="a person whom the base never heard")
    parser.add_argument("--recordings", type=int, default=10)
    parser.add_argument("--set", choices=texts.FILES, default="reporting", help="set of sentences")
    parser.add_argument("--sentences", type=int, default=None, help="of the set")
    parser.add_argument("--seeds", type=int, default=3)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Figures of each way with their intervals, and what each differs by from one recording."""
    name = arguments.speak_as
    lines = texts.sentences(arguments.set)[: arguments.sentences]
    source = [judges.teacher(name, text) for text in lines]
    opened: Any = load_voice(VoiceSpec("demo", tos_agreed=True), ComputeConfig())
    model, seeds = opened.model, range(arguments.seeds)
    with tempfile.TemporaryDirectory() as folder:
        files = recordings(Path(folder), name, arguments.recordings)
        ways = {
            "one": [heard(model, files[seed % len(files)]) for seed in seeds],
            "in turns": [heard(model, tuple(files)) for _ in seeds],
            "as Coqui joins": [as_coqui_joins(model, files) for _ in seeds],
        }
    found = {way: Rows.of(opened, lines, source, voices) for way, voices in ways.items()}
    return {
        "own_word_errors": judges.word_errors(lines, list(map(judges.words_heard, source))),
        "ways": {way: rows.figures() for way, rows in found.items()},
        "less than one": {
            way: rows.less_than(found["one"]) for way, rows in found.items() if way != "one"
        },
    }


# ---- ways to hear a person ----


def recordings(folder: Path, name: str, count: int) -> list[Path]:
    """That many recordings of a person, of no text that is judged."""
    lines = [line for line in texts.sentences("choosing") if texts.num_words(line) in WORDS]
    files = [folder / f"{number}.wav" for number in range(1, count + 1)]
    for file, line in zip(files, lines[:count], strict=True):
        soundfile.write(file, judges.teacher(name, line).numpy(), SPEAKER_RATE)
    return files


def heard(model: Model, reference: Reference) -> Voice:
    """One recording, or several in turns."""
    return voice_from_reference(model, read_reference(model.config, reference))


def as_coqui_joins(model: Model, files: Sequence[Path]) -> Voice:
    """All recordings, as `Xtts.get_conditioning_latents` (TTS/tts/models/xtts.py) takes a list."""
    clips = [read_reference(model.config, file) for file in files]
    embeddings = torch.stack([speaker(model, clip) for clip in clips])
    return replace(voice_from_reference(model, torch.cat(clips)), speaker=embeddings.mean(0))


# ---- figures ----


@dataclass(frozen=True)
class Rows:
    """Each text's figures, [texts], sums over the seeds: word errors, words, and distance."""

    errors: Tensor
    words: Tensor
    distance: Tensor

    @staticmethod
    def of(
        opened: LoadedVoice, lines: Sequence[str], source: Sequence[Tensor], voices: Sequence[Voice]
    ) -> "Rows":
        """What the voice of each seed says, under the guard, as it is served."""
        rows = torch.tensor([
            [_row(spoken(opened, one, line, seed), own, line) for seed, one in enumerate(voices)]
            for line, own in zip(lines, source, strict=True)
        ])  # fmt: skip
        errors, words, distance = rows.sum(1).T
        return Rows(errors, words, distance / len(voices))

    def figures(self) -> Mapping[str, float]:
        """Means with 95 % intervals."""
        return {
            "word_errors": float(self.errors.sum() / self.words.sum()),
            **_interval(
                "word_errors", [self.errors[s].sum() / self.words[s].sum() for s in self._draws()]
            ),
            "distance": float(self.distance.mean()),
            **_interval("distance", [self.distance[s].mean() for s in self._draws()]),
        }  # fmt: skip

    def less_than(self, other: "Rows") -> Mapping[str, float]:
        """Which share of the other's distance, and how many points of its word errors, this way has
        less, text against text."""
        points = (other.errors - self.errors) / self.words.sum()
        nearer = other.distance - self.distance
        return {
            "word_errors": float(points.sum()),
            **_interval("word_errors", [points[s].sum() for s in self._draws()]),
            "distance": float(nearer.sum() / other.distance.sum()),
            **_interval(
                "distance", [nearer[s].sum() / other.distance[s].sum() for s in self._draws()]
            ),
        }

    def _draws(self) -> Tensor:
        """Texts drawn with replacement, [resamples, texts]; the same ones for each figure."""
        count = len(self.words)
        generator = torch.Generator().manual_seed(0)
        return torch.randint(count, (RESAMPLES, count), generator=generator)


def _interval(name: str, values: Sequence[Tensor]) -> dict[str, float]:
    low, high = torch.stack(list(values)).quantile(torch.tensor([0.025, 0.975])).tolist()
    return {f"{name}_low": low, f"{name}_high": high}


def spoken(opened: Any, whose: Voice, line: str, seed: int) -> Tensor:
    """A text by a voice, [samples] at 16 kHz."""
    request = SynthesisRequest(line, LANGUAGE, seed)
    wave = synthesize(opened.backend(), whose, request, opened.guard(request))
    return resample(torch.as_tensor(wave), VOCODER_RATE, SPEAKER_RATE)


def _row(sound: Tensor, own: Tensor, line: str) -> tuple[float, float, float]:
    errors, words = judges.counted_errors(line, judges.words_heard(sound))
    return float(errors), float(words), judges.distance(sound, own)
