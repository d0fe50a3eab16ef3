"""The teachers' clips: written in shards by many processes, loaded as a whole onto the device.

A shard holds 24 kHz samples, pitches and phones of some clips, and a list with their texts and
persons. It is written atomically, so a stopped run can resume.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from demo_voice.recipe import CHARACTERS
from demo_voice.teachers.hibari import RATE, Spoken
from xtts.audio import CODE_RATE, MEL_BANDS, MEL_HOP, SAMPLES_PER_CODE, conditioning_mel, dvae_mel

FRAMES_PER_CODE = SAMPLES_PER_CODE // MEL_HOP
MEL_PER_CODE = FRAMES_PER_CODE * MEL_BANDS
_CLIPS_PER_BATCH = 48
_MIN_CODES = 8


@dataclass(frozen=True)
class Clip:
    """A clip's text and person, and its length in samples and codes."""

    text: str
    person: str
    num_samples: int
    num_codes: int


def write_shard(path: Path, spoken: Sequence[Spoken], labels: Sequence[tuple[str, str]]) -> None:
    """Writes clips and their (text, person)."""
    clips = [
        (text, person, len(clip.wave), len(clip.pitch))
        for (text, person), clip in zip(labels, spoken, strict=True)
    ]
    part = path.with_suffix(".part")
    with part.open("wb") as file:  # given the name, numpy would append .npz
        np.savez(
            file,
            allow_pickle=False,
            wave=np.concatenate([clip.wave for clip in spoken]),
            pitch=np.concatenate([clip.pitch for clip in spoken]),
            phones=np.concatenate([clip.phones for clip in spoken]),
            clips=np.array(json.dumps(clips)),
        )
    part.replace(path)


class Speech:
    """All clips of a folder on one device, except those too long for the GPT.

    Attributes:
        wave: All samples, int16.
        starts, num_samples: Each clip's first sample and its length.
        code_starts, num_codes: The same in codes.
        persons: The number of each clip's person in `names`.
        pitch, phones: `[codes, 4]` and `[codes, 2]` of all clips.
    """

    def __init__(self, folder: Path, device: torch.device, max_codes: int) -> None:
        waves, pitches, phones, self.clips = [], [], [], []
        for path in sorted(folder.glob("shard_*.npz")):
            with np.load(path) as shard:
                wave, pitch, phone = (shard[key] for key in ("wave", "pitch", "phones"))
                clips = [Clip(*row) for row in json.loads(str(shard["clips"]))]
            start, code = 0, 0
            for clip in clips:
                end, code_end = start + clip.num_samples, code + clip.num_codes
                if _MIN_CODES <= clip.num_codes <= max_codes:
                    waves.append(wave[start:end])
                    pitches.append(pitch[code:code_end])
                    phones.append(phone[code:code_end])
                    self.clips.append(clip)
                start, code = end, code_end
        self.device = device
        self.names = sorted({clip.person for clip in self.clips})
        number_of = {name: index for index, name in enumerate(self.names)}
        self.wave = torch.from_numpy(np.concatenate(waves)).to(device)
        self.pitch = torch.from_numpy(np.concatenate(pitches)).to(device)
        self.phones = torch.from_numpy(np.concatenate(phones)).to(device)
        self.num_samples = torch.tensor([clip.num_samples for clip in self.clips], device=device)
        self.num_codes = torch.tensor([clip.num_codes for clip in self.clips], device=device)
        self.starts = self.num_samples.cumsum(0) - self.num_samples
        self.code_starts = self.num_codes.cumsum(0) - self.num_codes
        self.persons = torch.tensor([number_of[clip.person] for clip in self.clips], device=device)

    def __len__(self) -> int:
        return len(self.clips)

    def excerpts(self, clips: Tensor, first: Tensor, length: int) -> Tensor:
        """Samples `[clips, length]` at 24 kHz, float32, from `first` on; zeros beyond the end."""
        offsets = first[:, None] + torch.arange(length, device=self.device)
        is_inside = offsets < self.num_samples[clips][:, None]
        positions = (self.starts[clips][:, None] + offsets).clamp(max=len(self.wave) - 1)
        return self.wave[positions].float().div(32768) * is_inside

    @cached_property
    def clips_of_person(self) -> list[Tensor]:
        """The clips of each person."""
        persons, numbers = self.persons.cpu(), range(len(self.names))
        return [torch.nonzero(persons == number).flatten().to(self.device) for number in numbers]

    def draw_others(self, clips: Tensor, generator: torch.Generator) -> Tensor:
        """For each clip, another clip of the same person; the same one if there is no other."""
        by_person, persons = self._by_person, self.persons[clips]
        num_others = by_person.sizes[persons] - 1
        drawn = torch.rand(len(clips), generator=generator).to(self.device)
        rank = (drawn * num_others).long()
        rank = rank + (rank >= by_person.ranks[clips]).long()
        return by_person.clips[by_person.starts[persons] + torch.minimum(rank, num_others)]

    @cached_property
    def _by_person(self) -> "_ClipsByPerson":
        sizes = torch.tensor([len(clips) for clips in self.clips_of_person], device=self.device)
        clips, starts = torch.cat(self.clips_of_person), sizes.cumsum(0) - sizes
        ranks = torch.empty_like(clips)
        ranks[clips] = torch.arange(len(clips), device=self.device) - starts[self.persons[clips]]
        return _ClipsByPerson(clips, starts, sizes, ranks)


class _ClipsByPerson(NamedTuple):
    """All clips ordered by person; each person's first index in them and number of clips; and the
    rank of each clip among those of its person."""

    clips: Tensor
    starts: Tensor
    sizes: Tensor
    ranks: Tensor


class Mels:
    """The DVAE's mel and the conditioning's mel of every clip, float16, four frames per code.

    Attributes:
        codec, conditioning: `[frames, 80]` each; clip `i` begins at frame `4 * code_starts[i]`.
    """

    def __init__(self, speech: Speech, mel_stats: Tensor | None = None) -> None:
        self.speech = speech
        num_frames = int(speech.num_codes.sum()) * FRAMES_PER_CODE
        self.codec, self.conditioning = (
            torch.zeros(num_frames, MEL_BANDS, dtype=torch.float16, device=speech.device) for _ in range(2)
        )
        clips_by_length = speech.num_samples.argsort()
        resample = new_resampler(CODE_RATE).to(speech.device)
        stats = torch.ones(MEL_BANDS) if mel_stats is None else mel_stats
        for clips in clips_by_length.split(_CLIPS_PER_BATCH):
            max_codes = int(speech.num_codes[clips].max())
            length = max_codes * SAMPLES_PER_CODE * RATE // CODE_RATE + RATE // 100
            wave = speech.excerpts(clips, torch.zeros_like(clips), length)
            wave = resample(wave)[:, : max_codes * SAMPLES_PER_CODE]
            wave = F.pad(wave, (0, max_codes * SAMPLES_PER_CODE - wave.shape[1]))
            frames = torch.arange(max_codes * FRAMES_PER_CODE, device=speech.device)
            is_inside = frames < (speech.num_codes[clips] * FRAMES_PER_CODE)[:, None]
            positions = (speech.code_starts[clips] * FRAMES_PER_CODE)[:, None] + frames
            for mels, mel_of in ((self.codec, dvae_mel), (self.conditioning, conditioning_mel)):
                rows = mel_of(wave, stats)[:, :, : len(frames)].transpose(1, 2)
                mels[positions[is_inside]] = rows[is_inside].half()

    def compute_scales(self) -> Tensor:
        """`mel_stats` `[80]`: each band's standard deviation. Coqui's front-end divides by it but
        does not subtract the mean, so the biases learn it."""
        return self.codec[:: max(1, len(self.codec) // 2_000_000)].float().std(0).clamp(min=1.0).cpu()

    def divide(self, mel_stats: Tensor) -> None:
        """Divides all frames by `mel_stats`."""
        divisor = mel_stats.to(self.codec.device).half()
        for mels in (self.codec, self.conditioning):
            for part in mels.split(1_000_000):
                part.div_(divisor)

    def person_means(self) -> Tensor:
        """The mean frame of each person's codec mel, `[persons, 80]`."""
        persons = self.speech.persons.repeat_interleave(self.speech.num_codes * FRAMES_PER_CODE)
        sums = torch.zeros(len(self.speech.names), MEL_BANDS, device=self.codec.device)
        sums.index_add_(0, persons, self.codec.float())
        return sums / persons.bincount(minlength=len(sums)).clamp(min=1)[:, None]


def new_resampler(rate: int) -> torch.nn.Module:
    """Resamples from 24 kHz to `rate`."""
    from torchaudio.transforms import Resample

    return Resample(RATE, rate)


def token_ids(text: str) -> list[int]:
    """The ids that `xtts.text.tokenizer.Tokenizer` returns for a sentence without numbers, computed
    much faster. A test compares the two."""
    from xtts.text.pronunciations import to_phones

    ids = {token: number for number, token in enumerate(CHARACTERS)}
    ids[" "] = ids["[SPACE]"]
    return [ids["[en]"], *(ids[phone] for phone in to_phones(text))]
