"""Loads a model folder onto a device, with `model.pth` in Coqui's names.

The folder has Coqui's layout (`config.json model.pth vocab.json …`). Weights are memory-mapped and
copied once; the GPT can be replaced without loading the rest again.
"""

import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from machine.memory import MappedFiles, trim_heap
from machine.text import load_error
from xtts.model import kv_cache, quantization
from xtts.model.config import ConfigError, ModelConfig
from xtts.model.empty_weights import without_weights
from xtts.model.gpt import GPT, from_coqui
from xtts.model.vocoder import SpeakerEncoder, Vocoder, load_speaker_encoder, load_vocoder
from xtts.text.tokenizer import Tokenizer

# Coqui pickled its configuration objects into the published file. They are not used here, but a
# safe load must know their classes: each becomes an inert object.
_COQUI_CLASSES = (
    "TTS.tts.configs.xtts_config.XttsConfig",
    "TTS.tts.configs.xtts_config.XttsArgs",
    "TTS.tts.configs.xtts_config.XttsAudioConfig",
    "TTS.tts.models.xtts.XttsArgs",
    "TTS.tts.models.xtts.XttsAudioConfig",
    "TTS.config.shared_configs.BaseDatasetConfig",
)
# The parts of the GPT that encode a recording, or that only training needs.
LISTENING = ("conditioning_encoder.", "conditioning_perceiver.", "text_head.")


@dataclass
class Model:
    """The parts of a model that are needed to speak, in evaluation mode."""

    config: ModelConfig
    device: torch.device
    tokenizer: Tokenizer
    gpt: GPT
    vocoder: Vocoder
    speaker_encoder: SpeakerEncoder
    mel_stats: Tensor
    kind: str = "fp32"
    listener: "LazyVoiceEncoder | None" = None

    @contextmanager
    def voice_encoder(self) -> Iterator["Model"]:
        """A model that can encode recordings: this one, or with low memory one that is loaded
        now."""
        if self.listener is None:
            yield self
            return
        try:
            yield self.listener(self)
        finally:
            self.listener.rest()

    def load_gpt(self, state: Mapping[str, Tensor]) -> None:
        """Replaces the GPT with that of `state` (names as in `model.pth`).

        Raises ConfigError if the tensors do not fit this model.
        """
        gpt = load_gpt(
            state, self.config, kind=self.kind, device=self.device, source="the checkpoint",
            lean=self.listener is not None,
        )  # fmt: skip
        self.gpt = gpt.eval().requires_grad_(False)
        self.listener = self.listener and replace(self.listener, learned=state)

    def another_vocoder(self, state: Mapping[str, Tensor]) -> Vocoder:
        """A second vocoder with other weights (`xtts.voices.learned_decoder`)."""
        vocoder = load_vocoder(state, self.config).to(self.device)
        if (dtype := self.vocoder.laid_out_as) is not None:
            vocoder.lay_out(dtype)
        return vocoder

    def unload_gpt(self) -> None:
        """Frees the memory of the GPT; `load_gpt` is needed before the model can speak again."""
        with without_weights():
            self.gpt = GPT(self.config.gpt).eval()


def load_model(
    folder: Path,
    device: torch.device | str = "cpu",
    mel_device: torch.device | str = "cpu",
    *,
    precision: str = "fp32",
    low_memory: bool = False,
) -> Model:
    """Loads a model folder onto `device`.

    mel_device: computes the speaker encoder's mel. precision: fp32 is exact; int8 and int4 quantise
    the transformer's weights on a CPU; bf16 halves the bytes of the transformer on a GPU; auto is
    the fastest on this machine without an audible difference (`xtts.model.quantization`).

    low_memory: LOW_MEMORY=on. Quantises the matrices of the mapped file one by one (auto is int8 on
    a CPU) and releases their pages. The parts that encode recordings (0.22 GB at XTTS-v2's size)
    are loaded for a recording and freed after it. Figures are in benchmarks/record.md.

    Raises ConfigError if a file is missing or does not fit the others.
    """
    device = torch.device(device)
    config = ModelConfig.read(folder)
    state = read_tensors(folder / "model.pth")
    if low_memory and precision == "auto" and device.type == "cpu":
        precision = "int8"
    kind, vocoder_type = quantization.resolve_precision(precision, device, config.gpt.width)
    gpt = load_gpt(state, config, kind=kind, device=device, lean=low_memory)
    vocoder = load_vocoder(state, config).to(device)
    if vocoder_type is not None:
        vocoder.lay_out(vocoder_type)
    listener = None
    if low_memory:
        listener = LazyVoiceEncoder(state, state, torch.device(mel_device))
        with without_weights():
            speaker_encoder = SpeakerEncoder(config, mel_device)
    else:
        speaker_encoder = load_speaker_encoder(state, config, mel_device).to(device)
    model = Model(
        kind=kind,
        config=config,
        device=device,
        tokenizer=Tokenizer(config, folder),
        gpt=gpt.eval().requires_grad_(False),
        vocoder=vocoder,
        speaker_encoder=speaker_encoder,
        mel_stats=mel_stats(folder, state),
        listener=listener,
    )
    if low_memory:
        _give_back(state)
    return model


@dataclass(frozen=True)
class LazyVoiceEncoder:
    """Loads a model that can encode recordings from the mapped files, at every call."""

    frozen: Mapping[str, Tensor]
    learned: Mapping[str, Tensor]
    mel_device: torch.device

    def __call__(self, speaking: Model) -> Model:
        tensors = {
            name: tensor.float().to(speaking.device)
            for name, tensor in from_coqui(self.learned).items()
            if name.startswith(LISTENING)
        }
        with without_weights():
            gpt = GPT(speaking.config.gpt)
        gpt.load_state_dict(tensors, assign=True, strict=False)
        gpt.eval().requires_grad_(False)
        encoder = load_speaker_encoder(self.frozen, speaking.config, self.mel_device)
        encoder = encoder.to(speaking.device)
        return replace(speaking, gpt=gpt, speaker_encoder=encoder, listener=None)

    def rest(self) -> None:
        """Frees the tensors that a call has read."""
        _give_back({**self.frozen, **self.learned})


def _give_back(state: Mapping[str, Tensor]) -> None:
    files = MappedFiles.look()
    for tensor in state.values():
        files.forget(tensor.data_ptr(), tensor.nbytes)
    trim_heap()


def load_gpt(
    state: Mapping[str, Tensor],
    config: ModelConfig,
    dropout: float = 0.0,
    *,
    kind: str | None = None,
    device: torch.device | str = "cpu",
    source: str = "model.pth",
    lean: bool = False,
) -> GPT:
    """Loads the GPT: in float32 with gradients, or for inference with its matrices packed or
    quantised to `kind`. lean: leaves out the parts that encode recordings, and releases the pages
    of the file.

    Raises ConfigError, which names `source`, if the tensors of `state` do not fit the model.
    """
    with without_weights():
        gpt = GPT(config.gpt, dropout)
    tensors = _belonging(gpt, state, source)
    files = MappedFiles.look() if lean else MappedFiles(())
    whole = list(tensors.values())
    if kind == "bf16":
        gpt.gpt.to(torch.bfloat16)
        gpt.gpt.cache_type = torch.bfloat16
    elif kind is not None and (kind != "fp32" or torch.device(device).type == "cpu"):
        _pack(gpt, tensors, kind, files)
    # Always a copy: the source is memory-mapped, and training must not write into it.
    placed = {
        name: torch.empty(tensor.shape, dtype=tensor.dtype, device=device).copy_(tensors[name])
        for name, tensor in gpt.state_dict().items()
        if not (lean and name.startswith(LISTENING))
    }
    gpt.load_state_dict(placed, assign=True, strict=not lean)
    for tensor in whole:
        files.forget(tensor.data_ptr(), tensor.nbytes)
    return gpt.requires_grad_(True)


def _belonging(gpt: GPT, state: Mapping[str, Tensor], source: str) -> dict[str, Tensor]:
    """The tensors of `state` that belong to the GPT, by the names of its modules."""
    own = gpt.state_dict()
    tensors = from_coqui(state)
    missing = sorted(own.keys() - tensors.keys())
    if missing:
        raise ConfigError(
            f"{source} lacks the tensor gpt.{missing[0]}; it is not an XTTS-v2 model."
        )
    for name, tensor in own.items():
        if tensors[name].shape != tensor.shape:
            raise ConfigError(
                f"{source}: gpt.{name} is {list(tensors[name].shape)}, but config.json and "
                f"vocab.json require {list(tensor.shape)}. Use files of one model."
            )
    return tensors


def _pack(gpt: GPT, tensors: dict[str, Tensor], kind: str, files: MappedFiles) -> None:
    """Packs the transformer's matrices in `kind`, one per thread at a time, which limits the number
    of float32 copies in memory."""
    names = [name for name, module in gpt.gpt.named_modules() if isinstance(module, nn.Linear)]

    def packed(name: str) -> nn.Module:
        weight, bias = tensors.pop(f"gpt.{name}.weight"), tensors.pop(f"gpt.{name}.bias")
        made = quantization.packed_linear(kind, weight, bias)
        files.forget(weight.data_ptr(), weight.nbytes)
        return made

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for name, module in zip(names, pool.map(packed, names), strict=True):
            parent, _, own = name.rpartition(".")
            setattr(gpt.gpt.get_submodule(parent), own, module)
    if kind != "fp32":
        gpt.gpt.cache_type = kv_cache.type_for_rounded_weights()


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a `model.pth`, memory-mapped. Runs no pickled code.

    Raises ConfigError if the file is missing or has another format.
    """
    if not path.is_file():
        raise ConfigError(f"{path} is missing. A model folder in Coqui's layout contains it.")
    inert: list[Any] = [(_Inert, name) for name in _COQUI_CLASSES]
    try:
        with torch.serialization.safe_globals(inert):
            # Before torch 1.6, files were not zip files, which cannot be memory-mapped.
            tensors = torch.load(
                path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path)
            )
        tensors = tensors.get("model", tensors)
        if not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
            raise TypeError("not every entry is a tensor")
    except Exception as error:
        raise ConfigError(
            f"{path} cannot be read as model weights ({load_error(error)}). Copy or download it "
            "again."
        ) from error
    # Coqui's trainer saves the same weights one level deeper.
    return {name.removeprefix("xtts."): tensor for name, tensor in tensors.items()}


class _Inert(dict[str, Any]):
    """A placeholder for a pickled Coqui object that is never used."""


def mel_stats(folder: Path, state: Mapping[str, Tensor]) -> Tensor:
    """The 80 band scales that divide both mels, from `model.pth` or else `mel_stats.pth`."""
    if "mel_stats" in state:
        return state["mel_stats"].float().clone()
    path = folder / "mel_stats.pth"
    if not path.is_file():
        raise ConfigError(
            f"{path} is missing, and model.pth lacks mel_stats. Copy the file of this name that is "
            "published with XTTS-v2's dvae.pth."
        )
    stats: Tensor = torch.load(path, map_location="cpu", weights_only=True)
    return stats.float()
