"""A voice that can speak, whatever computes it: what the command line, the service and a notebook
ask of one.

`xtts.inference.torch_voice` and `xtts.onnx.speech.onnx_voice` are the two kinds;
`xtts.workers.voice_registry` opens them. Importing this module imports no torch.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from xtts.inference.synthesis_params import SynthesisParams
from xtts.model.shapes import VOCODER_RATE
from xtts.text.tokenizer import TokenizerSpec

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ComputeConfig:
    """Where and with what a voice computes, and where what it may keep is kept."""

    device: str = "cpu"
    mel_device: str = "cpu"
    precision: str = "auto"
    latents_folder: Path | None = None
    backend: str = "torch"
    low_memory: bool = False
    threads: int | None = None


class LoadedVoice(ABC):
    """A model and who speaks with it.

    Attributes:
        model: The torch model (`xtts.model.loading.Model`) or the ONNX model.
        folder: Where its vocabulary and config.json are.
        sample_rate: Of all that it speaks, in Hz: 24,000.
    """

    model: Any
    folder: Path
    sample_rate: int = VOCODER_RATE

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.folder}, {self.model.kind}>"

    @property
    @abstractmethod
    def licence(self) -> str:
        """Of the weights that it speaks with."""

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that the model speaks, as in config.json."""
        return tuple(self.model.config.languages)

    @property
    def texts(self) -> TokenizerSpec:
        """What reads its texts, also in another process."""
        found: TokenizerSpec = self.model.tokenizer.spec
        return found

    @property
    def message(self) -> str:
        """Why it computes elsewhere than was asked; empty when it does not."""
        return ""

    @cached_property
    def weights(self) -> str:
        """SHA-256 of the learning part's file."""
        return self._weights_sha256()

    @cached_property
    def own(self) -> Any | None:
        """The latents of its own recording, computed when they are first asked for; None without
        a recording. Raises AudioError, VoiceError or OnnxError."""
        return self._own_latents()

    def prepare(self) -> None:
        """Does now what would else be done while the first word is waited for."""
        _ = self.weights, self.own

    def told(self) -> dict[str, Any]:
        """What the parent of a speaking child needs to know."""
        return {
            "licence": self.licence,
            "languages": list(self.languages),
            "sha256": self.weights,
            "own_voice": self.own is not None,
            "precision": self.model.kind,
        }

    def check_text(self, text: str, language: str) -> None:
        """Raises TextError for text that cannot be spoken; computes nothing."""
        self.model.tokenizer.split(text, language)

    @abstractmethod
    def synthesize(self, ask: SynthesisParams) -> Array:
        """Speaks with its own latents.

        Returns:
            The waveform `[samples]`, float32 in -1..1 at `sample_rate`.

        Raises:
            TextError: The text cannot be spoken.
            DecodingError, NotFinite: The model's output is not finite.
        """

    @abstractmethod
    def stream(self, ask: SynthesisParams) -> Iterator[Array]:
        """As `synthesize`, in chunks as soon as they are settled."""

    @abstractmethod
    def crowd(self, count: int) -> Any:
        """A continuous batcher for `count` requests at once."""

    @abstractmethod
    def nobody(self) -> Any:
        """Latents for a service's self-test where there is no recording."""

    @abstractmethod
    def voice_of(self, recording: Path, kept: Path | None) -> Any:
        """The latents of an uploaded recording; kept: a folder of latents computed before. Raises
        AudioError or VoiceError."""

    @abstractmethod
    def _weights_sha256(self) -> str: ...
    @abstractmethod
    def _own_latents(self) -> Any | None: ...
