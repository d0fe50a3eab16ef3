"""`python -m benchmarks decoder` measures what a learned decoder costs and changes.

The decoder learns from the first --clips of the demo dataset, for the base's GPT or for --weights
of a run. Sentences of the reporting set, recorded by the same person and in no training, are then
spoken from their own codes with the base's decoder and with the learned one. Both are compared with
the recordings, with which they run in step (`benchmarks.judges.heard_in_step`).

`--full` is XTTS-v2's size with random weights; it gives only the cost, and so does --folder.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks import judges, measuring, synthetic, texts
from xtts import audio
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.voice import read_reference
from xtts.model import loading, vocoder
from xtts.model.vocoder import Vocoder
from xtts.voices import learned_decoder
from xtts.voices.base_models import DEMO
from xtts.workers import decoder_learning
from xtts.workers.file_synthesis import FileSpeaker
from xtts.workers.requests import LearnDecoderRequest, TranscribedClip

DATA = Path("train/data/demo")
PERSON = "awb"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    synthetic.add_base_arguments(parser)
    parser.add_argument("--clips", type=int, default=64, help="clips to learn from, or to judge by")
    parser.add_argument("--steps", type=int, default=decoder_learning.STEPS)
    parser.add_argument("--seconds", type=float, default=3600.0, help="time limit of learning")
    parser.add_argument("--weights", type=Path, help="a run's checkpoint instead of the base's GPT")
    parser.add_argument("--share", type=float, default=1.0, help="share of those weights")
    parser.add_argument("--sentences", type=int, help="number of sentences of the set")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--out", type=Path, help="file for the decoder's tensors")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The cost of learning and, for the embedded base, the audible differences."""
    random = arguments.full or arguments.folder is not None
    with tempfile.TemporaryDirectory() as name:
        base = DEMO
        if random:
            base = synthetic.write_base(arguments.folder or Path(name), full=arguments.full)
        speaker = FileSpeaker(base, ComputeConfig(arguments.device, arguments.device, "fp32"))
        out = arguments.out or Path(name) / "decoder.safetensors"
        found = {"learning": _learn(speaker, arguments, out)}
        return found if random else found | {"ear": _heard(speaker, arguments, out)}


def _learn(speaker: FileSpeaker, arguments: argparse.Namespace, out: Path) -> dict[str, float]:
    """Seconds and memory, and the distances by which a run decides."""
    ticks: list[float] = []

    def progress(done: float) -> None:
        if done:
            ticks.append(time.perf_counter())

    before = measuring.memory_bytes("VmRSS")
    began = time.perf_counter()
    found = speaker.ask(
        LearnDecoderRequest(
            _demo_clips(arguments.clips), DEMO / "reference.wav", out, arguments.weights,
            arguments.share if arguments.weights else 0.0, arguments.steps, arguments.seconds,
        ),
        progress,
    )  # fmt: skip
    steps = [after - one for one, after in itertools.pairwise(ticks)]
    return {
        "clips": found.clips,
        "steps": found.steps,
        "seconds": round(found.seconds, 1),
        "prepared": round(ticks[0] - began, 1),
        "step": round(statistics.median(steps), 4) if steps else 0.0,
        "peak_gb": round(measuring.memory_bytes("VmHWM") / 1e9, 2),
        "before_gb": round(before / 1e9, 2),
        "distance_before": found.distance_before,
        "distance_after": found.distance_after,
    }


def _heard(
    speaker: FileSpeaker, arguments: argparse.Namespace, learned: Path
) -> dict[str, dict[str, float]]:
    """Means over the sentences, for recordings and their resynthesis."""
    reading = speaker.reading(arguments.weights)
    reference = read_reference(reading.config, DEMO / "reference.wav")
    share = arguments.share if arguments.weights else 1.0
    model, whose = speaker.speaking(reading, reference, arguments.weights, share)
    dvae = vocoder.load_dvae(speaker.base, model.config)
    published = vocoder.load_vocoder(loading.read_tensors(speaker.base / "model.pth"), model.config)
    decoders: dict[str, Vocoder] = {
        "base": published.to(model.device),
        "learned": model.another_vocoder(learned_decoder.read_tensors(learned)),
    }
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in decoders}
    words: dict[str, list[str]] = {name: [] for name in ("recording", *decoders)}
    sentences = texts.sentences("reporting")[: arguments.sentences]
    said = []
    with tempfile.TemporaryDirectory() as name, torch.inference_mode():
        for number, text in enumerate(sentences):
            path = Path(name) / f"{number}.wav"
            audio.write_wav(path, judges.teacher(PERSON, text), audio.SPEAKER_RATE)
            clip = TranscribedClip(path, text, "en")
            spoken = decoder_learning.spoken_latents(model, whose, dvae, clip)
            if spoken is None:  # too short, or longer than the model has learned from
                continue
            said.append(text)
            recording = _at_16_khz(spoken.waveform)
            words["recording"].append(judges.words_heard(recording))
            for decoder, makes in decoders.items():
                sound = _at_16_khz(makes(spoken.latents, whose.speaker)[0].float())
                rows[decoder].append(
                    judges.heard_in_step(sound, recording)
                    | {"distortion_db": judges.cepstral_distortion(sound, recording)}
                )
                words[decoder].append(judges.words_heard(sound))
    heard = {name: {"word_errors": judges.word_errors(said, of)} for name, of in words.items()}
    return {name: heard[name] | _means(rows.get(name, [])) for name in heard}


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    if not rows:
        return {}
    return {name: statistics.fmean(row[name] for row in rows) for name in rows[0]}


def _at_16_khz(sound: Tensor) -> Tensor:
    return audio.resample(sound.cpu(), audio.VOCODER_RATE, audio.SPEAKER_RATE)


def _demo_clips(count: int) -> tuple[TranscribedClip, ...]:
    lines = (DATA / "metadata.csv").read_text(encoding="utf-8").splitlines()[:count]
    named = [line.split("|")[:2] for line in lines]
    return tuple(
        TranscribedClip(next((DATA / "wavs").glob(f"{name}.*")), text, "en") for name, text in named
    )
