"""LOW_MEMORY=on with torch: mapped weights, voice encoder loaded on demand.

The file is mapped, each matrix becomes 8-bit by itself and what was read of it is given back; what
only listens (0.22 GB at XTTS-v2's size) is loaded for a recording and let go. Numbers and times
stand in docs/benchmarks.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from machine.memory import MappedFiles, trim_heap
from xtts.model import loading as model
from xtts.model import quantization
from xtts.model.config import ModelConfig
from xtts.model.empty_weights import without_weights
from xtts.model.gpt import GPT, from_coqui
from xtts.model.loading import LISTENING, Model
from xtts.model.vocoder import SpeakerEncoder, load_speaker_encoder, load_vocoder
from xtts.text.tokenizer import Tokenizer


def load_low_memory(
    folder: Path,
    device: torch.device | str = "cpu",
    mel_device: torch.device | str = "cpu",
    *,
    precision: str = "auto",
) -> Model:
    """As `xtts.model.loading.load_model`; auto is int8 on a CPU. Raises ConfigError."""
    device = torch.device(device)
    config = ModelConfig.read(folder)
    state = model.read_tensors(folder / "model.pth")
    wanted = "int8" if precision == "auto" and device.type == "cpu" else precision
    kind, vocoder_type = quantization.resolve_precision(wanted, device, config.gpt.width)
    gpt = model.load_gpt(state, config, kind=kind, device=device, lean=True)
    vocoder = load_vocoder(state, config).to(device)
    if vocoder_type is not None:
        vocoder.lay_out(vocoder_type)
    with without_weights():
        deaf = SpeakerEncoder(config, mel_device)
    found = Model(
        kind=kind,
        config=config,
        device=device,
        tokenizer=Tokenizer(config, folder),
        gpt=gpt.eval().requires_grad_(False),
        vocoder=vocoder,
        speaker_encoder=deaf,
        mel_stats=model.mel_stats(folder, state),
        listener=LazyVoiceEncoder(state, state, torch.device(mel_device)),
    )
    _give_back(state)
    return found


@dataclass(frozen=True)
class LazyVoiceEncoder:
    """Makes a model that listens out of the mapped files, each time it is called."""

    frozen: Mapping[str, Tensor]
    learned: Mapping[str, Tensor]
    mel_device: torch.device

    def __call__(self, speaking: Model) -> Model:
        found = {
            name: tensor.float().to(speaking.device)
            for name, tensor in from_coqui(self.learned).items()
            if name.startswith(LISTENING)
        }
        with without_weights():
            gpt = GPT(speaking.config.gpt)
        gpt.load_state_dict(found, assign=True, strict=False)
        gpt.eval().requires_grad_(False)
        encoder = load_speaker_encoder(self.frozen, speaking.config, self.mel_device)
        encoder = encoder.to(speaking.device)
        return replace(speaking, gpt=gpt, speaker_encoder=encoder, listener=None)

    def of(self, learned: Mapping[str, Tensor]) -> "LazyVoiceEncoder":
        """The same with another learning part."""
        return replace(self, learned=learned)

    def rest(self) -> None:
        """Nobody listens any more: what was read for it is given back."""
        _give_back({**self.frozen, **self.learned})


def _give_back(state: Mapping[str, Tensor]) -> None:
    files = MappedFiles.look()
    for tensor in state.values():
        files.forget(tensor.data_ptr(), tensor.nbytes)
    trim_heap()
