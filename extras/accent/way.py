"""How far a candidate's accent is on the way from a base to a person.

Each vowel class has a mean place, and a voice's mean over the classes is removed. The candidate's
differences to the base are projected onto the person's. 0 is the base and 1 another recording of
the person: a difference on one half of the sentences is always projected onto the other half's, so
that chance lengthens neither. The directions in which noise moves base and person are removed,
because vowels in noise are ambiguous, as foreign ones are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extras.accent.hearing import Heard

_SPLITS, _RESAMPLED, _SPLITS_OF_RESAMPLED = 20, 300, 2
# With fewer, a person is taken for people of another accent (docs/develop/evaluation.md).
MIN_SENTENCES = 8
_NUM_NOISES = 2


@dataclass(frozen=True)
class Figure:
    """A candidate's place on the way.

    Attributes:
        place: 0 is the base, 1 the person.
        interval: 95 %, by bootstrap over the sentences.
        shares: What each vowel class adds to `place`, and to the 1 of the person.
        reached: The vowel classes that are nearer to the person than to the base, however the sentences
            are resampled.
    """

    place: float
    interval: tuple[float, float]
    shares: dict[str, tuple[float, float]]
    reached: tuple[str, ...]


class Way:
    """The sums of the vowel classes in each sentence of each voice."""

    def __init__(self, base: Sequence[Heard], person: Sequence[Heard], candidate: Sequence[Heard]) -> None:
        self._classes = sorted({vowel for heard in (*base, *person, *candidate) for vowel in heard.vowels})
        voices = [(base, 0), (person, 0), (candidate, 0)]
        voices += [(voice, noise) for voice in (base, person) for noise in range(1, 1 + _NUM_NOISES)]
        self._sums, self._counts = map(
            np.array, zip(*(self._of(voice, noise) for voice, noise in voices), strict=True)
        )
        self._num_sentences = len(base)

    def figure(self, seed: int = 0) -> Figure | None:
        """The candidate's place; None if the sentences do not distinguish base and person."""
        draw = np.random.default_rng(seed)
        once = np.ones(self._num_sentences)
        moved, whole = self._compare(draw, once, _SPLITS)
        if whole.sum() <= 0:
            return None
        drawn, is_reached = list[float](), whole > 0
        for _ in range(_RESAMPLED):
            weights = draw.multinomial(self._num_sentences, once / self._num_sentences)
            part, length = self._compare(draw, weights, _SPLITS_OF_RESAMPLED)
            drawn.append(part.sum() / length.sum() if length.sum() > 0 else np.inf)
            is_reached &= 2 * part > np.abs(length)
        low, high = np.quantile(drawn, (0.025, 0.975), method="nearest")
        if not np.isfinite(high):
            return None
        shares = zip(self._classes, moved / whole.sum(), whole / whole.sum(), strict=True)
        return Figure(
            float(moved.sum() / whole.sum()),
            (float(low), float(high)),
            {vowel: (float(share), float(of)) for vowel, share, of in shares},
            tuple(vowel for vowel, reached in zip(self._classes, is_reached, strict=True) if reached),
        )

    def _of(self, voice: Sequence[Heard], noise: int) -> tuple[np.ndarray, np.ndarray]:
        """Sums `[sentences, classes, sounds]` and counts `[sentences, classes]`."""
        index = {vowel: number for number, vowel in enumerate(self._classes)}
        width = voice[0].likeness[0].shape[1]
        sums = np.zeros((len(voice), len(index), width))
        counts = np.zeros((len(voice), len(index)))
        for sentence, heard in enumerate(voice):
            rows = [index[vowel] for vowel in heard.vowels]
            np.add.at(sums[sentence], rows, heard.likeness[noise])
            np.add.at(counts[sentence], rows, 1)
        total = counts.sum(0)
        often = total >= min(2, total.max())
        centre = (sums.sum(0)[often] / total[often, None]).mean(0)
        return sums - counts[..., None] * centre, counts

    def _compare(
        self, draw: np.random.Generator, weights: np.ndarray, splits: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The projections of the candidate and of the person, `[classes]`, summed over splits."""
        moved, whole = np.zeros(len(self._classes)), np.zeros(len(self._classes))
        for _ in range(splits):
            order = draw.permutation(self._num_sentences)
            is_first = np.isin(np.arange(self._num_sentences), order[: len(order) // 2])
            halves = [self._places(weights * half) for half in (is_first, ~is_first)]
            fewest = [counts.min(0) for _, counts in halves]
            shared = fewest[0] * fewest[1] / np.maximum(fewest[0] + fewest[1], 1)
            scaled = [places * np.sqrt(shared)[:, None] for places, _ in halves]
            noise = [
                (places[noisy] - places[clean]).ravel()
                for places in scaled
                for clean, noisy in ((0, 3), (0, 4), (1, 5), (1, 6))
            ]
            directions = np.linalg.qr(np.array(noise).T)[0]
            for half, other in (scaled, scaled[::-1]):
                way = (other[1] - other[0]).ravel()
                way = (way - directions @ (directions.T @ way)).reshape(shared.shape[0], -1)
                moved += ((half[2] - half[0]) * way).sum(1)
                whole += ((half[1] - half[0]) * way).sum(1)
        return moved, whole

    def _places(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean place of each class in each voice, and the counts, of weighted sentences."""
        counts = np.einsum("vsc,s->vc", self._counts, weights)
        sums = np.einsum("vscd,s->vcd", self._sums, weights)
        return sums / np.maximum(counts, 1)[..., None], counts
