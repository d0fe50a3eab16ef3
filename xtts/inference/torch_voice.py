"""A voice computed by PyTorch: a model folder, or a checkpoint and the folder of its base."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch

from machine.storage.checksums import sha256_of
from xtts.inference import latents_file
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.speech import Voice
from xtts.inference.torch_backend import TorchBackend, slot_positions
from xtts.joined_reference import Reference
from xtts.model.adapter import Adapter
from xtts.model.gpt import GPT
from xtts.model.loading import Model, load_model
from xtts.model.vocoder import Vocoder
from xtts.text.tokenizer import Tokenizer
from xtts.voices import adapter_file, bundle, learned_decoder
from xtts.voices.base_models import BundleError
from xtts.voices.voice_files import VoiceFiles

log = logging.getLogger(__name__)

# For the vocoder's windows, a prefill, encoding recordings, and the plans of cuDNN and cuBLAS.
RESERVED_BYTES = 768 << 20


class LoadedTorchVoice(LoadedVoice):
    """A `LoadedVoice` with PyTorch.

    Attributes:
        decoder: A vocoder that was trained for these weights and the voice's speaker, or None.
        adapter: A LoRA adapter over these weights, which all recordings use, or None.
    """

    model: Model

    def __init__(self, model: Model, files: VoiceFiles, compute: ComputeConfig) -> None:
        super().__init__(model, files, compute, files.licence or model.config.licence)
        self._vocoders: dict[Path, Vocoder] = {}
        self.decoder, self.adapter = None, None
        if files.decoder is not None:
            self.decoder = model.new_vocoder(learned_decoder.read_tensors(files.decoder))
        if files.adapter is not None:
            self.adapter = read_adapter(model, files.adapter)

    def prepare(self) -> None:
        """As in `LoadedVoice`; also compiles the vocoder's kernels."""
        for vocoder in filter(None, (self.model.vocoder, self.decoder)):
            vocoder.warm_up()
        super().prepare()

    @cached_property
    def weights(self) -> str:
        """As in `LoadedVoice`."""
        return sha256_of(self.files.weights)

    def backend(self, count: int | None = None, *, beside_another: bool = False) -> TorchBackend:
        """As in `LoadedVoice`."""
        if count is None:
            return TorchBackend(self.model)
        heads = self.heads if self.guarded else ()
        num_slots = fitting_slots(self.model.gpt, count, beside_another=beside_another)
        if num_slots < count:
            log.warning(
                "%d requests at once instead of %d, because of the GPU's free memory.", num_slots, count
            )
        return TorchBackend(self.model, num_slots, {layer for layer, _ in heads})

    def voice_of(self, recording: Reference, cache: Path | None) -> Voice:
        """As in `LoadedVoice`, with the decoder of the speaker, if one was trained. recording: may
        also be the folder of an adapter of these weights; then its recording, decoder and adapter
        are used.

        Raises BundleError for an adapter that is damaged, or of another base.
        """
        if isinstance(recording, Path) and recording.is_dir():
            return self._voice_of_adapter(recording, cache)
        voice = replace(self._encode_recording(recording, cache), adapter=self.adapter)
        decoders = self.files.speaker_decoders
        if isinstance(recording, Path) and (tensors := decoders.get(recording)) is not None:
            if tensors not in self._vocoders:  # several speakers may share one
                self._vocoders[tensors] = self._new_vocoder(tensors)
            return replace(voice, vocoder=self._vocoders[tensors])
        return voice

    def _encode_recording(self, recording: Reference, cache: Path | None) -> Voice:
        weights = "" if cache is None else self.weights
        return latents_file.latents_of_recording(self.model, weights, recording, cache)

    def _voice_of_adapter(self, folder: Path, cache: Path | None) -> Voice:
        exported = bundle.verify(folder)
        if exported.kind not in bundle.KINDS_WITH_BASE_WEIGHTS:
            raise BundleError(f"{folder} is a complete voice, not an adapter of another one.")
        if exported.base["sha256"] != self.weights:
            raise BundleError(
                f"{folder.name} is an adapter of {exported.base['name']} with SHA-256 "
                f"{exported.base['sha256'][:12]}…, but the loaded weights have SHA-256 "
                f"{self.weights[:12]}…. Load the base of the adapter."
            )
        if bundle.LATENTS_FILE in exported.files:
            voice = self._read_latents(folder / bundle.LATENTS_FILE)
        else:
            voice = self._encode_recording(folder / "reference.wav", cache)
        vocoder, adapter = None, None
        if bundle.DECODER_FILE in exported.files:
            vocoder = self._new_vocoder(folder / bundle.DECODER_FILE)
        if exported.kind == bundle.ADAPTER:
            adapter = read_adapter(self.model, folder / adapter_file.FILE_NAME)
        return replace(voice, vocoder=vocoder, adapter=adapter)

    def _read_latents(self, path: Path) -> Voice:
        """The latents in a file. Raises BundleError if they do not fit this model."""
        if (voice := latents_file.read(path, self.model)) is None:
            raise BundleError(f"{path} holds no latents of this model. Import the voice again.")
        return voice

    def _new_vocoder(self, tensors: Path) -> Vocoder:
        vocoder = self.model.new_vocoder(learned_decoder.read_tensors(tensors))
        vocoder.warm_up()
        return vocoder

    def _base_weights(self) -> str:
        base = self.files.folder / "model.pth"
        return self.weights if base == self.files.weights else sha256_of(base)

    def _zeros(self, *shape: int) -> torch.Tensor:
        return torch.zeros(shape, device=self.model.device)

    def _own_latents(self) -> Voice | None:
        if self.files.requested_reference is None and self.files.latents is not None:
            voice = self._read_latents(self.files.latents)
        elif (reference := self.files.requested_reference or self.files.reference) is not None:
            voice = self._encode_recording(reference, self.latents_folder)
        else:
            return None
        return replace(voice, vocoder=self.decoder, adapter=self.adapter)


def read_adapter(model: Model, path: Path) -> Adapter:
    """Reads an adapter's file for the GPT of a model. Raises BundleError, and ConfigError if it
    belongs to another model."""
    header, tensors = adapter_file.read(path)
    return Adapter(model.gpt, tensors, header.scale, str(path))


def load_torch_voice(
    files: VoiceFiles, compute: ComputeConfig, others: Iterable[LoadedVoice] = ()
) -> LoadedTorchVoice:
    """Loads a voice. others: voices that are already loaded. A checkpoint with the same base shares
    their vocoder and speaker encoder; an adapter also shares the GPT, if the weights are its base.

    Raises BundleError, ConfigError.
    """
    shared_model = None
    if files.state is not None or files.adapter is not None:
        shared_model = next((voice.model for voice in others if _can_share_model(files, voice)), None)
    model = shared_model or load_model(
        files.folder,
        compute.device,
        compute.mel_device,
        precision=compute.precision,
        low_memory=compute.low_memory,
    )
    # The normaliser may differ from the base's, and the pronunciations from the other voice's.
    config = replace(model.config, normalizer=files.tokenizer.normalizer)
    tokenizer = Tokenizer(config, files.folder, files.pronunciations)
    model = replace(model, config=config, tokenizer=tokenizer)
    if files.state is not None:
        model.load_gpt(files.state)
    return LoadedTorchVoice(model, files, compute)


def _can_share_model(files: VoiceFiles, loaded: LoadedVoice) -> bool:
    if files.adapter is None:
        return loaded.files.folder == files.folder
    return loaded.files.weights == files.weights


def fitting_slots(gpt: GPT, max_slots: int, *, beside_another: bool) -> int:
    """The number of slots for a GPT, at least 1. On a CPU, where slots allocate memory as they
    speak, it is `max_slots`; on a GPU, the slots must fit into the free memory. A slot of XTTS-v2
    takes 257 MB in float32.

    beside_another: whether another voice of the same service is already loaded there; otherwise the
    weights of a second one and as many slots must fit, too.
    """
    weight, shape = gpt.mel_head.weight, gpt.shape
    if weight.device.type != "cuda":
        return max_slots
    free_bytes = torch.cuda.mem_get_info(weight.device)[0] - RESERVED_BYTES
    free_bytes += torch.cuda.memory_reserved(weight.device) - torch.cuda.memory_allocated(weight.device)
    slot_bytes = 2 * shape.layers * shape.width * slot_positions(shape) * gpt.gpt.cache_type.itemsize
    if not beside_another:
        free_bytes = (free_bytes - sum(parameter.nbytes for parameter in gpt.parameters())) // 2
    return max(1, min(max_slots, free_bytes // slot_bytes))
