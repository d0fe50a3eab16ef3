"""A voice that PyTorch computes: a model folder, or a checkpoint and the folder of its base."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from machine.storage.hashes import sha256_of
from xtts.inference import latents_file, speech, voice
from xtts.inference.alignment import head_measurement
from xtts.inference.alignment import heads as alignment_heads
from xtts.inference.alignment.guarded_piece import Guard
from xtts.inference.alignment.heads import Head
from xtts.inference.batching import ContinuousBatcher
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import Array, LoadedVoice
from xtts.inference.slot_count import slots_on
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import TorchBackend, TorchBatch
from xtts.inference.voice import Voice
from xtts.model import loading, low_memory
from xtts.model.loading import Model
from xtts.text.tokenizer import Tokenizer
from xtts.voices import learned_decoder
from xtts.voices.voice_files import VoiceFiles

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, repr=False)
class LoadedTorchVoice(LoadedVoice):
    """weights_file: the file of the learning part; reference: a recording of the voice;
    latents_folder: where its latents are kept, and which heads follow the text; decoder: whether
    its vocoder is one that was learned for it."""

    model: Model
    folder: Path
    weights_file: Path
    reference: Path | None
    bundle_licence: str | None = None
    latents_folder: Path | None = None
    guarded: bool = True
    learned_decoder: bool = False

    @property
    def licence(self) -> str:
        """The bundle's, or what config.json says."""
        return self.bundle_licence or self.model.config.licence

    def prepare(self) -> None:
        """As in `LoadedVoice`; also compiles the vocoder's kernels."""
        self.model.warm_up()
        super().prepare()

    def synthesize_guarded(self, request: SynthesisRequest, guard: Guard | None) -> Array:
        """As in `LoadedVoice`."""
        found: Array = speech.synthesize(self._backend, self._speaker(), request, guard).numpy()
        return found

    def stream_guarded(self, request: SynthesisRequest, guard: Guard | None) -> Iterator[Array]:
        """As in `LoadedVoice`."""
        chunks = speech.stream(self._backend, self._speaker(), request, guard)
        return (chunk.numpy() for chunk in chunks)

    @property
    def _backend(self) -> TorchBackend:
        return TorchBackend(self.model)

    def crowd(self, count: int, *, beside_another: bool = False) -> ContinuousBatcher:
        """As in `LoadedVoice`."""
        heads = self.heads if self.guarded else ()
        fitting = slots_on(self.model.gpt, count, beside_another=beside_another)
        if fitting < count:
            log.warning(
                "%d requests at once instead of %d: the GPU's free memory has room for no more.",
                fitting, count,
            )  # fmt: skip
        batch = TorchBatch(self.model, fitting, {layer for layer, _ in heads})
        return ContinuousBatcher(batch, self.guard)

    def nobody(self) -> Voice:
        """As in `LoadedVoice`."""
        return voice.neutral_voice(self.model)

    def voice_of(self, recording: Path, kept: Path | None) -> Voice:
        """As in `LoadedVoice`."""
        weights = "" if kept is None else self.weights
        return latents_file.latents_of_recording(self.model, weights, recording, kept)

    def _heads_file(self) -> Path | None:
        if self.latents_folder is None:
            return None
        base = self.folder / "model.pth"
        same = base == self.weights_file
        return alignment_heads.path_of(
            self.latents_folder, self.weights if same else sha256_of(base)
        )

    def _measured_heads(self) -> tuple[Head, ...]:
        return head_measurement.measured_heads(self.model, self._speaker())

    def _speaker(self) -> Voice:
        return self.own or self.nobody()

    def _weights_sha256(self) -> str:
        return sha256_of(self.weights_file)

    def _own_latents(self) -> Voice | None:
        if self.reference is None:
            return None
        if self.latents_folder is not None:
            return self.voice_of(self.reference, self.latents_folder)
        # Read as for the samples of a run, so that both are the same to the bit.
        heard = voice.read_reference(self.model.config, self.reference)
        return voice.voice_from_reference(self.model, heard)


def load_torch_voice(
    files: VoiceFiles, where: ComputeConfig, others: Iterable[LoadedVoice] = ()
) -> LoadedTorchVoice:
    """Loads a voice that was found. others: voices that are loaded already; a checkpoint of one's
    base model takes its vocoder, speaker encoder and tokenizer from there.

    Raises ConfigError.
    """
    same = None
    if files.state is not None:
        of_base = [one for one in others if isinstance(one, LoadedTorchVoice)]
        same = next((one for one in of_base if one.folder == files.folder), None)
    model = _reading(replace(same.model) if same else _load_model(files.folder, where), files)
    if files.state is not None:
        model.load_gpt(files.state)
    if files.decoder is not None:
        model.load_decoder(learned_decoder.read_tensors(files.decoder))
    elif same and same.learned_decoder:
        model.load_decoder(loading.read_tensors(files.folder / "model.pth"))
    return LoadedTorchVoice(
        model, files.folder, files.weights, files.reference, files.licence, where.latents_folder,
        where.guard, files.decoder is not None,
    )  # fmt: skip


def _reading(model: Model, files: VoiceFiles) -> Model:
    """With the tokenizer of this voice: its normaliser may not be its base's, its list not that of
    another."""
    config = replace(model.config, normalizer=files.tokenizer.normalizer)
    tokenizer = Tokenizer(config, files.folder, files.pronunciations)
    return replace(model, config=config, tokenizer=tokenizer)


def _load_model(folder: Path, where: ComputeConfig) -> Model:
    load = low_memory.load_low_memory if where.low_memory else loading.load_model
    return load(folder, where.device, where.mel_device, precision=where.precision)
