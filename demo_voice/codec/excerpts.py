"""Training examples of the codec: random excerpts of clips, with random vocal tract and channel.

Deterministic for a step.
"""

import random
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from demo_voice.teachers.phone_timing import UNKNOWN
from xtts.audio import MEL_HOP, SAMPLES_PER_CODE

FRAMES = 128
FRAMES_PER_CODE = SAMPLES_PER_CODE // MEL_HOP
# A code lasts 46 ms; two phones may sound in it.
HALVES = 2
# Bands are moved by at most this share of their number.
STRETCH = 0.15
# In standard deviations of the bands: the loudness first, then slower and faster ripples.
FILTER = (0.3, 0.5, 0.4, 0.35, 0.25, 0.25, 0.15, 0.15)


class Excerpts:
    """Excerpts of clips.

    Args:
        mels: `[80, frames]` of each clip.
        people: Who speaks each.
        phones: What sounds in each frame of each, `[frames]`.
    """

    def __init__(
        self, mels: Sequence[Tensor], people: Sequence[str], phones: Sequence[Tensor]
    ) -> None:
        self.mels, self.phones = mels, phones
        self.means = mean_spectra(mels, people)

    def segments(self, step: int, count: int) -> tuple[Tensor, Tensor]:
        """(heard, wanted), each [count, 80, FRAMES], from random places, the same for a step.

        A person's mean is not wanted back, nor what throat and microphone did: a code that had to
        say who speaks would say it instead of the phone.
        """
        cut, wanted = [], []
        for clip, start in self.places(step, count):
            mel = self.mels[clip][:, start : start + FRAMES].float()
            # Repeats its last frame, which is silence.
            cut.append(F.pad(mel, (0, FRAMES - mel.shape[1]), mode="replicate"))
            wanted.append(cut[-1] - self.means[clip])
        generator = torch.Generator().manual_seed(step + 1_000_000)
        heard = filtered(stretched(torch.stack(cut), generator), generator)
        return heard, torch.stack(wanted)

    def labels(self, step: int, count: int) -> Tensor:
        """[count, codes, 2]: which phone sounds in each half of each code of a step's segments."""
        found = torch.full((count, FRAMES), UNKNOWN)
        for row, (clip, start) in enumerate(self.places(step, count)):
            part = self.phones[clip][start : start + FRAMES]
            found[row, : len(part)] = part
        per_half = FRAMES_PER_CODE // HALVES
        return found.view(count, -1, HALVES, per_half)[..., per_half // 2]

    def places(self, step: int, count: int) -> list[tuple[int, int]]:
        """(clip, first frame) of the segments of a step."""
        draw = random.Random(f"segments/{step}")
        clips = draw.choices(range(len(self.mels)), k=count)
        return [
            (clip, draw.randint(0, max(0, self.mels[clip].shape[1] - FRAMES))) for clip in clips
        ]


def mean_spectra(mels: Sequence[Tensor], people: Sequence[str]) -> list[Tensor]:
    """For each clip the mean spectrum [80, 1] of all that the same person says."""
    sums: dict[str, tuple[Tensor, int]] = {}
    for mel, name in zip(mels, people, strict=True):
        total, frames = sums.get(name, (torch.zeros(len(mel), 1), 0))
        sums[name] = total + mel.float().sum(1, keepdim=True), frames + mel.shape[1]
    means = {name: total / frames for name, (total, frames) in sums.items()}
    return [means[name] for name in people]


def stretched(mels: Tensor, generator: torch.Generator) -> Tensor:
    """Half of [count, 80, frames] as if another throat had made them, pitch and all: the bands are
    stretched (https://arxiv.org/abs/1301.5143). A voice that no teacher has must find codes too."""
    half, bands, frames = len(mels) // 2, mels.shape[1], mels.shape[2]
    stretch = 1 + STRETCH * (2 * torch.rand(half, 1, generator=generator) - 1)
    source = ((torch.linspace(-1, 1, bands) + 1) * stretch - 1).clamp(max=1)
    across = torch.linspace(-1, 1, frames).expand(half, bands, frames)
    grid = torch.stack((across, source[:, :, None].expand_as(across)), dim=-1)
    moved = F.grid_sample(mels[:half, None], grid, padding_mode="border", align_corners=True)
    return torch.cat((moved[:, 0], mels[half:]))


def filtered(mels: Tensor, generator: torch.Generator) -> Tensor:
    """Every second of [count, 80, frames] as another microphone would have heard it. The codes are
    to say what it would be without: who speaks is left to the vocoder, and the timbre of a voice
    that no teacher has (awb's bands lie up to 1.3 deviations off slt's) takes no codes of its own.
    """
    bands = mels.shape[1]
    waves = torch.cos(torch.arange(len(FILTER))[:, None] * torch.pi * torch.arange(bands) / bands)
    gains = torch.randn(len(mels), len(FILTER), generator=generator) * torch.tensor(FILTER)
    gains[1::2] = 0.0
    return mels + (gains @ waves)[:, :, None]
