"""Speech computed by ONNX Runtime, as `xtts.inference.speech.Backend`. No torch.

Utterances take turns, a code each: with 8-bit weights one scale is taken of all that goes into a
product, so rows of a batch would change each other's sound. What a turn costs is in docs/onnx.md.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from machine.devices.cuda_errors import NotFinite
from xtts.model.config import SamplingParams
from xtts.model.shapes import NUM_LATENTS, PLACEHOLDER_ID
from xtts.onnx.speech.loading import OnnxLatents, OnnxModel
from xtts.onnx.speech.sampling import sample
from xtts.onnx.speech.vocoder import OnnxChunks

Array = np.ndarray[Any, Any]


class OnnxUtterance:
    """One attempt at a piece while it is decoded."""

    def __init__(
        self, model: OnnxModel, voice: OnnxLatents, ids: Sequence[int], rules: SamplingParams,
        random: np.random.Generator, max_codes: int | None, heads: Sequence[tuple[int, int]],
    ) -> None:  # fmt: skip
        shape = model.config.gpt
        self._model, self._rules, self._random = model, rules, random
        self._ids, self._heads = ids, heads
        self._limit = min(max_codes or shape.max_codes, shape.max_codes)
        self._seen = np.zeros(shape.audio_ids, bool)
        self._seen[[PLACEHOLDER_ID, shape.audio_start]] = True
        self._codes: list[int] = []
        self.latents: list[Array] = []
        self.stopped = False
        self.error: NotFinite | None = None
        self._past, latent, logits = model.gpt.begin(voice.latents, ids)
        self._take(latent, logits)

    @property
    def done(self) -> bool:
        """As in `DecodedUtterance`."""
        return self.stopped or self.error is not None or len(self._codes) >= self._limit

    def said(self) -> list[int]:
        """As in `DecodedUtterance`."""
        return self._codes

    def attention(self) -> Array | None:
        """As in `DecodedUtterance`."""
        if not self._heads or self._past.num_queries != len(self.latents):
            return None
        stop = NUM_LATENTS + len(self._ids) + 2
        rows = self._past.attention(self._heads, stop).values()
        found: Array = np.mean(list(rows), axis=0)
        return found

    def step(self) -> None:
        """One more code."""
        latent, logits = self._model.gpt.step(self._codes[-1], len(self._codes), self._past)
        self._take(latent, logits)

    def _take(self, latent: Array, logits: Array) -> None:
        code = sample(logits, self._seen, self._rules, self._random)
        self.stopped = code == self._model.config.gpt.audio_stop
        if not self.stopped:
            self._codes.append(code)
            self._seen[code] = True
        self.latents.append(latent)


class OnnxBackend:
    """Up to `count` utterances; used by one thread."""

    arrays: ModuleType = np

    def __init__(self, model: OnnxModel, count: int = 1) -> None:
        self.model = model
        self.count = count
        self._speaking: list[OnnxUtterance] = []

    @property
    def free(self) -> int:
        """As in `Backend`."""
        return self.count - len(self._speaking)

    def prepare(self) -> None:
        """Nothing: ONNX Runtime has made its plans when a model is loaded."""

    def random(self, seed: int) -> np.random.Generator:
        """As in `Backend`."""
        return np.random.default_rng(seed % 2**64)  # none below 0

    def begin(
        self, voice: OnnxLatents, ids: Sequence[int], rules: SamplingParams,
        random: np.random.Generator, max_codes: int | None, heads: Sequence[tuple[int, int]],
    ) -> OnnxUtterance:  # fmt: skip
        """As in `Backend`."""
        utterance = OnnxUtterance(self.model, voice, ids, rules, random, max_codes, heads)
        self._speaking.append(utterance)
        return utterance

    def step(self, utterances: Sequence[OnnxUtterance]) -> None:
        """As in `Backend`."""
        for utterance in utterances:
            if utterance.done:
                continue
            try:
                utterance.step()
            except NotFinite as error:
                utterance.error = error

    def end(self, utterance: OnnxUtterance) -> None:
        """As in `Backend`."""
        self._speaking.remove(utterance)

    def chunks(self, voice: OnnxLatents) -> OnnxChunks:
        """As in `Backend`."""
        return OnnxChunks(self.model.vocoder, voice.speaker, self.model.most_samples)

    def checked(self, chunk: Array) -> Array:
        """As in `Backend`."""
        if not np.isfinite(chunk).all():
            raise NotFinite(
                "The vocoder's waveform is not finite: this device computes wrongly or the voice's "
                "files are damaged. Export the voice again, or use BACKEND=torch."
            )
        return chunk
