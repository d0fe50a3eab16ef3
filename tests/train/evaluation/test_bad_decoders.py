"""Decoders learned from clips that are no good: left out with the reason, or no worse than none.

Five draws of four cases on the embedded base, which speaks from a recording of awb. Each decoder is
decided about as a run does (`train.evaluation.person_decoder`): by clips that it did not learn
from, and by the words of sentences. What is kept is then held against the decoder of the base on
other recordings of awb, which none of them has learned from.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from benchmarks import judges as heard
from benchmarks import texts
from train.dataset.metadata import read_entries
from train.evaluation.judges import mean_interval, paired_difference
from xtts import audio
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices.base_models import DEMO
from xtts.voices.learned_decoder import LearnedDecoder
from xtts.workers.decoder_learning import DecoderLearningError
from xtts.workers.file_synthesis import FileSpeaker
from xtts.workers.requests import (
    EvaluateRequest,
    LearnDecoderRequest,
    SentenceTask,
    SpeakingRate,
    TranscribedClip,
)

PERSON, OTHER, RATE = "awb", "slt", 16_000
DRAWS, CLIPS, STEPS, SENTENCES = 5, 24, 60, 16
NOISE_DB, GAIN = -10.0, 12.0
Samples = np.ndarray

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(3000)]


def noisy(waves: list[Samples], draw: np.random.Generator) -> list[Samples]:
    """White noise 10 dB under each clip."""
    return [
        wave + draw.normal(size=len(wave)) * wave.std() * 10 ** (NOISE_DB / 20) for wave in waves
    ]


def clipped(waves: list[Samples], _: np.random.Generator) -> list[Samples]:
    return [np.clip(GAIN * wave, -1, 1) for wave in waves]


def few(waves: list[Samples], _: np.random.Generator) -> list[Samples]:
    return waves[:4]


Spoil = Callable[[list[Samples], np.random.Generator], list[Samples]]
# Who says the clips, and what is done to their sound.
CASES: dict[str, tuple[str, Spoil]] = {
    "four clips": (PERSON, few),
    "noise": (PERSON, noisy),
    "another person": (OTHER, lambda waves, _: waves),
    "clipped": (PERSON, clipped),
}


class Ground(NamedTuple):
    """The base that speaks, awb's recording, and awb's own sound of the sentences."""

    speaker: FileSpeaker
    reference: Path
    folder: Path
    own: list[torch.Tensor]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    folder = tmp_path_factory.mktemp("decoders")
    reference = folder / "reference.wav"
    audio.write_wav(reference, heard.teacher(PERSON, texts.sentences("choosing")[-1]), RATE)
    speaker = FileSpeaker(DEMO, ComputeConfig(precision="fp32"))
    own = [heard.teacher(PERSON, text) for text in _sentences()]
    return Ground(speaker, reference, folder, own)


def _sentences() -> list[str]:
    return [one for one in texts.sentences("choosing") if 4 <= len(one.split()) <= 12][:SENTENCES]


# Words alone decide whether a decoder is kept: one that learned another person's voice is further
# from the reference, and only a judge of voices would say so.
UNJUDGED = pytest.mark.xfail(reason="the voice of a learned decoder is not judged", strict=False)


@pytest.mark.parametrize("draw", range(DRAWS))
@pytest.mark.parametrize(
    "case",
    [pytest.param(one, marks=UNJUDGED) if one == "another person" else one for one in CASES],
)
def test_a_bad_decoder_is_left_out_or_no_worse_than_none(ground, case, draw):
    who, spoil = CASES[case]
    entries = read_entries(Path("train/data/demo"), "auto", "en")
    chosen = random.Random(draw).sample(entries, CLIPS)
    waves = [heard.teacher(who, one.text).numpy() for one in chosen]
    folder = ground.folder / f"{case} {draw}"
    folder.mkdir()
    clips = []
    for wave, entry in zip(spoil(waves, np.random.default_rng(draw)), chosen, strict=False):
        path = folder / f"{entry.path.stem}.wav"
        audio.write_wav(path, torch.from_numpy(wave.astype(np.float32)), RATE)
        clips.append(TranscribedClip(path, entry.text, "en"))
    out = folder / "decoder.safetensors"
    request = LearnDecoderRequest(
        tuple(clips), ground.reference, out, None, 0.0, STEPS, 600.0, seed=draw
    )
    try:
        found = ground.speaker.ask(request)
    except DecoderLearningError as error:
        assert case == "four clips" and "at least 4 clips" in str(error)
        return
    learned = LearnedDecoder(
        0, 0.0, "", found.distance_before, found.distance_after, found.clips, found.steps
    )
    before, after = _spoken(ground, None), _spoken(ground, out)
    more = paired_difference(after.errors, before.errors)
    assert more is not None
    learned = replace(learned, harder=more.low > 0)
    further = mean_interval([b - a for a, b in zip(before.distances, after.distances, strict=True)])
    print(
        f"{case} {draw}: distance {found.distance_before:.3f} to {found.distance_after:.3f}, "
        f"word errors {more.mean:+.3f} (from {more.low:+.3f}), from the person {further}, "
        f"{'kept' if learned.better else 'left out'}"
    )
    if learned.better:
        assert further is not None and further.low <= 0


class Spoken(NamedTuple):
    """errors: word errors of each sentence; distances: of each from the person's own sound."""

    errors: list[float | None]
    distances: list[float]


def _spoken(ground: Ground, decoder: Path | None) -> Spoken:
    folder = ground.folder / ("base" if decoder is None else f"said {decoder.parent.name}")
    folder.mkdir(exist_ok=True)
    tasks = tuple(
        SentenceTask(SynthesisRequest(text, "en", number), out=folder / f"{number}.wav")
        for number, text in enumerate(_sentences())
    )
    said = ground.speaker.ask(
        EvaluateRequest(
            tasks, ground.reference, None, 0.0, SpeakingRate(3.0, 10.0),
            recogniser="pocketsphinx", decoder=decoder,
        )
    )  # fmt: skip
    distances = [
        heard.distance(audio.read(folder / f"{number}.wav", RATE), own)
        for number, own in enumerate(ground.own)
    ]
    return Spoken([one.word_errors for one in said.sentences], distances)
