"""Loads a model folder onto a device, with `model.pth` in Coqui's names, and its DVAE for training.

The folder has Coqui's layout (`config.json model.pth vocab.json …`). Weights are memory-mapped and
copied once; the GPT can be replaced without loading the rest again. The DVAE is Coqui's module; it
makes codes of mels.
"""

import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from machine.memory import MappedFiles, trim_heap
from machine.text import load_error
from xtts.audio import MEL_BANDS
from xtts.model import quantization
from xtts.model.config import ConfigError, ModelConfig
from xtts.model.empty_weights import without_weights
from xtts.model.gpt import GPT, cache_type_for_quantized_weights, from_coqui
from xtts.model.shapes import DVAEShape
from xtts.model.vocoder import SpeakerEncoder, Vocoder, load_speaker_encoder, load_vocoder
from xtts.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from TTS.tts.layers.xtts.dvae import DiscreteVAE

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
LISTENING_PREFIXES = ("conditioning_encoder.", "conditioning_perceiver.", "text_head.")


@dataclass
class Model:
    """The parts of a model that are needed to speak, in evaluation mode. kind: the precision of the
    transformer's weights, one of `xtts.model.quantization.KINDS`."""

    config: ModelConfig
    device: torch.device
    tokenizer: Tokenizer
    gpt: GPT
    vocoder: Vocoder
    speaker_encoder: SpeakerEncoder
    mel_stats: Tensor
    kind: str = "fp32"
    low_memory: bool = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """A context for encoding recordings. With low memory, the weights that do so are mapped,
        and their pages are released afterwards."""
        try:
            yield
        finally:
            if self.low_memory:
                _release_pages(self.gpt.state_dict())

    def load_gpt(self, state: Mapping[str, Tensor]) -> None:
        """Replaces the GPT with that of `state` (names as in `model.pth`).

        Raises ConfigError if the tensors do not fit this model.
        """
        gpt = load_gpt(
            state,
            self.config,
            kind=self.kind,
            device=self.device,
            source="the checkpoint",
            low_memory=self.low_memory,
        )
        self.gpt = gpt.eval().requires_grad_(False)

    def new_vocoder(self, state: Mapping[str, Tensor]) -> Vocoder:
        """A second vocoder with other weights (`xtts.voices.learned_decoder`)."""
        vocoder = load_vocoder(state, self.config).to(self.device)
        if (dtype := self.vocoder.channels_last_type) is not None:
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

    Args:
        mel_device: Computes the speaker encoder's mel.
        precision: fp32 is exact; int8 and int4 quantise the transformer's weights on a CPU; bf16
            halves the bytes of the transformer on a GPU; auto is the fastest on this machine
            without an audible difference (`xtts.model.quantization`).
        low_memory: LOW_MEMORY=on. Quantises the matrices of the mapped file one by one (auto is
            int8 on a CPU) and releases their pages. The parts of the GPT that encode recordings
            (0.22 GB at XTTS-v2's size) stay in the file. Their pages are read for a recording and
            released after it. Figures are in docs/develop/log.md.

    Raises ConfigError if a file is missing or does not fit the others.
    """
    device = torch.device(device)
    config = ModelConfig.read(folder)
    state = read_tensors(folder / "model.pth")
    if low_memory and precision == "auto" and device.type == "cpu":
        precision = "int8"
    kind, vocoder_type = quantization.resolve_precision(precision, device, config.gpt.width)
    gpt = load_gpt(state, config, kind=kind, device=device, low_memory=low_memory)
    vocoder = load_vocoder(state, config).to(device)
    if vocoder_type is not None:
        vocoder.lay_out(vocoder_type)
    model = Model(
        kind=kind,
        config=config,
        device=device,
        tokenizer=Tokenizer(config, folder),
        gpt=gpt.eval().requires_grad_(False),
        vocoder=vocoder,
        speaker_encoder=load_speaker_encoder(state, config, mel_device).to(device),
        mel_stats=mel_stats(folder, state),
        low_memory=low_memory,
    )
    if low_memory:
        _release_pages(state)
    return model


def _release_pages(state: Mapping[str, Tensor]) -> None:
    """Releases the pages of mapped files that hold these tensors."""
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
    low_memory: bool = False,
) -> GPT:
    """Loads the GPT: in float32 with gradients, or for inference with its matrices packed or
    quantised to `kind`. low_memory: the parts that encode recordings are not copied from `state` if
    they are float32 on `device`, and the pages of the file are released.

    Raises ConfigError, which names `source`, if the tensors of `state` do not fit the model.
    """
    with without_weights():
        gpt = GPT(config.gpt, dropout)
    tensors = _gpt_tensors(gpt, state, source)
    files = MappedFiles.look() if low_memory else MappedFiles(())
    # `_pack_linears` takes some of them out of `tensors`.
    all_tensors = list(tensors.values())
    if kind == "bf16":
        gpt.gpt.to(torch.bfloat16)
        gpt.gpt.cache_type = torch.bfloat16
    elif kind in ("int8", "int4") or (kind == "fp32" and _can_pack_float32(device)):
        _pack_linears(gpt, tensors, kind, files)
    # A copy, because the source is memory-mapped, and training must not write into it.
    placed = {
        name: tensors[name].to(device, tensor.dtype)
        if low_memory and name.startswith(LISTENING_PREFIXES)
        else torch.empty(tensor.shape, dtype=tensor.dtype, device=device).copy_(tensors[name])
        for name, tensor in gpt.state_dict().items()
    }
    gpt.load_state_dict(placed, assign=True)
    for tensor in all_tensors:
        files.forget(tensor.data_ptr(), tensor.nbytes)
    return gpt.requires_grad_(True)


def _gpt_tensors(gpt: GPT, state: Mapping[str, Tensor], source: str) -> dict[str, Tensor]:
    """The tensors of `state` that belong to the GPT, by the names of its modules."""
    expected = gpt.state_dict()
    tensors = from_coqui(state)
    missing = sorted(expected.keys() - tensors.keys())
    if missing:
        raise ConfigError(f"{source} lacks the tensor gpt.{missing[0]}; it is not an XTTS-v2 model.")
    for name, tensor in expected.items():
        if tensors[name].shape != tensor.shape:
            raise ConfigError(
                f"{source}: gpt.{name} is {list(tensors[name].shape)}, but config.json and "
                f"vocab.json require {list(tensor.shape)}. Use files of one model."
            )
    return tensors


def _can_pack_float32(device: torch.device | str) -> bool:
    return torch.device(device).type == "cpu" and torch.backends.mkldnn.is_available()


def _pack_linears(gpt: GPT, tensors: dict[str, Tensor], kind: str, files: MappedFiles) -> None:
    """Packs the transformer's matrices in `kind`, and removes them from `tensors`. Each thread packs
    one at a time, which limits the number of float32 copies in memory."""
    names = [name for name, module in gpt.gpt.named_modules() if isinstance(module, nn.Linear)]

    def pack(name: str) -> nn.Module:
        weight, bias = tensors.pop(f"gpt.{name}.weight"), tensors.pop(f"gpt.{name}.bias")
        linear = quantization.packed_linear(kind, weight, bias)
        files.forget(weight.data_ptr(), weight.nbytes)
        return linear

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for name, module in zip(names, pool.map(pack, names), strict=True):
            parent, _, attribute = name.rpartition(".")
            setattr(gpt.gpt.get_submodule(parent), attribute, module)
    if kind != "fp32":
        gpt.gpt.cache_type = cache_type_for_quantized_weights()


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a `model.pth`, memory-mapped. Runs no pickled code.

    Raises ConfigError if the file is missing or has another format.
    """
    if not path.is_file():
        raise ConfigError(f"{path} is missing. A model folder in Coqui's layout contains it.")
    inert_classes: list[Callable[..., object] | tuple[Callable[..., object], str]] = [
        (_Inert, name) for name in _COQUI_CLASSES
    ]
    try:
        with torch.serialization.safe_globals(inert_classes):
            # Before torch 1.6, files were not zip files, which cannot be memory-mapped.
            tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        tensors = tensors.get("model", tensors)
        if not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
            raise TypeError("not every entry is a tensor")
    except Exception as error:
        raise ConfigError(
            f"{path} cannot be read as model weights ({load_error(error)}). Copy or download it again."
        ) from error
    # Coqui's trainer saves the same weights one level deeper.
    return {name.removeprefix("xtts."): tensor for name, tensor in tensors.items()}


class _Inert(dict[str, object]):
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


def new_dvae(shape: DVAEShape) -> "DiscreteVAE":
    """Coqui's `DiscreteVAE` at these sizes: mel `[batch, 80, frames]` <-> codes `[batch, n]`."""
    from TTS.tts.layers.xtts.dvae import DiscreteVAE

    return DiscreteVAE(
        channels=MEL_BANDS,
        normalization=None,
        positional_dims=1,
        num_tokens=shape.num_codes,
        codebook_dim=shape.codebook_dim,
        hidden_dim=shape.hidden_dim,
        num_resnet_blocks=shape.num_resnet_blocks,
        kernel_size=3,
        num_layers=shape.num_layers,
        use_transposed_convs=False,
    )


def load_dvae(folder: Path, config: ModelConfig) -> "DiscreteVAE":
    """The DVAE of a base folder, for `get_codebook_indices` only, because its decoder may be
    missing."""
    dvae = new_dvae(config.dvae)
    state = torch.load(folder / "dvae.pth", map_location="cpu", weights_only=True)
    state = {name: tensor.float() for name, tensor in state.items()}
    missing, unexpected = dvae.load_state_dict(state, strict=False)
    needed = [name for name in missing if name.startswith("encoder.") or name == "codebook.embed"]
    if needed or unexpected:
        raise ConfigError(
            f"{folder / 'dvae.pth'} is not this model's DVAE: "
            f"{(needed + list(unexpected))[0]} does not fit. Take the dvae.pth published with it."
        )
    del dvae.decoder
    return dvae.eval().requires_grad_(False)
