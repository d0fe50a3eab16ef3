"""ContinuousBatcher: decodes many synthesis requests together with one model.

Speeches may enter and leave between two steps. The result of a speech does not depend on the others
(`xtts.inference.torch_backend`) or on when it entered, because the ends of its chunks follow from
its codes alone.

A speech of several pieces gives up its slot after each piece, and the caller decides which speech
is next, so that a long text does not block a slot. Importing this module does not import torch.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from machine.devices.cuda_errors import NotFinite
from machine.errors import SotaqueError
from xtts.inference.alignment.guarded_piece import Guard, Samples
from xtts.inference.speech import NOBODY_ELSE, Backend, Speech, Voice
from xtts.inference.synthesis_request import SynthesisRequest


class StepOutput(NamedTuple):
    """The result of a step for one speech: sound that is final, and the failure that ended it."""

    name: str
    speech: Speech
    chunks: Sequence[Samples] = ()
    error: NotFinite | None = None


class ContinuousBatcher:
    """Runs the speeches of one model, one per slot of its backend.

    Args:
        backend: The backend that computes the speech.
        guard: Creates the guard of a speech.
    """

    def __init__(
        self, backend: Backend, guard: Callable[[SynthesisRequest], Guard | None] = lambda _: None
    ) -> None:
        self._backend = backend
        self._guard = guard
        self._speeches: dict[str, Speech] = {}

    @property
    def count(self) -> int:
        """The number of speeches that can run at once."""
        return self._backend.count

    def prepare(self) -> None:
        """Warms up the backend, so that the first request is not delayed."""
        self._backend.prepare()

    @property
    def busy(self) -> bool:
        """Whether a speech is active."""
        return any(not speech.paused for speech in self._speeches.values())

    @property
    def empty(self) -> bool:
        """Whether no request is active or paused."""
        return not self._speeches

    @property
    def free(self) -> int:
        """The number of further speeches that can enter now."""
        return self._backend.free

    def enter(
        self, name: str, voice: Voice, request: SynthesisRequest,
        cast: Mapping[str, Voice] = NOBODY_ELSE,
    ) -> None:  # fmt: skip
        """Begins a speech; `step` returns its sound. cast: as in `Speech`.

        Raises SotaqueError if all slots are in use, TextError, and NotFinite.
        """
        speech = Speech(self._backend, voice, request, self._guard(request), cast)
        self._begin(speech)
        self._speeches[name] = speech

    def go_on(self, name: str) -> bool:
        """Begins the next piece of a paused speech; returns whether there was such a speech.

        Raises SotaqueError, and NotFinite, which ends the speech.
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
            raise SotaqueError(f"All {self.count} slots are in use. Try again later.")
        speech.begin()

    def leave(self, name: str) -> bool:
        """Ends a speech early; returns whether there was such a speech."""
        speech = self._speeches.pop(name, None)
        if speech is not None:
            speech.leave()
        return speech is not None

    def step(self) -> list[StepOutput]:
        """Decodes one more code for every active speech and returns the sound that is final."""
        active = {
            name: speech.utterance
            for name, speech in self._speeches.items() if speech.utterance is not None
        }  # fmt: skip
        self._backend.step(list(active.values()))
        return [self._took(name) for name in active]

    def _took(self, name: str) -> StepOutput:
        speech = self._speeches[name]
        try:
            output = StepOutput(name, speech, speech.take())
        except NotFinite as error:
            self.leave(name)
            return StepOutput(name, speech, error=error)
        if speech.done:
            del self._speeches[name]
        return output
