"""The teachers' clips: written in shards by many processes, loaded as a whole onto the device.

A shard holds 24 kHz samples, pitches and phones of some clips, and a list with their texts and
persons. It is written atomically, so a stopped run can resume.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from demo_voice.recipe import CHARACTERS
from demo_voice.teachers.hibari import RATE, Spoken
from xtts.audio import CODE_RATE, MEL_BANDS, MEL_HOP, SAMPLES_PER_CODE, conditioning_mel, dvae_mel

FRAMES_PER_CODE = SAMPLES_PER_CODE // MEL_HOP
MEL_PER_CODE = FRAMES_PER_CODE * MEL_BANDS
_AT_ONCE = 48


@dataclass(frozen=True)
class Clip:
    """A clip's text and person, and the numbers of its samples and codes."""

    text: str
    person: str
    samples: int
    codes: int


def write_shard(path: Path, spoken: Sequence[Spoken], labels: Sequence[tuple[str, str]]) -> None:
    """Writes clips and their (text, person)."""
    clips = [
        (text, who, len(clip.wave), len(clip.pitch)) for (text, who), clip in zip(labels, spoken, strict=True)
    ]
    waiting = path.with_suffix(".part")
    with waiting.open("wb") as file:  # given the name, numpy would append .npz
        np.savez(
            file,
            allow_pickle=False,
            wave=np.concatenate([clip.wave for clip in spoken]),
            pitch=np.concatenate([clip.pitch for clip in spoken]),
            phones=np.concatenate([clip.phones for clip in spoken]),
            clips=np.array(json.dumps(clips)),
        )
    waiting.replace(path)


class Speech:
    """All clips of a folder on one device, except those too long for the GPT.

    Attributes:
        wave: All samples, int16.
        starts, counts: Each clip's first sample and its length; `code_starts` and `codes` in codes.
        persons: The number of each clip's person in `names`.
        pitch, phones: `[codes, 4]` and `[codes, 2]` of all clips.
    """

    def __init__(self, folder: Path, device: torch.device, longest: int) -> None:
        waves, pitches, phones, self.clips = [], [], [], []
        for path in sorted(folder.glob("shard_*.npz")):
            with np.load(path) as shard:
                wave, pitch, phone = (shard[key] for key in ("wave", "pitch", "phones"))
                rows = [Clip(*row) for row in json.loads(str(shard["clips"]))]
            start, code = 0, 0
            for clip in rows:
                if 8 <= clip.codes <= longest:
                    waves.append(wave[start : start + clip.samples])
                    pitches.append(pitch[code : code + clip.codes])
                    phones.append(phone[code : code + clip.codes])
                    self.clips.append(clip)
                start, code = start + clip.samples, code + clip.codes
        self.device = device
        self.names = sorted({clip.person for clip in self.clips})
        number = {name: index for index, name in enumerate(self.names)}
        self.wave = torch.from_numpy(np.concatenate(waves)).to(device)
        self.pitch = torch.from_numpy(np.concatenate(pitches)).to(device)
        self.phones = torch.from_numpy(np.concatenate(phones)).to(device)
        self.counts = torch.tensor([clip.samples for clip in self.clips], device=device)
        self.codes = torch.tensor([clip.codes for clip in self.clips], device=device)
        self.starts = self.counts.cumsum(0) - self.counts
        self.code_starts = self.codes.cumsum(0) - self.codes
        self.persons = torch.tensor([number[clip.person] for clip in self.clips], device=device)

    def __len__(self) -> int:
        return len(self.clips)

    def excerpts(self, clips: Tensor, first: Tensor, length: int) -> Tensor:
        """Samples `[clips, length]` at 24 kHz, float32, from `first` on; zeros beyond the end."""
        places = first[:, None] + torch.arange(length, device=self.device)
        real = places < self.counts[clips][:, None]
        at = (self.starts[clips][:, None] + places).clamp(max=len(self.wave) - 1)
        return self.wave[at].float().div(32768) * real

    @cached_property
    def of_person(self) -> list[Tensor]:
        """The clips of each person."""
        order = self.persons.cpu()
        return [torch.nonzero(order == person).flatten().to(self.device) for person in range(len(self.names))]

    def others(self, clips: Tensor, generator: torch.Generator) -> Tensor:
        """For each clip, another clip of the same person; the same one if there is no other."""
        order, starts, sizes, ranks = self._by_person
        persons = self.persons[clips]
        drawn = torch.rand(len(clips), generator=generator).to(self.device)
        place = (drawn * (sizes[persons] - 1)).long()
        place = place + (place >= ranks[clips]).long()
        return order[starts[persons] + torch.minimum(place, sizes[persons] - 1)]

    @cached_property
    def _by_person(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """All clips ordered by person, each person's first place and number of clips, and each
        clip's rank among its person's."""
        sizes = torch.tensor([len(clips) for clips in self.of_person], device=self.device)
        order, starts = torch.cat(self.of_person), sizes.cumsum(0) - sizes
        ranks = torch.empty_like(order)
        ranks[order] = torch.arange(len(order), device=self.device) - starts[self.persons[order]]
        return order, starts, sizes, ranks


class Mels:
    """The DVAE's mel and the conditioning's mel of every clip, float16, four frames per code.

    Attributes:
        codec, heard: `[frames, 80]` each; clip `i` begins at frame `4 * speech.code_starts[i]`.
    """

    def __init__(self, speech: Speech, mel_stats: Tensor | None = None) -> None:
        self.speech = speech
        total = int(speech.codes.sum()) * FRAMES_PER_CODE
        self.codec, self.heard = (
            torch.zeros(total, MEL_BANDS, dtype=torch.float16, device=speech.device) for _ in range(2)
        )
        order = speech.counts.argsort()
        resample = resampler(CODE_RATE).to(speech.device)
        stats = torch.ones(MEL_BANDS) if mel_stats is None else mel_stats
        for clips in order.split(_AT_ONCE):
            longest = int(speech.codes[clips].max())
            length = longest * SAMPLES_PER_CODE * RATE // CODE_RATE + RATE // 100
            wave = speech.excerpts(clips, torch.zeros_like(clips), length)
            wave = resample(wave)[:, : longest * SAMPLES_PER_CODE]
            wave = F.pad(wave, (0, longest * SAMPLES_PER_CODE - wave.shape[1]))
            frames = torch.arange(longest * FRAMES_PER_CODE, device=speech.device)
            real = frames < (speech.codes[clips] * FRAMES_PER_CODE)[:, None]
            places = (speech.code_starts[clips] * FRAMES_PER_CODE)[:, None] + frames
            for store, mel in ((self.codec, dvae_mel), (self.heard, conditioning_mel)):
                rows = mel(wave, stats)[:, :, : len(frames)].transpose(1, 2)
                store[places[real]] = rows[real].half()

    def scales(self) -> Tensor:
        """`mel_stats` `[80]`: each band's standard deviation. Coqui's front-end divides by it but
        does not subtract the mean, so the biases learn it."""
        return self.codec[:: max(1, len(self.codec) // 2_000_000)].float().std(0).clamp(min=1.0).cpu()

    def scale(self, mel_stats: Tensor) -> None:
        """Divides all frames by `mel_stats`."""
        divisor = mel_stats.to(self.codec.device).half()
        for store in (self.codec, self.heard):
            for part in store.split(1_000_000):
                part.div_(divisor)

    def of_person(self) -> Tensor:
        """The mean frame of each person's codec mel, `[persons, 80]`."""
        owner = self.speech.persons.repeat_interleave(self.speech.codes * FRAMES_PER_CODE)
        sums = torch.zeros(len(self.speech.names), MEL_BANDS, device=self.codec.device)
        sums.index_add_(0, owner, self.codec.float())
        return sums / owner.bincount(minlength=len(sums)).clamp(min=1)[:, None]


def resampler(rate: int) -> torch.nn.Module:
    """From 24 kHz to `rate`."""
    from torchaudio.transforms import Resample

    return Resample(RATE, rate)


def token_ids(text: str) -> list[int]:
    """The ids that `xtts.text.tokenizer.Tokenizer` returns for a sentence without numbers, computed
    much faster. A test compares the two."""
    from xtts.text.pronunciations import to_phones

    ids = {token: number for number, token in enumerate(CHARACTERS)}
    ids[" "] = ids["[SPACE]"]
    return [ids["[en]"], *(ids[phone] for phone in to_phones(text))]
