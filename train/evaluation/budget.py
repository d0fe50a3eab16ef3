"""Estimates what judging costs, and fits sentences, epochs and blends into the budget.

Judging may take `TIME_SHARE` of the time of learning, and `LEAST_SECONDS` in any case: the base,
epochs, blends, the learned decoder and its check together. What that costs is known
from a trial on this machine before it begins, and from the candidates that were judged afterwards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from train.evaluation.judges import FEWEST
from train.evaluation.plan import EvaluationPlan
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE
from xtts.evaluation.word_evidence import MOST_WORDS
from xtts.voices.evaluation_file import Evaluation
from xtts.workers.decoder_learning import BATCH, ROW_CODES, STEPS
from xtts.workers.requests import SLOTS, SpeakingSpeed

TIME_SHARE = 0.15
LEAST_SECONDS = 180.0
# Of a learned decoder: fewer steps than this share find next to nothing.
MOST_LEARNING_SECONDS = 300.0
LEAST_LEARNING_SHARE = 0.25
# A group lasts as long as its longest sentence, which few candidates say as fast as the person.
_LONGEST_SENTENCE = 1.3
# Forward and backward through the vocoder, in times of speaking.
_LEARNING_STEP = 3.0


@dataclass(frozen=True)
class JudgingPlan:
    """What is judged, and what that costs.

    Attributes:
        sentences: Of each candidate; 0 where nothing is judged.
        epochs: So many of those that are still to come.
        shares: Blends.
        learning_seconds: For the decoder; 0 for none.
        seconds: Of all of it.
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
    """The most that is allowed: first sentences go, then blends but one, then steps of the
    decoder, then epochs. Pure.

    Args:
        seconds: What so many sentences, epochs and blends take, with so many seconds of learning.
        allowed: Seconds.
        epochs: Still to come.
        shares: Of blends; the middle one is kept longest.
        learning: seconds for all steps of the decoder.
        sentences: How many each candidate may speak, the most first.
    """
    middle, fewest = shares[len(shares) // 2 :][:1], sentences[-1]
    ways = [(count, epochs, shares, learning) for count in sentences]
    ways += [
        (fewest, epochs, middle, learning * share)
        for share in (1.0, 0.5, LEAST_LEARNING_SHARE, 0.0)
    ]
    ways += [(fewest, few, (), 0.0) for few in range(epochs, min(epochs, 1) - 1, -1)]
    for count, several, blends, steps in ways:
        if (total := seconds(count, several, len(blends), steps)) <= allowed:
            return JudgingPlan(count, several, blends, steps, total)
    return JudgingPlan(0, 0, (), 0.0, 0.0)


def counts(wanted: int, known: int | None = None) -> tuple[int, ...]:
    """How many sentences a candidate may speak, the most first; known: as many as the base spoke,
    which candidates must have in common."""
    if known is not None:
        return (known,)
    return tuple(dict.fromkeys(min(wanted, count) for count in (wanted, SLOTS, FEWEST)))


@dataclass
class JudgingBudget:
    """Keeps the account of a run.

    Attributes:
        judged_by: What candidates speak, and the person's clips, for how long that takes.
        num_epochs: That the run will have.
        saved: Those of them that are saved.
        epoch_seconds: How long an epoch is learned.
        limits: What is left out to stay within the account, by kind.
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
    # By earlier starts: each start has at least LEAST_SECONDS of its own.
    _before_seconds: float = 0.0
    _known: Evaluation | None = None
    # What was measured, in times of what the trial foretold.
    _correction: float = 1.0

    @property
    def texts(self) -> list[str]:
        """All sentences, in their order."""
        return [one.request.text for one in self.judged_by.sentences]

    @property
    def heard(self) -> bool:
        """Whether a recogniser listens."""
        return bool(self.judged_by.recogniser)

    @property
    def allowed_seconds(self) -> float:
        """For all the judging of the run, what earlier starts spent included."""
        share = TIME_SHARE * self.num_epochs * self.epoch_seconds
        return max(self._before_seconds + LEAST_SECONDS, share)

    @property
    def room_seconds(self) -> float:
        """What of it is not spent."""
        return max(0.0, self.allowed_seconds - self.spent_seconds)

    def seconds_left(self) -> float:
        """What will still be spent; all that is allowed where that is not known yet."""
        return self.room_seconds if self.plan is None else min(self.plan.seconds, self.room_seconds)

    @property
    def candidate_share(self) -> float:
        """What a single candidate may take so that all have as much."""
        return self.allowed_seconds / (len(self.saved) + len(self.shares) + 2)

    def sentence(self) -> str:
        """The whole cost of what is to come, what is allowed and what is left out for it."""
        assert self.plan is not None
        cost = (
            f"Judging will take about {self.plan.seconds:.0f} s; {self.room_seconds:.0f} s are "
            f"allowed ({TIME_SHARE:.0%} of learning, at least {LEAST_SECONDS:.0f} s)."
        )
        if not self.limits:
            return cost
        limits = ", ".join(self.limits.values())
        return f"{cost} To stay within: {limits}. `python -m train evaluate` has no limit."

    def know(self, known: Evaluation | None) -> None:
        """What an earlier start of the run has judged and spent."""
        if known is not None and self._known is None:
            self._known = known
            self._before_seconds = sum(one.seconds for one in known.candidates)
            self.spent_seconds += self._before_seconds

    def judged(self, known: Evaluation) -> None:
        """Another candidate was judged, the last one."""
        newest = known.candidates[-1]
        if self.speed is not None:
            count, base = len(newest.sentences), newest.kind == "base"
            foretold = self._base_seconds(count) if base else self.candidate_seconds(count)
            self._correction *= newest.seconds / max(foretold, 1e-6)
        self._known = known
        self.spend(newest.seconds)

    def spend(self, seconds: float) -> None:
        """So much of what was planned is done."""
        self.spent_seconds += seconds
        if self.plan is not None:
            self.plan = replace(self.plan, seconds=max(0.0, self.plan.seconds - seconds))

    def coming(self, epoch: int) -> int:
        """How many epochs are saved from this one on."""
        return sum(one >= epoch for one in self.saved)

    def make_plan(self, epochs: int, wanted: int, fixed: int | None = None) -> JudgingPlan | None:
        """Plans what is still to be judged; None where nothing is known of the speed.

        epochs: still to come; wanted: sentences of a candidate; fixed: as many as the base will
        speak in any case, where an earlier evaluation is lost.
        """
        spoken = len(self._known.candidates[0].sentences) if self._known else None
        if self.speed is None and spoken is None:
            return None
        known = spoken or fixed
        learning = self.learning_seconds() if self.learns_decoder else 0.0
        few = counts(wanted, known)
        self.plan = planned(self._seconds, self.room_seconds, epochs, self.shares, learning, few)
        # What the base spoke stays so, whatever there is room for later; and so do the epochs that
        # were left out, when blends are planned.
        stays = [name for name, still in (("sentences", known), ("epochs", not epochs)) if still]
        kept = {name: self.limits[name] for name in stays if name in self.limits}
        self.limits = kept | self._left_out(self.plan, epochs, few[0], learning)
        return self.plan

    def judges_epoch(self, epoch: int) -> bool:
        """Whether this one is judged: those that fit are spread evenly, and the last is one."""
        coming = max(1, self.coming(epoch))
        if self.plan is None:
            return True
        if not self.plan.epochs:
            return False
        every = -(-coming // self.plan.epochs)
        return every <= 1 or coming % every == 1

    def candidate_seconds(self, sentences: int) -> float:
        """Of an epoch or a blend: its own weights are read, and the base's to ask for words."""
        if self.speed is not None:
            return self._base_seconds(sentences) + self._correction * self.speed.loading
        known = self._known.candidates if self._known else []
        seconds = [one.seconds / max(1, len(one.sentences)) for one in known]
        return sentences * sum(seconds) / max(1, len(seconds))

    def learning_seconds(self) -> float:
        """Of the decoder, without the look at its words."""
        if self.speed is None:
            return MOST_LEARNING_SECONDS / 2
        steps = _LEARNING_STEP * STEPS * BATCH * ROW_CODES * self.speed.sound
        return min(MOST_LEARNING_SECONDS, self._correction * (steps + 2 * self.speed.loading))

    def learning_room(self) -> float:
        """What may go into it, with the look at its words after it; 0 where that is too little."""
        known = len(self._known.candidates[0].sentences) if self._known else 0
        room = self.room_seconds - (self.candidate_seconds(known) if self.heard else 0.0)
        return room if room >= LEAST_LEARNING_SHARE * self.learning_seconds() else 0.0

    def sample_seconds(self) -> float:
        """Of an epoch's sample, about: a usual sentence by itself."""
        if self.speed is None or not self.texts:
            return 0.0
        codes = sum(map(self._codes, self.texts)) / len(self.texts)
        return self.speed.loading + codes * (self.speed.step + self.speed.sound)

    def _seconds(self, sentences: int, epochs: int, blends: int, learning: float) -> float:
        """Of so much; the base too, where it has not spoken. A decoder is heard once more."""
        heard = epochs + blends + (1 if learning and self.heard else 0)
        base = 0.0 if self._known else self._base_seconds(sentences)
        return base + heard * self.candidate_seconds(sentences) + learning

    def _base_seconds(self, sentences: int) -> float:
        """By the codes that the person would need; a group lasts as long as its longest."""
        speed = self.speed
        if speed is None:
            return 0.0
        codes = [self._codes(text) for text in self.texts[:sentences]]
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

    def _codes(self, text: str) -> float:
        clips = self.judged_by.clips
        spoken = sum(clip.seconds for clip in clips) * CODE_RATE / SAMPLES_PER_CODE
        return len(text) * spoken / max(1, sum(len(clip.text) for clip in clips))

    def _left_out(
        self, plan: JudgingPlan, epochs: int, wanted: int, learning: float
    ) -> dict[str, str]:
        """By kind, what there is no room for."""
        if not plan.sentences:
            least = self._seconds(FEWEST, 1, 0, 0.0)
            return {"all": f"nothing is judged (the base and one epoch take about {least:.0f} s)"}
        found = {
            kind: f"{done} {kind} of {asked}"
            for kind, done, asked in (
                ("sentences", plan.sentences, wanted),
                ("blends", len(plan.shares), len(self.shares)),
                ("epochs", plan.epochs, epochs),
            )
            if done < asked
        }
        if plan.learning_seconds < learning:
            seconds = f"{plan.learning_seconds:.0f} s of {learning:.0f}"
            found["decoder"] = f"{seconds} for learning a decoder"
        return found
