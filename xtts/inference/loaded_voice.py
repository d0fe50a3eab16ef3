"""LoadedVoice: a voice that can speak, with PyTorch or ONNX Runtime.

The command line, the service and notebooks use this interface. `xtts.inference.torch_voice` and
`extras.onnx.speech.onnx_voice` implement it; `xtts.voices.loading` opens them. Importing this
module does not import torch.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from machine.devices.cuda_errors import NotFinite
from machine.storage.facts import Facts
from xtts.inference.alignment import heads as alignment_heads
from xtts.inference.alignment.guarded_piece import Guard
from xtts.inference.alignment.heads import Array, Head
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.speech import Backend, Speech, Voice, unknown_voice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.joined_reference import Reference
from xtts.model.shapes import NUM_LATENTS, VOCODER_RATE
from xtts.model.streaming_vocoder import BackendArray
from xtts.text.tokenizer import TokenizerSpec
from xtts.voices import speakers
from xtts.voices.voice_files import VoiceFiles

log = logging.getLogger(__name__)


class LoadedVoice(ABC):
    """A model and a speaker.

    Attributes:
        model: The torch model (`xtts.model.loading.Model`) or the ONNX model.
        files: Its files and named speakers, without `state`, which would keep a checkpoint mapped.
        licence: The licence of its weights.
        message: Why it does not compute where it was requested; "" if it does.
        sample_rate: The sample rate of its speech: 24,000 Hz.
        guarded: Whether each piece is judged, and spoken again if it is not good.
        latents_folder: Where the latents of recordings and the alignment heads are cached; None
            caches nothing.
    """

    sample_rate: int = VOCODER_RATE

    def __init__(
        self, model: Any, files: VoiceFiles, compute: ComputeConfig, licence: str, message: str = ""
    ) -> None:
        self.model, self.files = model, replace(files, state=None)
        self.licence, self.message = licence, message
        self.guarded, self.latents_folder = compute.guard, compute.latents_folder
        self._known_speakers: dict[str, Voice] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.files.folder}, {self.model.kind}>"

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that the model speaks, as in config.json."""
        return tuple(self.model.config.languages)

    @property
    def texts(self) -> TokenizerSpec:
        """The specification of its tokenizer, for use in another process."""
        spec: TokenizerSpec = self.model.tokenizer.spec
        return spec

    @property
    @abstractmethod
    def weights(self) -> str:
        """The SHA-256 of the file with the GPT's weights."""

    @property
    def graphs(self) -> dict[str, str]:
        """The SHA-256 of each further file that computes speech: the graphs of an ONNX voice, with
        the vocoder, which may be a learned decoder. {} with PyTorch."""
        return {}

    @cached_property
    def own_voice(self) -> Voice | None:
        """The latents of its own recording, computed on first use; None without a recording.

        Raises AudioError, VoiceError or OnnxError.
        """
        return self._own_latents()

    @cached_property
    def heads(self) -> tuple[Head, ...]:
        """The attention heads that follow the text (`xtts.inference.alignment.heads`).

        They come from config.json or are measured on first use; () if none follows it.
        """
        if (configured := self.model.config.alignment_heads) is not None:
            return tuple(configured)
        if self.model.config.weights == "random":
            log.info("The weights are random: no attention head follows the text.")
            return ()
        if not (heads := self._measured_heads()):
            log.warning(
                "No attention head of this model follows the text. The guard uses the length and "
                "repeated sound instead, and words have no times."
            )
        return heads

    def _measured_heads(self) -> tuple[Head, ...]:
        """The heads as measured now, or as stored by an earlier measurement."""
        facts, base = None, ""
        if self.latents_folder is not None:
            # Fine-tuning does not change the heads.
            facts, base = Facts(self.latents_folder, "alignment heads 1"), self._base_weights()
            if (stored := facts.get(base)) is not None:
                return tuple((layer, head) for layer, head in stored)
        try:
            heads = alignment_heads.measure(self.backend(), self.default_voice())
        except NotFinite as error:
            # The voice still opens; each request reports the fault.
            log.warning("The attention heads could not be measured: %s", error)
            heads, facts = (), None
        if facts is not None:
            facts.put(base, heads)
            facts.save()
        return heads

    def guard(self, request: SynthesisRequest) -> Guard | None:
        """The guard of a speech; None if it is off, or if the request limits the codes."""
        if not self.guarded or request.max_codes is not None:
            return None
        return Guard(self.heads, self.model.tokenizer.spoken_positions, request.seed)

    def prepare(self) -> None:
        """Computes now what would otherwise delay the first word."""
        _ = self.weights, self.own_voice
        if self.guarded:
            _ = self.heads

    def summary(self) -> dict[str, object]:
        """What a child process reports about its voice."""
        return {
            "licence": self.licence,
            "languages": list(self.languages),
            "sha256": self.weights,
            "own_voice": self.own_voice is not None,
            "own_name": self.files.own_name,
            "speakers": {name: str(path) for name, path in self.files.speakers.items()},
            "precision": self.model.kind,
        }

    def synthesize(self, request: SynthesisRequest) -> Array:
        """Speaks with its own latents.

        Returns:
            The waveform `[samples]`, float32 in -1..1 at `sample_rate`.

        Raises:
            TextError: The text cannot be spoken.
            DecodingError, NotFinite: The model's output is not finite.
        """
        return self.synthesize_guarded(request, self.guard(request))

    def synthesize_guarded(self, request: SynthesisRequest, guard: Guard | None) -> Array:
        """As `synthesize`, with the caller's guard, which then holds the result of each piece."""
        speech = self.speech(request, guard, chunked=False)
        return np.concatenate([np.asarray(chunk) for chunk in speech.chunks()])

    def stream(self, request: SynthesisRequest) -> Iterator[Array]:
        """As `synthesize`, in chunks as soon as they are final."""
        return map(np.asarray, self.speech(request, self.guard(request)).chunks())

    def speech(self, request: SynthesisRequest, guard: Guard | None, *, chunked: bool = True) -> Speech:
        """A request as a `Speech` with its own latents."""
        request = replace(request, pieces=request.read(self.model.tokenizer))
        cast = self.cast_of(request)
        return Speech(self.backend(), self.default_voice(), request, guard, cast, chunked=chunked)

    def cast_of(self, request: SynthesisRequest) -> dict[str, Voice]:
        """The voices that the pieces of a request name, by name. Raises as `speaker`."""
        names = {piece.voice for piece in request.pieces or ()} - {""}
        return {name: self.speaker(name) for name in names}

    def speaker(self, name: str) -> Voice:
        """The voice of one of `speakers`, named as in `xtts.voices.speakers.find_speaker`.

        Raises TextError for an unknown name, AudioError, VoiceError or OnnxError.
        """
        match = speakers.find_speaker(name, self.files.own_name, self.files.speakers)
        if match is None:
            raise unknown_voice(name, self.files.speakers)
        if match == "":
            return self.default_voice()
        if match not in self._known_speakers:
            recording = self.files.speakers[match]
            self._known_speakers[match] = self.voice_of(recording, self.latents_folder)
        return self._known_speakers[match]

    def placeholder_voice(self) -> Voice:
        """A voice of zeros, with which a service tests a model that has no recording."""
        config = self.model.config
        width = config.speaker_encoder.embedding_width
        return Voice(self._zeros(1, NUM_LATENTS, config.gpt.width), self._zeros(1, width, 1))

    def default_voice(self) -> Voice:
        """Its own voice, or zeros if it has no recording."""
        return self.own_voice or self.placeholder_voice()

    @abstractmethod
    def backend(self, count: int | None = None, *, beside_another: bool = False) -> Backend:
        """A backend for one request at a time (None), or for `count` at once, or fewer if memory is
        short. beside_another: whether another voice is already open on that device."""

    @abstractmethod
    def voice_of(self, recording: Reference, cache: Path | None) -> Voice:
        """The latents of a recording, or of several. cache: the folder that caches latents, or None.

        Raises AudioError or VoiceError.
        """

    @abstractmethod
    def _own_latents(self) -> Voice | None: ...
    @abstractmethod
    def _base_weights(self) -> str: ...
    @abstractmethod
    def _zeros(self, *shape: int) -> BackendArray: ...
