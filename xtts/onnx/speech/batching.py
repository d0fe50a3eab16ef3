"""OnnxContinuousBatcher: many requests through one ONNX voice.

They take turns, a code each: with 8-bit weights one scale is taken of all that goes into a product,
so rows of a batch would change each other's sound. What a turn costs is in docs/onnx.md.
"""

from collections.abc import Callable

import torch

from machine.devices.cuda_errors import NotFinite
from xtts.inference.alignment.guarded_piece import Guard
from xtts.inference.batched_decoding import NoFreeSlotError
from xtts.inference.batching import StepOutput
from xtts.inference.decoding import DecodingError
from xtts.inference.synthesis_params import SynthesisParams
from xtts.onnx.speech.loading import OnnxLatents, OnnxModel
from xtts.onnx.speech.request import OnnxSynthesisParams, OnnxSynthesisRequest


class OnnxContinuousBatcher:
    """The speeches of one model, at most `count` at once; used by one thread. guard: makes that of
    each speech."""

    def __init__(
        self,
        model: OnnxModel,
        count: int,
        guard: Callable[[SynthesisParams], Guard | None] = lambda _: None,
    ) -> None:
        self.model = model
        self._guard = guard
        self.count = count
        self._speeches: dict[str, OnnxSynthesisRequest] = {}
        self._paused: set[str] = set()

    def prepare(self) -> None:
        """Nothing: ONNX Runtime has made its plans when a model is loaded."""

    @property
    def busy(self) -> bool:
        """Whether a step has something to compute."""
        return len(self._speeches) > len(self._paused)

    @property
    def empty(self) -> bool:
        """Whether no request is active or paused."""
        return not self._speeches

    @property
    def free(self) -> int:
        """How many more may speak now."""
        return self.count - len(self._speeches) + len(self._paused)

    def enter(self, name: str, voice: OnnxLatents, ask: SynthesisParams) -> None:
        """Begins a speech; its first sound comes with the steps.

        Raises NoFreeSlotError and TextError.
        """
        if not self.free:
            raise NoFreeSlotError(f"All {self.count} slots speak. Try again later.")
        rules = ask.rules(self.model.config.decoding)
        manner = OnnxSynthesisParams(
            rules, ask.seed, ask.speed, ask.max_codes, pieces=ask.pieces, whole=ask.whole,
            guard=self._guard(ask),
        )  # fmt: skip
        self._speeches[name] = OnnxSynthesisRequest(
            self.model, voice, ask.text, ask.language, manner
        )

    def go_on(self, name: str) -> bool:
        """Begins the next piece of a paused speech; whether there was one.

        Raises NoFreeSlotError.
        """
        if name not in self._paused:
            return False
        if not self.free:
            raise NoFreeSlotError(f"All {self.count} slots speak. Try again later.")
        self._paused.discard(name)
        return True

    def leave(self, name: str) -> bool:
        """Ends a speech in the middle; whether there was one."""
        self._paused.discard(name)
        return self._speeches.pop(name, None) is not None

    def step(self) -> list[StepOutput]:
        """One more code for every request, and the sound that is final then."""
        return [self._took(name) for name in list(self._speeches) if name not in self._paused]

    def _took(self, name: str) -> StepOutput:
        speech = self._speeches[name]
        try:
            chunks = tuple(torch.from_numpy(chunk) for chunk in speech.step())
        except NotFinite as error:
            del self._speeches[name]
            return StepOutput(name, done=True, codes=speech.codes, error=DecodingError(str(error)))
        if speech.done:
            del self._speeches[name]
        elif speech.paused:
            self._paused.add(name)
        return StepOutput(
            name, chunks, speech.done, speech.codes, paused=speech.paused,
            cut_pieces=speech.cut_pieces,
            pieces=speech.pieces if speech.done or speech.paused else (),
        )  # fmt: skip
