"""`python -m benchmarks phones`: how well it can be read out of a codec's codes which phone sounds.

A reader (one convolution over three codes) is taught anew for each of flite's voices, with the
phones that flite tells, and asked about sentences that it has not seen: what it cannot read, no
GPT can say with these codes. The sentences are drawn as those of `demo_voice` are, anew.
"""

import argparse
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks import judges
from demo_voice.codec.excerpts import FRAMES_PER_CODE, HALVES
from demo_voice.teachers import phone_timing
from demo_voice.teachers.flite import SpeakingStyle
from demo_voice.text import lexicon, sentences
from xtts.audio import CODE_RATE, SPEAKER_RATE, dvae_mel, resample
from xtts.model.config import ModelConfig
from xtts.model.vocoder import load_dvae
from xtts.voices.base_models import DEMO

# Of every six sentences one is asked about.
ASKED = 6
EPOCHS = 12
LEARNING_RATE, WEIGHT_DECAY = 3e-3, 1e-2
# No stage of `demo_voice` draws its sentences from here.
STREAM = "text/77"
_KINDS = len(phone_timing.NAMES)


@dataclass(frozen=True)
class Read:
    """accuracy: share of half codes (23 ms) whose phone is read; nats: what a phone still costs;
    codes: different ones in all sentences."""

    voice: str
    accuracy: float
    nats: float
    codes: int


def main(argv: Sequence[str]) -> int:
    """Prints a line a voice, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks phones", description=__doc__)
    parser.add_argument("--bundle", type=Path, default=DEMO, help="folder with dvae.pth")
    parser.add_argument("--voices", default="awb,rms,slt", help="of flite's")
    parser.add_argument("--sentences", type=int, default=180)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    drawn = sentences.sentences(lexicon.read(), STREAM, set())
    said = list(itertools.islice(drawn, arguments.sentences))
    found = [read(arguments.bundle, voice, said) for voice in arguments.voices.split(",")]
    if arguments.json:
        print(json.dumps([vars(one) for one in found]))
        return 0
    for one in found:
        print(
            f"{one.voice}: {one.accuracy:.1%} of phones read, {one.nats:.3f} nats a phone, "
            f"{one.codes} codes in use"
        )
    return 0


def read(bundle: Path, voice: str, said: Sequence[str]) -> Read:
    """Teaches a reader with the most of `said` and asks it about the rest. Raises JudgeError,
    TeacherError or ConfigError."""
    dvae = load_dvae(bundle, ModelConfig.read(bundle))
    stats = torch.load(bundle / "mel_stats.pth", map_location="cpu", weights_only=True)
    clips = [heard(dvae, stats, voice, sentence) for sentence in said]
    different = len({int(code) for codes, _, _ in clips for code in codes})
    accuracy, nats = taught([(latents, phones) for _, latents, phones in clips])
    return Read(voice, accuracy, nats, different)


@torch.no_grad()
def heard(dvae: Any, stats: Tensor, voice: str, sentence: str) -> tuple[Tensor, Tensor, Tensor]:
    """Codes [n], their latents [n, width], and which phone sounds in each half [2 n]."""
    samples = resample(judges.teacher(voice, sentence), SPEAKER_RATE, CODE_RATE)
    codes = dvae.get_codebook_indices(dvae_mel(samples[None], stats))
    latents = dvae.codebook.embed_code(codes)[0]
    told = phone_timing.told_by_flite(sentence, SpeakingStyle(voice, voice, Fraction(1)))
    frames = phone_timing.labels(told, len(latents) * FRAMES_PER_CODE).astype("int64")
    per_half = FRAMES_PER_CODE // HALVES
    return codes[0], latents, torch.from_numpy(frames).view(-1, per_half)[:, per_half // 2]


def taught(clips: Sequence[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    """(accuracy, nats) of a new reader about every sixth of (latents [n, width], phones [2 n])."""
    asked = clips[ASKED - 1 :: ASKED]
    shown = [clip for number, clip in enumerate(clips) if number % ASKED != ASKED - 1]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        reader = nn.Conv1d(clips[0][0].shape[1], HALVES * _KINDS, 3, padding=1)
        optimizer = torch.optim.AdamW(
            reader.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY
        )
        for _ in range(EPOCHS):
            for number in torch.randperm(len(shown)).tolist():
                latents, phones = shown[number]
                loss = _loss(reader, latents, phones, "mean")
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    with torch.inference_mode():
        right = sum(int((_told(reader, one).argmax(1) == phones).sum()) for one, phones in asked)
        nats = sum(float(_loss(reader, one, phones, "sum")) for one, phones in asked)
    known = sum(int((phones != phone_timing.UNKNOWN).sum()) for _, phones in asked)
    return right / known, nats / known


def _told(reader: nn.Module, latents: Tensor) -> Tensor:
    found: Tensor = reader(latents.T[None])[0].T.reshape(-1, _KINDS)
    return found


def _loss(reader: nn.Module, latents: Tensor, phones: Tensor, reduction: str) -> Tensor:
    told = _told(reader, latents)
    return F.cross_entropy(told, phones, ignore_index=phone_timing.UNKNOWN, reduction=reduction)
