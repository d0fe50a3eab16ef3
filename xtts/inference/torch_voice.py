"""A voice computed by PyTorch: a model folder, or a checkpoint and the folder of its base."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import torch

from machine.storage.hashes import sha256_of
from xtts.inference import latents_file, voice
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.decode_step import slots_on
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.speech import Voice
from xtts.inference.torch_backend import TorchBackend
from xtts.joined_reference import Reference
from xtts.model.loading import Model, load_model
from xtts.model.vocoder import Vocoder
from xtts.text.tokenizer import Tokenizer
from xtts.voices import learned_decoder
from xtts.voices.voice_files import VoiceFiles

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, repr=False)
class LoadedTorchVoice(LoadedVoice):
    """weights_file: the file of the learning part; reference: one recording of the voice or
    several; decoder: a vocoder that was learned for these weights, with which its own person
    speaks; speaker_decoders: as of `VoiceFiles`."""

    model: Model
    folder: Path
    licence: str
    weights_file: Path
    reference: Reference | None
    latents_folder: Path | None = None
    guarded: bool = True
    decoder: Vocoder | None = None
    speakers: Mapping[str, Path] = field(default_factory=dict)
    own_name: str = ""
    speaker_decoders: Mapping[Path, Path] = field(default_factory=dict)

    def prepare(self) -> None:
        """As in `LoadedVoice`; also compiles the vocoder's kernels."""
        for vocoder in filter(None, (self.model.vocoder, self.decoder)):
            vocoder.warm_up()
        super().prepare()

    @cached_property
    def weights(self) -> str:
        """As in `LoadedVoice`."""
        return sha256_of(self.weights_file)

    def backend(self, count: int | None = None, *, beside_another: bool = False) -> TorchBackend:
        """As in `LoadedVoice`."""
        if count is None:
            return TorchBackend(self.model)
        heads = self.heads if self.guarded else ()
        fitting = slots_on(self.model.gpt, count, beside_another=beside_another)
        if fitting < count:
            log.warning(
                "%d requests at once instead of %d: the GPU's free memory has room for no more.",
                fitting, count,
            )  # fmt: skip
        return TorchBackend(self.model, fitting, {layer for layer, _ in heads})

    def voice_of(self, recording: Reference, kept: Path | None) -> Voice:
        """As in `LoadedVoice`. A speaker for whom a decoder was learned speaks with it."""
        weights = "" if kept is None else self.weights
        heard = latents_file.latents_of_recording(self.model, weights, recording, kept)
        if isinstance(recording, Path) and recording in self.speaker_decoders:
            return replace(heard, vocoder=self._vocoder_of(self.speaker_decoders[recording]))
        return heard

    def _vocoder_of(self, tensors: Path) -> Vocoder:
        """Read at first use; several speakers may share one."""
        if tensors not in self._vocoders:
            vocoder = self.model.another_vocoder(learned_decoder.read_tensors(tensors))
            vocoder.warm_up()
            self._vocoders[tensors] = vocoder
        return self._vocoders[tensors]

    @cached_property
    def _vocoders(self) -> dict[Path, Vocoder]:
        return {}

    def _base_weights(self) -> str:
        base = self.folder / "model.pth"
        return self.weights if base == self.weights_file else sha256_of(base)

    def _zeros(self, *shape: int) -> torch.Tensor:
        return torch.zeros(shape, device=self.model.device)

    def _own_latents(self) -> Voice | None:
        if self.reference is None:
            return None
        if self.latents_folder is not None:
            own = self.voice_of(self.reference, self.latents_folder)
        else:
            # Read as for the samples of a run, so that both are the same to the bit.
            heard = voice.read_reference(self.model.config, self.reference)
            own = voice.voice_from_reference(self.model, heard)
        return replace(own, vocoder=self.decoder)


def load_torch_voice(
    files: VoiceFiles, where: ComputeConfig, others: Iterable[LoadedVoice] = ()
) -> LoadedTorchVoice:
    """Loads a voice that was found. others: voices that are loaded already; a checkpoint of one's
    base model takes its vocoder, speaker encoder and tokenizer from there.

    Raises ConfigError.
    """
    same = None
    if files.state is not None:
        same = next((one.model for one in others if one.folder == files.folder), None)
    model = same or load_model(
        files.folder, where.device, where.mel_device, precision=where.precision,
        low_memory=where.low_memory,
    )  # fmt: skip
    # The normaliser of this voice may not be its base's, its list not that of another.
    config = replace(model.config, normalizer=files.tokenizer.normalizer)
    tokenizer = Tokenizer(config, files.folder, files.pronunciations)
    model = replace(model, config=config, tokenizer=tokenizer)
    if files.state is not None:
        model.load_gpt(files.state)
    decoder = None
    if files.decoder is not None:
        decoder = model.another_vocoder(learned_decoder.read_tensors(files.decoder))
    return LoadedTorchVoice(
        model, files.folder, files.licence or model.config.licence, files.weights,
        files.other_reference or files.reference, where.latents_folder, where.guard, decoder,
        files.speakers, files.own_name, files.speaker_decoders,
    )  # fmt: skip
