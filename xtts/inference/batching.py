"""ContinuousBatcher: many synthesis requests through one model.

Between two steps speeches come and go. What one says does not depend, in any bit, on who else is
there (`xtts.inference.batched_decoding`), nor on when it came: its chunks are cut by its own codes
alone.

A speech of several pieces gives its slot back after each: the caller decides who is next, so that a
long text does not hold a slot until its end.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor

from xtts.inference.alignment.guarded_piece import Guard, SpokenPiece
from xtts.inference.batched_decoding import DecodingSlots, NoFreeSlotError
from xtts.inference.decoding import DecodingError
from xtts.inference.request import SynthesisRequest
from xtts.inference.synthesis_params import SynthesisParams
from xtts.inference.voice import Voice
from xtts.model.loading import Model


@dataclass(frozen=True)
class StepOutput:
    """What a step brought for one speech: chunks of sound; done with the last of them, or `error`
    in their place. paused: a piece has ended, others wait for `go_on`; cut_pieces: how many so far
    ran to the code limit without a stop code; pieces: what became of each so far, when one has
    ended."""

    name: str
    chunks: tuple[Tensor, ...] = ()
    done: bool = False
    codes: int = 0
    error: DecodingError | None = None
    paused: bool = False
    cut_pieces: int = 0
    pieces: tuple[SpokenPiece, ...] = ()


class ContinuousBatcher:
    """The speeches of one model, at most `count` at once. guard: makes the guard of each speech;
    layers: those of the heads that guards ask for."""

    def __init__(
        self,
        model: Model,
        count: int,
        guard: Callable[[SynthesisParams], Guard | None] = lambda _: None,
        layers: Iterable[int] = (),
    ) -> None:
        self.model = model
        self._guard = guard
        self._slots = DecodingSlots(model.gpt, count, tuple(sorted(layers)))
        self._speeches: dict[str, SynthesisRequest] = {}

    @property
    def count(self) -> int:
        """How many may speak at once."""
        return len(self._slots.utterances)

    def prepare(self) -> None:
        """Does now what the first request would else wait for."""
        self._slots.prepare()

    @property
    def busy(self) -> bool:
        """Whether a step has something to compute."""
        return any(not speech.paused for speech in self._speeches.values())

    @property
    def empty(self) -> bool:
        """Whether no request is active or paused."""
        return not self._speeches

    @property
    def free(self) -> int:
        """How many more may speak now."""
        return self._slots.free

    def enter(self, name: str, voice: Voice, ask: SynthesisParams) -> None:
        """Begins a speech; its first sound comes with the steps.

        Raises NoFreeSlotError, TextError, and DecodingError for a first output that is not finite.
        """
        if not self.free:
            count = len(self._slots.utterances)
            raise NoFreeSlotError(f"All {count} slots speak. Try again later.")
        speech = SynthesisRequest(self.model, voice, ask, self._guard(ask))
        speech.enter(self._slots)
        self._speeches[name] = speech

    def go_on(self, name: str) -> bool:
        """Begins the next piece of a paused speech; whether there was one.

        Raises NoFreeSlotError, and DecodingError as `enter`: the speech is over then.
        """
        speech = self._speeches.get(name)
        if speech is None or not speech.paused:
            return False
        try:
            speech.enter(self._slots)
        except DecodingError:
            self.leave(name)
            raise
        return True

    def leave(self, name: str) -> bool:
        """Ends a speech in the middle; whether there was one."""
        speech = self._speeches.pop(name, None)
        if speech is not None:
            speech.leave(self._slots)
        return speech is not None

    def step(self) -> list[StepOutput]:
        """One more code for every request, and the sound that is final then."""
        self._slots.step()
        speaking = [name for name, speech in self._speeches.items() if not speech.paused]
        return [self._took(name) for name in speaking]

    def _took(self, name: str) -> StepOutput:
        speech = self._speeches[name]
        try:
            chunks = tuple(speech.take(self._slots))
        except DecodingError as error:
            self.leave(name)
            return StepOutput(name, done=True, codes=speech.codes, error=error)
        if speech.done:
            del self._speeches[name]
        return StepOutput(
            name, chunks, speech.done, speech.codes, paused=speech.paused,
            cut_pieces=speech.cut_pieces,
            pieces=speech.pieces if speech.done or speech.paused else (),
        )  # fmt: skip
