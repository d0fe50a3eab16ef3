"""A voice computed by ONNX Runtime, without torch in this process.

Other voices than ONNX folders are exported once (`extras.onnx.export.export_cache`).
"""

import hashlib
import logging
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from extras.onnx import folder as folders
from extras.onnx.export import export_cache
from extras.onnx.folder import OnnxError
from extras.onnx.speech import conditioning, loading
from extras.onnx.speech.backend import OnnxBackend
from extras.onnx.speech.loading import OnnxModel
from machine.storage.checksums import sha256_of
from xtts.inference.alignment.heads import Array, Head
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.speech import Voice
from xtts.joined_reference import Reference
from xtts.model.config import ModelConfig
from xtts.text.tokenizer import Tokenizer
from xtts.voices.voice_files import VoiceFiles

log = logging.getLogger(__name__)


class LoadedOnnxVoice(LoadedVoice):
    """A loaded ONNX voice."""

    model: OnnxModel

    def summary(self) -> dict[str, Any]:
        """As in `LoadedVoice`; `placed`: the execution provider, and the reason."""
        return {**super().summary(), "placed": self.model.status.as_dict()}

    def backend(self, count: int | None = None, *, beside_another: bool = False) -> OnnxBackend:
        """As in `LoadedVoice`."""
        return OnnxBackend(self.model, count or 1)

    def voice_of(self, recording: Reference, cache: Path | None) -> Voice:
        """As in `LoadedVoice`; a child process encodes recordings. Raises OnnxError."""
        if isinstance(recording, Path) and recording.is_dir():
            raise no_adapter(recording)
        if isinstance(recording, Path) and recording.suffix == ".safetensors":
            return loading.read_voice(recording, self.model.config)
        return conditioning.voice_of_recording(self.model, recording, cache)

    @property
    def weights(self) -> str:
        """As in `LoadedVoice`."""
        return self.model.voice.weights

    @property
    def graphs(self) -> dict[str, str]:
        """As in `LoadedVoice`."""
        speaking = (folders.GPT_FILES[self.model.kind], folders.VOCODER_FILE, folders.EMBEDDINGS_FILE)
        files = self.model.voice.files.items()
        return {name: file.sha256 for name, file in files if name.removesuffix(".data") in speaking}

    @cached_property
    def heads(self) -> tuple[Head, ...]:
        """As in `LoadedVoice`; () also for an export without queries."""
        if self.model.gpt.tells_queries:
            return super().heads
        log.warning(
            "%s was exported by an earlier version, whose graph does not return attention. The "
            "guard uses the length and repeated sound instead, and word times are not "
            "available. Export it again.",
            self.model.folder,
        )
        return ()

    def _base_weights(self) -> str:
        return self.weights

    def _zeros(self, *shape: int) -> Array:
        return np.zeros(shape, np.float32)

    def _own_latents(self) -> Voice | None:
        if (reference := self.files.requested_reference) is not None:
            return self.voice_of(reference, self.latents_folder)
        stored = self.model.folder / folders.LATENTS_FILE
        latents = self.files.latents or (stored if stored.is_file() else None)
        return loading.read_voice(latents, self.model.config) if latents else None


def load_onnx_voice(files: VoiceFiles, where: ComputeConfig) -> LoadedOnnxVoice:
    """Opens an ONNX folder; any other voice is exported first. `xtts.voices.loading.load_voice`
    calls it.

    Raises OnnxError, ConfigError, and the errors of `extras.common.onnxruntime.sessions`.
    """
    if files.adapter is not None:
        raise no_adapter(files.adapter.parent)
    folder = files.folder if files.onnx else _export(files, where)
    model = loading.load_onnx_model(folder, where)
    # A cached export may lack the name of its normaliser.
    config = replace(model.config, normalizer=files.tokenizer.normalizer)
    model = replace(model, config=config, tokenizer=Tokenizer(config, folder, files.pronunciations))
    return LoadedOnnxVoice(model, files, where, model.voice.licence, model.status.message)


def no_adapter(folder: Path) -> OnnxError:
    """The error for an adapter."""
    return OnnxError(
        f"{folder.name} is an adapter, which only PyTorch supports. Set BACKEND=torch, or "
        "export the whole voice of its run with `train export --onnx`."
    )


def _export(files: VoiceFiles, where: ComputeConfig) -> Path:
    """The ONNX folder of a voice in Coqui's layout or of a checkpoint, exported if necessary."""
    if where.latents_folder is None:
        source = files.folder if files.state is None else files.weights
        raise OnnxError(f"{source} is not an ONNX voice, and no folder is set to cache an export.")
    sha256 = sha256_of(files.weights)
    if files.decoder is not None:  # the same weights may be exported without it
        sha256 = hashlib.sha256((sha256 + sha256_of(files.decoder)).encode()).hexdigest()
    width = ModelConfig.read(files.folder).gpt.width
    kind = loading.gpt_kind(where.precision, width, low_memory=where.low_memory)
    checkpoint = files.weights if files.state is not None else None
    exports = where.latents_folder.parent / "onnx"
    return export_cache.cached_export(exports, files.folder, sha256, kind, checkpoint, decoder=files.decoder)
