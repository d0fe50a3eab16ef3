"""Speech computed by ONNX Runtime without torch, as `xtts.inference.speech.Backend`.

Utterances take turns, one code each. With 8-bit weights, one scale covers all inputs of a matrix
product, so the rows of a batch would change each other's audio. For the cost, see
docs/develop/onnx.md.
"""

from collections.abc import Mapping, Sequence
from types import ModuleType

import numpy as np

from extras.onnx.speech.loading import OnnxModel
from extras.onnx.speech.sampling import sample
from machine.devices.cuda_errors import NotFinite
from xtts.inference.alignment.guarded_piece import Utterance
from xtts.inference.alignment.heads import Array, Head
from xtts.inference.defaults import SamplingParams
from xtts.inference.speech import Voice
from xtts.model.shapes import NUM_LATENTS
from xtts.model.streaming_vocoder import ChunkedVocoder


class OnnxUtterance(Utterance):
    """As `Utterance`."""

    def __init__(
        self,
        model: OnnxModel,
        voice: Voice,
        ids: Sequence[int],
        rules: SamplingParams,
        random: np.random.Generator,
        max_codes: int | None,
        heads: Sequence[Head],
    ) -> None:
        shape = model.config.gpt
        super().__init__(shape, rules, random, max_codes, heads, np.zeros(shape.audio_ids, bool))
        self._gpt, self._text_end = model.gpt, NUM_LATENTS + len(ids) + 2
        self._past, *outputs = model.gpt.begin(voice.latents, ids)
        self._choose(*outputs)

    def attention_by_head(self) -> Mapping[Head, Array]:
        """As in `Utterance`."""
        return self._past.attention(self.heads, self._text_end)

    def step(self) -> None:
        """Decodes one more code."""
        self._choose(*self._gpt.step(self.codes[-1], len(self.codes), self._past))

    def _choose(self, latent: Array, logits: Array) -> None:
        self.add_code(latent, sample(logits, self.seen, self.rules, self.random))


class OnnxBackend:
    """Up to `count` utterances; used by one thread."""

    arrays: ModuleType = np

    def __init__(self, model: OnnxModel, count: int = 1) -> None:
        self.model = model
        self.num_slots = count
        self._speaking: list[OnnxUtterance] = []

    @property
    def num_free(self) -> int:
        """As in `Backend`."""
        return self.num_slots - len(self._speaking)

    def prepare(self) -> None:
        """Does nothing, because ONNX Runtime prepares a model during loading."""

    def random(self, seed: int) -> np.random.Generator:
        """As in `Backend`."""
        return np.random.default_rng(seed % 2**64)  # numpy rejects negative seeds

    def begin(
        self,
        voice: Voice,
        ids: Sequence[int],
        rules: SamplingParams,
        random: np.random.Generator,
        max_codes: int | None,
        heads: Sequence[Head],
    ) -> OnnxUtterance:
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

    def chunks(self, voice: Voice, speed: float = 1.0) -> ChunkedVocoder:
        """As in `Backend`."""
        return ChunkedVocoder(self.model.vocoder, voice.speaker, speed)

    def check(self, chunk: Array) -> Array:
        """As in `Backend`."""
        if not np.isfinite(chunk).all():
            raise NotFinite(
                "The vocoder's waveform is not finite: this device computes wrongly or the voice's "
                "files are damaged. Export the voice again, or use BACKEND=torch."
            )
        return chunk
