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

from extras.accent.hearing import HeardVowels

_NUM_SPLITS = 20
_NUM_RESAMPLES, _SPLITS_PER_RESAMPLE = 300, 2
# With fewer, a person is taken for people of another accent (docs/develop/evaluation.md).
MIN_SENTENCES = 8
_NUM_NOISES = 2
# The rows of the sums: the three voices, and then base and person with each noise.
_BASE, _PERSON, _CANDIDATE = range(3)
_CLEAN_AND_NOISY = ((_BASE, 3), (_BASE, 4), (_PERSON, 5), (_PERSON, 6))


@dataclass(frozen=True)
class AccentFigure:
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


class VowelSums:
    """The sums of the vowel classes in each sentence of each voice."""

    def __init__(
        self, base: Sequence[HeardVowels], person: Sequence[HeardVowels], candidate: Sequence[HeardVowels]
    ) -> None:
        self._classes = sorted(
            {vowel for recording in (*base, *person, *candidate) for vowel in recording.vowels}
        )
        voices = [(base, 0), (person, 0), (candidate, 0)]
        voices += [(voice, noise) for voice in (base, person) for noise in range(1, 1 + _NUM_NOISES)]
        self._sums, self._counts = map(
            np.array, zip(*(self._sum_classes(voice, noise) for voice, noise in voices), strict=True)
        )
        self._num_sentences = len(base)

    def accent_figure(self, seed: int = 0) -> AccentFigure | None:
        """The candidate's place; None if the sentences do not distinguish base and person."""
        rng = np.random.default_rng(seed)
        equal_weights = np.ones(self._num_sentences)
        candidate_shifts, person_shifts = self._compare(rng, equal_weights, _NUM_SPLITS)
        person_shift = person_shifts.sum()
        if person_shift <= 0:
            return None
        resampled_places, is_reached = list[float](), person_shifts > 0
        for _ in range(_NUM_RESAMPLES):
            weights = rng.multinomial(self._num_sentences, equal_weights / self._num_sentences)
            candidates, persons = self._compare(rng, weights, _SPLITS_PER_RESAMPLE)
            resampled_places.append(candidates.sum() / persons.sum() if persons.sum() > 0 else np.inf)
            is_reached &= 2 * candidates > np.abs(persons)
        low, high = np.quantile(resampled_places, (0.025, 0.975), method="nearest")
        if not np.isfinite(high):
            return None
        shares = zip(
            self._classes, candidate_shifts / person_shift, person_shifts / person_shift, strict=True
        )
        return AccentFigure(
            float(candidate_shifts.sum() / person_shift),
            (float(low), float(high)),
            {vowel: (float(candidate), float(person)) for vowel, candidate, person in shares},
            tuple(vowel for vowel, reached in zip(self._classes, is_reached, strict=True) if reached),
        )

    def _sum_classes(self, voice: Sequence[HeardVowels], noise: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns sums `[sentences, classes, sounds]` and counts `[sentences, classes]`."""
        index = {vowel: number for number, vowel in enumerate(self._classes)}
        width = voice[0].likeness[0].shape[1]
        sums = np.zeros((len(voice), len(index), width))
        counts = np.zeros((len(voice), len(index)))
        for sentence, recording in enumerate(voice):
            rows = [index[vowel] for vowel in recording.vowels]
            np.add.at(sums[sentence], rows, recording.likeness[noise])
            np.add.at(counts[sentence], rows, 1)
        total = counts.sum(0)
        is_frequent = total >= min(2, total.max())
        centre = (sums.sum(0)[is_frequent] / total[is_frequent, None]).mean(0)
        return sums - counts[..., None] * centre, counts

    def _compare(
        self, rng: np.random.Generator, weights: np.ndarray, splits: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The projections of the candidate's and the person's differences to the base, `[classes]`, summed
        over random splits of the sentences."""
        candidate_shifts, person_shifts = np.zeros(len(self._classes)), np.zeros(len(self._classes))
        for _ in range(splits):
            order = rng.permutation(self._num_sentences)
            is_first = np.isin(np.arange(self._num_sentences), order[: len(order) // 2])
            halves = [self._places(weights * half) for half in (is_first, ~is_first)]
            fewest = [counts.min(0) for _, counts in halves]
            class_weights = fewest[0] * fewest[1] / np.maximum(fewest[0] + fewest[1], 1)
            scaled = [places * np.sqrt(class_weights)[:, None] for places, _ in halves]
            noise = [
                (places[noisy] - places[clean]).ravel()
                for places in scaled
                for clean, noisy in _CLEAN_AND_NOISY
            ]
            noise_directions = np.linalg.qr(np.array(noise).T)[0]
            for half, other_half in (scaled, scaled[::-1]):
                way = (other_half[_PERSON] - other_half[_BASE]).ravel()
                way = (way - noise_directions @ (noise_directions.T @ way)).reshape(len(class_weights), -1)
                candidate_shifts += ((half[_CANDIDATE] - half[_BASE]) * way).sum(1)
                person_shifts += ((half[_PERSON] - half[_BASE]) * way).sum(1)
        return candidate_shifts, person_shifts

    def _places(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean place of each class in each voice, and the counts, of weighted sentences."""
        counts = np.einsum("vsc,s->vc", self._counts, weights)
        sums = np.einsum("vscd,s->vcd", self._sums, weights)
        return sums / np.maximum(counts, 1)[..., None], counts
