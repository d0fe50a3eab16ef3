"""The codec, the GPT and the speaker encoder of an earlier voice, to continue from.

A GPT of random weights spends most of its first steps on finding the text. One that has spoken
before has found it, although its codes mean something else now.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from demo_voice.new_gpt import new_gpt
from demo_voice.recipe import BaseRecipe
from machine.errors import SotaqueError
from xtts.model.config import ModelConfig
from xtts.model.gpt import GPT, Block, from_coqui
from xtts.model.loading import load_dvae, read_tensors
from xtts.model.vocoder import SpeakerEncoder, Vocoder, load_speaker_encoder, load_vocoder

if TYPE_CHECKING:
    from TTS.tts.layers.xtts.dvae import DiscreteVAE

# Added to each count of a pair of codes, so that a code without a partner takes the mean of all.
_COUNT_OF_NO_PAIR = 1e-6


class Base:
    """The model folder of an earlier voice. Raises SotaqueError if the recipe cannot use it."""

    def __init__(self, folder: Path, recipe: BaseRecipe) -> None:
        self.config, self.folder, self.recipe = ModelConfig.read(folder), folder, recipe
        planned, existing = recipe.gpt, self.config.gpt
        fixed = ("width", "heads", "text_ids", "audio_ids", "max_text_tokens", "max_audio_tokens")
        different = [name for name in fixed if getattr(planned, name) != getattr(existing, name)]
        if existing.layers > planned.layers:
            different.append("layers")
        if different:
            raise SotaqueError(
                f"The voice in {folder} has another size than the recipe ({', '.join(different)}). "
                "Continue from a voice of the same size, or leave out --base."
            )

    @property
    def mel_stats(self) -> Tensor:
        """The scales of its mels, `[80]`."""
        scales: Tensor = torch.load(self.folder / "mel_stats.pth", weights_only=True)
        return scales.float()

    def codec(self) -> "DiscreteVAE":
        """Its DVAE, to encode."""
        return load_dvae(self.folder, self.config)

    def speaker_encoder(self) -> SpeakerEncoder:
        """Its speaker encoder."""
        return load_speaker_encoder(read_tensors(self.folder / "model.pth"), self.config)

    def vocoder(self) -> Vocoder:
        """Its vocoder."""
        return load_vocoder(read_tensors(self.folder / "model.pth"), self.config)

    def gpt(self, pairs: Tensor) -> GPT:
        """The GPT, with tables for the new codes. Additional layers start as the identity.

        pairs: `[new codes, old codes]`, how often both encode the same moment.
        """
        state = from_coqui(read_tensors(self.folder / "model.pth"))
        state = {name: tensor.float() for name, tensor in state.items()}
        translate_codes(state, pairs)
        gpt = new_gpt(self.recipe.gpt, self.recipe.seed)
        for block in list(gpt.gpt.h)[self.config.gpt.layers :]:
            assert isinstance(block, Block)
            for linear in (block.attn.c_proj, block.mlp.c_proj):
                torch.nn.init.zeros_(linear.weight)
                torch.nn.init.zeros_(linear.bias)
        gpt.load_state_dict(state, strict=False)
        return gpt


def count_pairs(new: Tensor, old: Tensor, num_codes: int) -> Tensor:
    """How often a new and an old code encode the same moment, `[num_codes, num_codes]`. new, old:
    `[codes]`."""
    pair_ids = (new * num_codes + old).cpu()
    return torch.bincount(pair_ids, minlength=num_codes * num_codes).view(num_codes, num_codes).float()


def translate_codes(state: dict[str, Tensor], pairs: Tensor) -> None:
    """Replaces the rows of the GPT's codes: a new code takes the mean of the old codes that occur
    with it, and its bias takes its share of their probability."""
    num_codes = len(pairs)
    shares = pairs + _COUNT_OF_NO_PAIR
    new_shares, old_shares = shares.sum(1) / shares.sum(), shares.sum(0) / shares.sum()
    shares = shares / shares.sum(1, keepdim=True)
    for name in ("mel_embedding.weight", "mel_head.weight"):
        rows = state[name].clone()
        rows[:num_codes] = shares @ rows[:num_codes]
        state[name] = rows
    bias = state["mel_head.bias"].clone()
    bias[:num_codes] = shares @ (bias[:num_codes] - old_shares.log()) + new_shares.log()
    state["mel_head.bias"] = bias
