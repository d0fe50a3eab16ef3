"""Rows longer than a sentence: several sentences of one speaker joined with pauses.

The teachers speak each sentence once. Its codes differ from those of joined audio only next to the
joins, where there is little sound, so codes are joined instead of audio, in new combinations every
epoch.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from demo_voice.gpt.targets import Targets
from xtts.model.packed_batch import row_length
from xtts.text.tokenizer import RESERVED_TOKENS

# 12 s of sound.
MOST_CODES = 258
# The shortest passage; single sentences are shorter.
FEWEST_CODES = 60
# Codes of silence between two clips, in addition to the tenth of a second at each clip's ends.
PAUSES = (0, 1, 2, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True)
class Passage:
    """Clips of one speaker in the order of a row, with `pauses[i]` codes of silence before clip
    i."""

    clips: tuple[int, ...]
    pauses: tuple[int, ...]


def alone(clips: Iterable[int]) -> list[Passage]:
    """Each clip as a row of its own."""
    return [Passage((clip,), (0,)) for clip in clips]


class Passages:
    """Makes passages of clips, and their rows. most_tokens: the text positions of the GPT."""

    def __init__(self, targets: Targets, most_tokens: int) -> None:
        self.targets = targets
        # Two positions are for START and STOP, which are added when such a text is spoken.
        self.most_tokens = most_tokens - RESERVED_TOKENS

    def tokens(self, passage: Passage) -> Tensor:
        """The ids of the clips' texts, joined with spaces."""
        first, *others = (self.targets.tokens[clip] for clip in passage.clips)
        space = torch.tensor([self.targets.space])
        # Without the language token, with which each clip's ids begin.
        return torch.cat([first, *(part for ids in others for part in (space, ids[1:]))])

    def codes(self, passage: Passage) -> Tensor:
        """The codes [n] of the clips and the pauses between them."""
        code = self.targets.silence[0]
        return self._joined(passage, code[None], self.targets.codes)

    def mels(self, passage: Passage) -> Tensor:
        """The mel frames [n, 320] of the codes."""
        return self._joined(passage, self.targets.silence[1][None], self.targets.mels)

    def _joined(self, passage: Passage, silence: Tensor, of: Callable[[int], Tensor]) -> Tensor:
        parts = []
        for clip, pause in zip(passage.clips, passage.pauses, strict=True):
            parts += [silence.expand(pause, *silence.shape[1:]), of(clip)]
        return torch.cat(parts)

    def num_codes(self, passage: Passage) -> int:
        """How many codes it has."""
        return sum(passage.pauses) + sum(int(self.targets.counts[clip]) for clip in passage.clips)

    def num_tokens(self, passage: Passage) -> int:
        """How many ids it has."""
        return sum(len(self.targets.tokens[clip]) for clip in passage.clips)

    def row_length(self, passage: Passage) -> int:
        """How many positions of the GPT it takes."""
        return row_length(self.num_tokens(passage), self.num_codes(passage), stop_input=True)

    def person(self, passage: Passage) -> str:
        """The pseudo-speaker."""
        return self.targets.clips[passage.clips[0]].manner

    def fits(self, passage: Passage) -> bool:
        """Whether the row fits the limits of the GPT."""
        return (
            self.num_codes(passage) <= MOST_CODES and self.num_tokens(passage) <= self.most_tokens
        )

    def drawn(self, clips: Sequence[int], draw: random.Random, share: float) -> list[Passage]:
        """Puts each of these clips in one row, alone or in a passage with others of its speaker.
        share: the share of the rows that begin a passage."""
        waiting: dict[str, list[int]] = {}
        for clip in clips:
            waiting.setdefault(self.targets.clips[clip].manner, []).append(clip)
        return [
            passage for own in waiting.values() for passage in self._of_one_person(own, draw, share)
        ]

    def _of_one_person(
        self, clips: Sequence[int], draw: random.Random, share: float
    ) -> Iterator[Passage]:
        rest = list(clips)
        while rest:
            passage = Passage((rest.pop(),), (0,))
            goal = _goal(draw) if draw.random() < share else 0.0
            while rest and self.num_codes(passage) < goal:
                longer = _behind(passage, rest[-1], draw)
                if not self.fits(longer):
                    break
                rest.pop()
                passage = longer
            yield passage

    def ending_in(self, clip: int, others: Sequence[int], draw: random.Random) -> Passage:
        """A passage of some of `others`, as many as fit, with `clip` at its end; all of one
        speaker."""
        goal, before, passage = _goal(draw), Passage((), ()), Passage((clip,), (0,))
        while self.num_codes(before) < goal:
            longer = _behind(before, draw.choice(others), draw)
            whole = _behind(longer, clip, draw)
            if not self.fits(whole):
                break
            before, passage = longer, whole
        return passage


def _goal(draw: random.Random) -> float:
    """A random length in codes; long ones are more likely, because only they have late
    positions."""
    return FEWEST_CODES + (MOST_CODES - FEWEST_CODES) * draw.random() ** 0.5


def _behind(passage: Passage, clip: int, draw: random.Random) -> Passage:
    """The passage with a pause and one more clip; no pause comes before its first clip."""
    pause = draw.choice(PAUSES) if passage.clips else 0
    return Passage((*passage.clips, clip), (*passage.pauses, pause))
