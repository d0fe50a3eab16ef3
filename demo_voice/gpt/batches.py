"""Batches for the GPT's pretraining: rows of similar length from few pseudo-speakers."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from demo_voice.gpt.passages import Passage, Passages, alone
from demo_voice.gpt.targets import Targets
from demo_voice.recipe import BaseRecipe
from demo_voice.teachers.flite import TeacherSpeech
from demo_voice.teachers.people import PEOPLE
from demo_voice.teachers.timbre import Timbre
from demo_voice.text.sentences import is_judged
from xtts.audio import CODE_RATE, MEL_HOP, conditioning_mel
from xtts.model.packed_batch import PackedBatch, pack

REFERENCES_PER_MANNER = 40
REFERENCE_FRAMES = (80, 160)
# The most codes of a clip in a simulated fine-tune: as short as most users' clips.
SHORT_CODES = 80
# A batch draws from a group of this many pseudo-speakers, and rows are sorted by length in such
# windows.
FAMILY = 4
WINDOW_BATCHES = 24
VALIDATION_CLIPS = 96


@dataclass(frozen=True)
class Lesson:
    """A batch: rows with their passages, the reference mel that conditions each row, the mel frames
    of its codes in that reference's timbre, and the timbre itself."""

    rows: PackedBatch
    passages: tuple[Passage, ...]
    reference_of: Tensor
    mels: Tensor
    timbres: tuple[Timbre, ...]

    def to(self, device: torch.device) -> "Lesson":
        """A copy with its rows on `device`."""
        return replace(self, rows=self.rows.to(device))


class Lessons:
    """Batches of rows of similar length. All rows of a pseudo-speaker in a batch share one
    reference, because encoding references costs more than encoding rows."""

    def __init__(
        self,
        targets: Targets,
        references: dict[str, list[Tensor]],
        mel_stats: Tensor,
        recipe: BaseRecipe,
    ) -> None:
        self.targets = targets
        self.references = references
        self.mel_stats = mel_stats
        self.recipe = recipe
        self.passages = Passages(targets, recipe.gpt.max_text_tokens)
        self.heard = [
            index
            for index, clip in enumerate(targets.clips)
            if clip.manner in recipe.pretrained
            and references.get(clip.manner)  # a reference needs a clip of 1.5 s
            and self.passages.fits(*alone([index]))
            and not is_judged(clip.text)
        ]
        self._of_person: dict[str, list[int]] = {}
        self._coming: Iterator[Lesson] | None = None
        self.kept_back = tuple(self.heard[: min(VALIDATION_CLIPS, len(self.heard) // 8)])

    def behind_others(self, clip: int, draw: random.Random) -> Passage:
        """A passage that ends in this clip, so that the vocoder sees latents of late positions."""
        others = self._of_person.setdefault(self.targets.clips[clip].manner, [])
        if not others:
            others += self.short(self.targets.clips[clip].manner)
        return self.passages.ending_in(clip, others, draw)

    def short(self, manner: str) -> list[int]:
        """Short clips of one pseudo-speaker, whether or not the GPT learns from it."""
        return [
            index
            for index, clip in enumerate(self.targets.clips)
            if clip.manner == manner and self.targets.counts[index] <= SHORT_CODES
        ]

    def batch(self, passages: Sequence[Passage], seed: str, timbred: bool = False) -> Lesson:
        """The batch of these passages; with `timbred`, some in another timbre than the
        teacher's."""
        draw = random.Random(seed)
        people = [self.passages.person(passage) for passage in passages]
        manners = sorted(set(people))
        timbres = [Timbre.drawn(draw) if timbred else Timbre() for _ in manners]
        heard = [self._reference(draw, *pair) for pair in zip(manners, timbres, strict=True)]
        texts, codes, mels = (
            [of(passage) for passage in passages]
            for of in (self.passages.tokens, self.passages.codes, self.passages.mels)
        )
        rows = pack(texts, codes, heard, self.recipe.gpt, stop_input=True)
        which = [manners.index(name) for name in people]
        own = tuple(timbres[number] for number in which)
        moved = [timbre.mels(mel, self.mel_stats) for timbre, mel in zip(own, mels, strict=True)]
        return Lesson(rows, tuple(passages), torch.tensor(which), torch.cat(moved), own)

    def _reference(self, draw: random.Random, manner: str, timbre: Timbre) -> Tensor:
        wave = draw.choice(self.references[manner])
        length = min(len(wave), MEL_HOP * draw.randint(*REFERENCE_FRAMES))
        start = draw.randint(0, len(wave) - length)
        part = timbre.heard(wave[start : start + length].float(), CODE_RATE)
        return conditioning_mel(part[None], self.mel_stats)[0]

    def at(self, step: int) -> Lesson:
        """The batch of a step; call it once for each step, in order."""
        self._coming = self._coming or self._from(step)
        return next(self._coming)

    def _from(self, first: int) -> Iterator[Lesson]:
        """Endless batches from number `first` on; their order depends only on the seed."""
        number, epoch = 0, 0
        while True:
            for group in self._epoch(epoch):
                if number >= first:
                    timbred = number >= self.recipe.timbred_from
                    yield self.batch(group, f"lesson/{self.recipe.seed}/{number}", timbred)
                number += 1
            epoch += 1

    def _epoch(self, epoch: int) -> list[list[Passage]]:
        """Groups rows of similar length and few pseudo-speakers: few references to encode and
        little padding. Each clip comes once, alone or in a passage."""
        draw = random.Random(f"epoch/{self.recipe.seed}/{epoch}")
        names = [name for name in PEOPLE if name in self.recipe.pretrained]
        order = self.heard[len(self.kept_back) :]
        draw.shuffle(order)
        rows = self.passages.drawn(order, draw, self.recipe.joined)
        draw.shuffle(rows)
        groups = []
        families = max(1, round(len(names) / FAMILY))
        family_of = {name: number % families for number, name in enumerate(names)}
        for family in range(families):
            groups += self._cut(
                [row for row in rows if family_of[self.passages.person(row)] == family]
            )
        draw.shuffle(groups)
        return groups

    def _cut(self, order: Sequence[Passage]) -> list[list[Passage]]:
        """Cuts the order into batches, each of as many positions as a step may have."""
        length, most = self.passages.row_length, self.recipe.positions
        window = self.recipe.pretraining.batch * WINDOW_BATCHES
        groups: list[list[Passage]] = []
        for start in range(0, len(order), window):
            group: list[Passage] = []
            for row in sorted(order[start : start + window], key=length):
                # The rows are sorted by length, so the newest row sets the width of the batch.
                if group and (len(group) + 1) * length(row) > most:
                    groups.append(group)
                    group = []
                group.append(row)
            groups.append(group)
        return groups


def references(speech: TeacherSpeech, manners: Iterable[str]) -> dict[str, list[Tensor]]:
    """Some clips of each pseudo-speaker as reference recordings, [samples] at 22,050 Hz."""
    recordings = {}
    for name in manners:
        clips = [one for one in speech.by_manner.get(name, []) if speech.clips[one].seconds > 1.5]
        recordings[name] = [
            speech.at(one, CODE_RATE).half() for one in clips[:REFERENCES_PER_MANNER]
        ]
    return recordings
