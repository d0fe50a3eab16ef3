"""ContinuousBatcher: many synthesis requests through one model.

Between two steps speeches come and go. What one says does not depend, in any bit, on who else is
there (`xtts.inference.torch_backend`), nor on when it came: its chunks are cut by its own codes
alone.

A speech of several pieces gives its slot back after each: the caller decides who is next, so that a
long text does not hold a slot until its end. Importing this module imports no torch.
"""

from collections.abc import Callable
from dataclasses import dataclass

from machine.devices.cuda_errors import NotFinite
from machine.errors import SotaqueError
from xtts.inference.alignment.guarded_piece import Guard, Samples, SpokenPiece
from xtts.inference.speech import Backend, Speech, Voice
from xtts.inference.synthesis_request import SynthesisRequest


@dataclass(frozen=True)
class StepOutput:
    """What a step brought for one speech: chunks of sound; done with the last of them, or `error`
    in their place. paused: a piece has ended, `left` others wait for `go_on`; cut_pieces: how many
    so far ran to the code limit without a stop code; pieces: what became of each so far, when one
    has ended."""

    name: str
    chunks: tuple[Samples, ...] = ()
    done: bool = False
    codes: int = 0
    error: NotFinite | None = None
    paused: bool = False
    left: int = 0
    cut_pieces: int = 0
    pieces: tuple[SpokenPiece, ...] = ()


class ContinuousBatcher:
    """The speeches of one model, at most as many at once as its backend has slots. guard: makes
    the guard of each speech."""

    def __init__(
        self, backend: Backend, guard: Callable[[SynthesisRequest], Guard | None] = lambda _: None
    ) -> None:
        self._backend = backend
        self._guard = guard
        self._speeches: dict[str, Speech] = {}

    @property
    def count(self) -> int:
        """How many may speak at once."""
        return self._backend.count

    def prepare(self) -> None:
        """Does now what the first request would else wait for."""
        self._backend.prepare()

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
        return self._backend.free

    def enter(self, name: str, voice: Voice, request: SynthesisRequest) -> None:
        """Begins a speech; its first sound comes with the steps.

        Raises SotaqueError where all slots speak, TextError, and NotFinite for a first output that
        is not finite.
        """
        speech = Speech(self._backend, voice, request, self._guard(request))
        self._begin(speech)
        self._speeches[name] = speech

    def go_on(self, name: str) -> bool:
        """Begins the next piece of a paused speech; whether there was one.

        Raises SotaqueError, and NotFinite, as `enter`: the speech is over then.
        """
        speech = self._speeches.get(name)
        if speech is None or not speech.paused:
            return False
        try:
            self._begin(speech)
        except NotFinite:
            self.leave(name)
            raise
        return True

    def _begin(self, speech: Speech) -> None:
        if not self.free:
            raise SotaqueError(f"All {self.count} slots speak. Try again later.")
        speech.begin()

    def leave(self, name: str) -> bool:
        """Ends a speech in the middle; whether there was one."""
        speech = self._speeches.pop(name, None)
        if speech is not None:
            speech.leave()
        return speech is not None

    def step(self) -> list[StepOutput]:
        """One more code for every request, and the sound that is final then."""
        active = {
            name: speech.utterance
            for name, speech in self._speeches.items() if speech.utterance is not None
        }  # fmt: skip
        self._backend.step(list(active.values()))
        return [self._took(name) for name in active]

    def _took(self, name: str) -> StepOutput:
        speech = self._speeches[name]
        try:
            chunks = tuple(speech.take())
        except NotFinite as error:
            self.leave(name)
            return StepOutput(name, done=True, codes=speech.codes, error=error)
        if speech.done:
            del self._speeches[name]
        return StepOutput(
            name, chunks, speech.done, speech.codes, paused=speech.paused, left=speech.left,
            cut_pieces=speech.cut_pieces,
            pieces=speech.pieces if speech.done or speech.paused else (),
        )  # fmt: skip
