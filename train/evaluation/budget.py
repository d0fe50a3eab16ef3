"""Estimates what judging costs, and fits sentences, epochs and blends into the budget.

All judging together may take `TIME_SHARE` of the training time, and at least `LEAST_SECONDS`: the
base, the epochs, the blends, and training and checking the decoder. A trial on this machine gives
the first estimate. The decoder of the first epoch tells what a step of training takes, the base
speaks as many sentences as its own time shows there is room for, and every candidate that is judged
corrects the rest.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from machine import commands
from train.evaluation.judges import FEWEST
from train.evaluation.plan import EvaluationPlan
from train.evaluation.verdict import FEWEST_FINISHED, FEWEST_SPOKEN
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE
from xtts.evaluation.word_evidence import MOST_WORDS
from xtts.voices.evaluation_file import Evaluation
from xtts.workers.decoder_learning import BATCH, ROW_CODES, STEPS
from xtts.workers.requests import SLOTS, SpeakingSpeed

TIME_SHARE = 0.15
LEAST_SECONDS = 180.0
MOST_LEARNING_SECONDS = 300.0
# Training the decoder for less than this share of its steps gains next to nothing.
LEAST_LEARNING_SHARE = 0.25
# For each further speaker of a dataset, and for so many at most.
SPEAKER_SECONDS, MOST_SPEAKERS = 150.0, 5
# A group takes as long as its longest sentence. Few candidates speak as fast as the person.
_LONGEST_SENTENCE = 1.3
# Naturalness may cost this share of the rest, if so many sentences have a figure of it at least.
_NATURALNESS_SHARE, _FEWEST_NATURAL = 0.1, FEWEST_FINISHED
# How often the sentences are spoken to judge a decoder: with it, and with the base's.
_DECODER_TURNS = 2
# The cost of forward and backward through the vocoder, in units of speaking.
_LEARNING_STEP = 3.0


@dataclass(frozen=True)
class JudgingPlan:
    """What will be judged, and its cost.

    Attributes:
        sentences: For each candidate; 0 if nothing is judged.
        epochs: How many of the remaining epochs.
        shares: The blends.
        learning_seconds: For training the decoder; 0 for none.
        seconds: The total.
    """

    sentences: int
    epochs: int
    shares: tuple[float, ...]
    learning_seconds: float
    seconds: float


def planned(
    seconds: Callable[[int, int, int, float], float], allowed: float, epochs: int,
    shares: tuple[float, ...], learning: float, sentences: Sequence[int],
) -> JudgingPlan:  # fmt: skip
    """The largest plan within the limit. Pure.

    To fit, it drops sentences that a verdict does not need, then all blends but one, then steps of
    the decoder, then epochs. Fewer sentences than a verdict needs are spoken only if nothing else
    fits: they give figures, and the base is kept.

    Args:
        seconds: The cost of (sentences, epochs, blends, seconds of decoder training), in seconds.
        allowed: The limit in seconds.
        epochs: How many epochs remain.
        shares: The shares of the blends; the middle one is dropped last.
        learning: The seconds of all the decoder's training steps.
        sentences: The possible numbers of sentences for each candidate, the largest first.
    """
    enough = [count for count in sentences if count >= FEWEST_SPOKEN] or list(sentences)
    middle, fewest = shares[len(shares) // 2 :][:1], enough[-1]
    ways = [(count, epochs, shares, learning) for count in enough]
    ways += [
        (fewest, epochs, middle, learning * share)
        for share in (1.0, 0.5, LEAST_LEARNING_SHARE, 0.0)
    ]
    ways += [
        (count, few, (), 0.0)
        for count in dict.fromkeys((fewest, sentences[-1]))
        for few in range(epochs, min(epochs, 1) - 1, -1)
    ]
    for count, several, blends, steps in ways:
        if (total := seconds(count, several, len(blends), steps)) <= allowed:
            return JudgingPlan(count, several, blends, steps, total)
    return JudgingPlan(0, 0, (), 0.0, 0.0)


def counts(wanted: int, known: int | None = None) -> tuple[int, ...]:
    """The possible numbers of sentences for each candidate, the largest first.

    known: the number that the base spoke; every candidate must then speak as many.
    """
    if known is not None:
        return (known,)
    return tuple(dict.fromkeys(min(wanted, count) for count in (wanted, FEWEST_SPOKEN, FEWEST)))


@dataclass
class JudgingBudget:
    """The judging budget of a run.

    Attributes:
        judged_by: The sentences, and the person's clips, from which their length is estimated.
        num_epochs: How many epochs the run will have.
        saved: The epochs that are saved.
        epoch_seconds: The training time of an epoch.
        limits: What is left out to stay within the budget, by kind.
        decoder_step_seconds: Of one step of training a decoder, as measured; 0 if unknown.
    """

    judged_by: EvaluationPlan
    num_epochs: int
    saved: Sequence[int]
    shares: tuple[float, ...]
    learns_decoder: bool
    epoch_seconds: float = 0.0
    spent_seconds: float = 0.0
    speed: SpeakingSpeed | None = None
    plan: JudgingPlan | None = None
    limits: dict[str, str] = field(default_factory=dict)
    decoder_step_seconds: Callable[[], float] = field(default=lambda: 0.0)
    # How many epochs remain, and the sentences that are aimed at, by the last plan before the base
    # spoke; 0 if there was none.
    epochs: int = 0
    aim: int = 0
    # Spent by earlier starts; each start has at least LEAST_SECONDS of its own.
    _before_seconds: float = 0.0
    _known: Evaluation | None = None
    # The measured time divided by the trial's estimate.
    _correction: float = 1.0

    @property
    def texts(self) -> list[str]:
        """All sentences, in their order."""
        return [one.request.text for one in self.judged_by.sentences]

    @property
    def allowed_seconds(self) -> float:
        """The limit for all judging of the run, including what earlier starts spent."""
        share = TIME_SHARE * self.num_epochs * self.epoch_seconds
        return max(self._before_seconds + LEAST_SECONDS, share)

    @property
    def room_seconds(self) -> float:
        """The part of `allowed_seconds` that is not spent."""
        return max(0.0, self.allowed_seconds - self.spent_seconds)

    @property
    def speakers_seconds(self) -> float:
        """The limit for judging the further speakers and training their decoders."""
        return SPEAKER_SECONDS * min(MOST_SPEAKERS, len(self.judged_by.others))

    def seconds_left(self) -> float:
        """The estimate of the remaining cost; the whole room while there is no plan.

        Training the decoder goes on for as long as there is room, so that part is what its steps
        are known to take, and not what the plan allotted to them.
        """
        if self.plan is None:
            return self.room_seconds + self.speakers_seconds
        seconds = self.plan.seconds
        if self.learns_decoder and (each := self.decoder_step_seconds()):
            limit = min(MOST_LEARNING_SECONDS, self.learning_room())
            seconds += min(STEPS * each, limit) - self.plan.learning_seconds
        return max(0.0, min(seconds, self.room_seconds)) + self.speakers_seconds

    @property
    def candidate_share(self) -> float:
        """The seconds that one candidate may take if all take the same."""
        return self.allowed_seconds / (len(self.saved) + len(self.shares) + 2)

    def sentence(self) -> str:
        """The remaining cost, the limit, and what is left out, as a log line."""
        assert self.plan is not None
        spent = f", of which {self.spent_seconds:.0f} s are spent" if self.spent_seconds else ""
        cost = (
            f"Judging will take about {self.plan.seconds:.0f} s{' more' if spent else ''}. Its "
            f"limit is {self.allowed_seconds:.0f} s{spent} ({TIME_SHARE:.0%} of the training time, "
            f"but no less than {LEAST_SECONDS:.0f} s after each start)."
        )
        if not self.limits:
            return cost
        limits = ", ".join(self.limits.values())
        return (
            f"{cost} To stay within the limit: {limits}. "
            f"`{commands.program('train evaluate')}` has no limit."
        )

    def know(self, known: Evaluation | None) -> None:
        """Takes over what an earlier start of the run has judged and spent."""
        if known is not None and self._known is None:
            self._known = known
            self._before_seconds = sum(one.seconds for one in known.candidates)
            self.spent_seconds += self._before_seconds

    def judged(self, known: Evaluation) -> None:
        """Accounts for the last candidate of `known`, which was just judged."""
        newest = known.candidates[-1]
        if self.speed is not None:
            count, base = len(newest.sentences), newest.kind == "base"
            estimate = self._base_seconds(count) if base else self.candidate_seconds(count)
            self._correction *= newest.seconds / max(estimate, 1e-6)
        self._known = known
        self.spend(newest.seconds)

    def spend(self, seconds: float) -> None:
        """Accounts for seconds of planned work that are spent."""
        self.spent_seconds += seconds
        if self.plan is not None:
            self.plan = replace(self.plan, seconds=max(0.0, self.plan.seconds - seconds))

    def coming(self, epoch: int) -> int:
        """How many epochs will be saved from this one on."""
        return sum(one >= epoch for one in self.saved)

    def make_plan(self, epochs: int, wanted: int, fixed: int | None = None) -> JudgingPlan | None:
        """Plans the remaining judging; None if the speed is unknown.

        Args:
            epochs: How many epochs remain.
            wanted: The number of sentences for each candidate, if they fit.
            fixed: The number that the base will speak in any case, after a lost evaluation.
        """
        spoken = len(self._known.candidates[0].sentences) if self._known else None
        if self.speed is None and spoken is None:
            return None
        known = spoken or fixed
        self.epochs = epochs
        if known is None:
            self.aim = counts(wanted)[0]
        learning = self.learning_seconds() if self.learns_decoder else 0.0
        few = counts(wanted, known)
        self.plan = planned(self._seconds, self.room_seconds, epochs, self.shares, learning, few)
        # Once blends are planned, the limit of the epochs cannot change any more.
        kept = {"epochs": self.limits["epochs"]} if "epochs" in self.limits and not epochs else {}
        self.limits = kept | self._left_out(self.plan, epochs, learning)
        return self.plan

    def most_base_seconds(self) -> float:
        """What the base may take, so that all that remains can speak as many sentences as it."""
        learning = self.learning_seconds() if self.learns_decoder else 0.0
        others = self.epochs + len(self.shares) + (_DECODER_TURNS if learning else 0)
        loading = self._correction * self.speed.loading if self.speed else 0.0
        return max(0.0, self.room_seconds - learning - others * loading) / (1 + others)

    def judges_epoch(self, epoch: int) -> bool:
        """Whether this epoch is judged: the ones that fit are spread evenly and end at the last."""
        coming = max(1, self.coming(epoch))
        if self.plan is None:
            return True
        if not self.plan.epochs:
            return False
        every = -(-coming // self.plan.epochs)
        return every <= 1 or coming % every == 1

    def candidate_seconds(self, sentences: int) -> float:
        """The cost of an epoch or a blend: it loads its own weights, and the base's for `words`."""
        if self.speed is not None:
            return self._base_seconds(sentences) + self._correction * self.speed.loading
        known = self._known.candidates if self._known else []
        seconds = [one.seconds / max(1, len(one.sentences)) for one in known]
        return sentences * sum(seconds) / max(1, len(seconds))

    def learning_seconds(self) -> float:
        """The cost of training the decoder, without judging it; by its measured steps if any."""
        if each := self.decoder_step_seconds():
            return min(MOST_LEARNING_SECONDS, STEPS * each)
        if self.speed is None:
            return MOST_LEARNING_SECONDS / 2
        steps = _LEARNING_STEP * STEPS * BATCH * ROW_CODES * self.speed.sound
        return min(MOST_LEARNING_SECONDS, self._correction * (steps + 2 * self.speed.loading))

    def learning_room(self) -> float:
        """The seconds left for training the decoder before its check; 0 if that is too little."""
        known = len(self._known.candidates[0].sentences) if self._known else 0
        room = self.room_seconds - _DECODER_TURNS * self.candidate_seconds(known)
        return room if room >= LEAST_LEARNING_SHARE * self.learning_seconds() else 0.0

    def sample_seconds(self) -> float:
        """The approximate cost of an epoch's sample: one average sentence."""
        if self.speed is None or not self.texts:
            return 0.0
        codes = sum(map(self.codes, self.texts)) / len(self.texts)
        return self.speed.loading + codes * (self.speed.step + self.speed.sound)

    def _seconds(self, sentences: int, epochs: int, blends: int, learning: float) -> float:
        """The cost of these; of the base too if it has not spoken yet.

        A trained decoder and the base's speak the sentences once more, with other seeds, for the
        judges of words and voice.
        """
        candidates = epochs + blends + (_DECODER_TURNS if learning else 0)
        base = 0.0 if self._known else self._base_seconds(sentences)
        return base + candidates * self.candidate_seconds(sentences) + learning

    def naturalness_every(self, sentences: int) -> int:
        """The naturalness of every n-th sentence with a sound is judged: of as many as its share of
        the time allows."""
        if self.speed is None or not self.speed.naturalness or not sentences:
            return 1
        sounded = -(-sentences // self.judged_by.sounded_every)
        each = self._correction * self.speed.naturalness
        allowed = max(1e-9, _NATURALNESS_SHARE * self._speaking_seconds(sentences))
        return max(1, min(math.ceil(sounded * each / allowed), sounded // _FEWEST_NATURAL))

    def _base_seconds(self, sentences: int) -> float:
        """The cost of the base, by the codes that the person would need for the sentences."""
        if self.speed is None:
            return 0.0
        stride = self.judged_by.sounded_every * self.naturalness_every(sentences)
        natural = -(-sentences // stride) * self._correction * self.speed.naturalness
        return self._speaking_seconds(sentences) + natural

    def _speaking_seconds(self, sentences: int) -> float:
        """The same without naturalness."""
        speed = self.speed
        if speed is None:
            return 0.0
        codes = [self.codes(text) for text in self.texts[:sentences]]
        groups = [codes[first : first + SLOTS] for first in range(0, len(codes), SLOTS)]
        steps = sum(_LONGEST_SENTENCE * max(group) for group in groups)
        sounded = sum(codes[:: self.judged_by.sounded_every])
        words = sum(
            count * min(len(text.split()), MOST_WORDS)
            for count, text in zip(codes, self.texts, strict=False)
        )
        return self._correction * (
            speed.loading
            + steps * speed.step
            + sounded * (speed.sound + speed.hearing)
            + words * speed.word
        )

    def codes(self, text: str) -> float:
        """How many codes the person would need for a text."""
        clips = self.judged_by.clips
        spoken = sum(clip.seconds for clip in clips) * CODE_RATE / SAMPLES_PER_CODE
        return len(text) * spoken / max(1, sum(len(clip.text) for clip in clips))

    def _left_out(self, plan: JudgingPlan, epochs: int, learning: float) -> dict[str, str]:
        """What the plan leaves out, by kind."""
        if not plan.sentences:
            least = self._seconds(FEWEST, 1, 0, 0.0)
            return {"all": f"nothing is judged (the base and one epoch take about {least:.0f} s)"}
        limits = {
            kind: f"{done} of {total} {kind}"
            for kind, done, total in (
                ("sentences", plan.sentences, self.aim),
                ("blends", len(plan.shares), len(self.shares)),
                ("epochs", plan.epochs, epochs),
            )
            if done < total
        }
        if plan.learning_seconds < learning:
            seconds = f"{plan.learning_seconds:.0f} of {learning:.0f} s"
            limits["decoder"] = f"{seconds} for training the decoder"
        return limits
