"""A voice that ONNX Runtime computes, without torch in the process unless a recording is encoded.

A voice that is no ONNX folder becomes one first, once (`xtts.onnx.export.export_cache`).
"""

import hashlib
import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from machine.storage.hashes import sha256_of
from xtts.inference import speech
from xtts.inference.alignment import heads as alignment_heads
from xtts.inference.alignment.guarded_piece import Guard
from xtts.inference.alignment.heads import Head, Spoken
from xtts.inference.batching import ContinuousBatcher
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import Array, LoadedVoice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.config import ModelConfig
from xtts.model.shapes import NUM_LATENTS
from xtts.onnx import folder as folders
from xtts.onnx.export import export_cache
from xtts.onnx.folder import OnnxError
from xtts.onnx.speech import loading
from xtts.onnx.speech.backend import OnnxBackend
from xtts.onnx.speech.loading import OnnxComputeConfig, OnnxLatents, OnnxModel
from xtts.onnx.speech.sampling import sample
from xtts.text.tokenizer import Tokenizer
from xtts.voices.voice_files import VoiceFiles

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, repr=False)
class LoadedOnnxVoice(LoadedVoice):
    """how: how it computes; reference: a recording of the voice; latents: its stored latents, which
    hold where there is no recording; latents_folder: where latents of recordings are kept."""

    model: OnnxModel
    folder: Path
    how: OnnxComputeConfig
    reference: Path | None = None
    latents: Path | None = None
    latents_folder: Path | None = None
    guarded: bool = True

    @property
    def licence(self) -> str:
        """Of the weights that it was exported from."""
        return self.model.voice.licence

    @property
    def message(self) -> str:
        """As in `LoadedVoice`."""
        return self.model.status.message

    def told(self) -> dict[str, Any]:
        """As in `LoadedVoice`; `placed`: where ONNX Runtime computes, and why there."""
        return {**super().told(), "placed": self.model.status.as_dict()}

    def synthesize_guarded(self, request: SynthesisRequest, guard: Guard | None) -> Array:
        """As in `LoadedVoice`."""
        found: Array = speech.synthesize(OnnxBackend(self.model), self._speaker(), request, guard)
        return found

    def stream_guarded(self, request: SynthesisRequest, guard: Guard | None) -> Iterator[Array]:
        """As in `LoadedVoice`."""
        return speech.stream(OnnxBackend(self.model), self._speaker(), request, guard)

    def crowd(self, count: int, *, beside_another: bool = False) -> ContinuousBatcher:
        """As in `LoadedVoice`."""
        return ContinuousBatcher(OnnxBackend(self.model, count), self.guard)

    def nobody(self) -> OnnxLatents:
        """As in `LoadedVoice`."""
        config = self.model.config
        latents = np.zeros((1, NUM_LATENTS, config.gpt.width), np.float32)
        speaker = np.zeros((1, config.speaker_encoder.embedding_width, 1), np.float32)
        return OnnxLatents(latents, speaker)

    def voice_of(self, recording: Path, kept: Path | None) -> OnnxLatents:
        """As in `LoadedVoice`; needs torch, for the mels."""
        from xtts.onnx.speech import conditioning

        return conditioning.onnx_latents_of_recording(
            self.folder, self.model.config, self.how, recording, kept
        )

    @cached_property
    def heads(self) -> tuple[Head, ...]:
        """As in `LoadedVoice`; () also for an export that does not tell where heads look."""
        if self.model.gpt.tells_queries:
            return super().heads
        log.warning(
            "%s was exported by an earlier version, whose graph does not tell where attention "
            "looks: how an utterance ended is told by its length and by sound that repeats, and "
            "words have no times. Export it again.", self.folder,
        )  # fmt: skip
        return ()

    def _heads_file(self) -> Path | None:
        folder = self.latents_folder
        return None if folder is None else alignment_heads.path_of(folder, self.weights)

    def _measured_heads(self) -> tuple[Head, ...]:
        languages = self.model.config.languages
        language = "en" if "en" in languages else languages[0]
        pieces = [self.model.tokenizer.split(text, language)[0] for text in alignment_heads.TEXTS]
        return alignment_heads.choose([self._seen(piece.ids) for piece in pieces])

    def _seen(self, ids: list[int]) -> Spoken:
        """What every head gave to a text while it was spoken."""
        shape, gpt = self.model.config.gpt, self.model.gpt
        past, _, logits = gpt.begin(self._speaker().latents, ids)
        random, seen, code = np.random.default_rng(0), np.zeros(shape.audio_ids, bool), -1
        for position in range(alignment_heads.MOST_CODES):
            code = sample(logits, seen, self.model.config.decoding, random)
            if code == shape.audio_stop:
                break
            seen[code] = True
            _, logits = gpt.step(code, position + 1, past)
        everyone = list(itertools.product(range(shape.layers), range(shape.heads)))
        rows = past.attention(everyone, NUM_LATENTS + len(ids) + 2)
        return rows, self.model.tokenizer.spoken(ids)

    def _speaker(self) -> OnnxLatents:
        return self.own or self.nobody()

    def _weights_sha256(self) -> str:
        return self.model.voice.weights

    def _own_latents(self) -> OnnxLatents | None:
        if self.reference is not None:
            return self.voice_of(self.reference, self.latents_folder)
        if self.latents is None:
            return None
        return loading.read_voice(self.latents, self.model.config)


def load_onnx_voice(files: VoiceFiles, where: ComputeConfig) -> LoadedOnnxVoice:
    """Opens an ONNX folder; any other voice is exported first. As
    `xtts.voices.loading.load_voice`, which opens voices of both kinds.

    Raises OnnxError, ConfigError, and the errors of `machine.onnxruntime.sessions`.
    """
    folder = files.folder if files.onnx else _exported(files, where)
    how = loading.compute_config(
        folders.read(folder), ModelConfig.read(folder), precision=where.precision,
        device=where.device, low=where.low_memory, threads=where.threads,
    )  # fmt: skip
    model = loading.load_onnx_model(folder, how)
    # An export that the service kept may be older than names of normalisers.
    config = replace(model.config, normalizer=files.tokenizer.normalizer)
    model = replace(model, config=config, tokenizer=Tokenizer(config, folder, files.pronunciations))
    stored = folder / folders.VOICE
    latents = files.latents or (stored if stored.is_file() else None)
    return LoadedOnnxVoice(
        model, folder, how, files.asked_reference, latents, where.latents_folder, where.guard
    )


def _exported(files: VoiceFiles, where: ComputeConfig) -> Path:
    """The ONNX folder of a voice in Coqui's layout or of a checkpoint, made where it is missing."""
    if where.latents_folder is None:
        asked = files.folder if files.state is None else files.weights
        raise OnnxError(f"{asked} is no ONNX voice, and there is nowhere to keep an export of it.")
    sha256 = sha256_of(files.weights)
    if files.decoder is not None:  # the same weights may have been exported without it
        sha256 = hashlib.sha256((sha256 + sha256_of(files.decoder)).encode()).hexdigest()
    width = ModelConfig.read(files.folder).gpt.width
    kind = loading.gpt_kind(where.precision, width, low=where.low_memory)
    checkpoint = files.weights if files.state is not None else None
    needed = export_cache.Needed(files.folder, sha256, kind, checkpoint)
    return export_cache.kept_export(where.latents_folder.parent / "onnx", needed)
