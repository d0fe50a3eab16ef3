"""The GPT, the trained part of XTTS: embeddings, transformer and heads.

Coqui's implementation is not used, because it imports transformers, whose updates broke it more
than once. The names are Coqui's, so that a published `model.pth` is read and written key for key.
`xtts.model.training` computes its losses. `tests/peers` compares them, the gradients and greedy
codes with Coqui's `GPT`.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xtts.model.conditioning import ConditioningEncoder, PerceiverResampler
from xtts.model.shapes import GPTShape
from xtts.model.transformer import Transformer

PREFIX = "gpt."
# The tables with a row for each text id.
TEXT_TABLES = ("text_embedding.weight", "text_head.weight", "text_head.bias")
# On disk these are Hugging Face Conv1D weights, [in, out].
_TURNED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


class PositionTable(nn.Module):
    """Learned positions; the extra level `emb` is Coqui's name on disk."""

    def __init__(self, positions: int, width: int) -> None:
        super().__init__()
        self.emb = nn.Embedding(positions, width)

    def forward(self, positions: Tensor) -> Tensor:
        return self.emb(positions)


class GPT(nn.Module):
    """Text ids and a voice's latents in, codes and their latents out.

    The latents for the vocoder are `final_norm(transformer(...))` at the audio positions.
    """

    def __init__(self, shape: GPTShape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        width = shape.width
        self.conditioning_encoder = ConditioningEncoder(width, shape.heads)
        self.conditioning_perceiver = PerceiverResampler(width)
        self.text_embedding = nn.Embedding(shape.text_ids, width)
        self.mel_embedding = nn.Embedding(shape.audio_ids, width)
        self.text_pos_embedding = PositionTable(shape.text_positions, width)
        self.mel_pos_embedding = PositionTable(shape.audio_positions, width)
        self.gpt = Transformer(shape.layers, width, shape.heads, dropout)
        self.final_norm = nn.LayerNorm(width)
        self.text_head = nn.Linear(width, shape.text_ids)
        self.mel_head = nn.Linear(width, shape.audio_ids)

    def conditioning_latents(self, mel: Tensor) -> Tensor:
        """Conditioning mel `[batch, 80, frames]` -> latents `[batch, 32, width]`."""
        return self.conditioning_perceiver(self.conditioning_encoder(mel).transpose(1, 2))

    def prefix(self, latents: Tensor, text: Tensor) -> Tensor:
        """Latents `[1, 32, width]` and text ids `[n]` -> embeddings `[1, 32 + n + 2, width]`."""
        ids = F.pad(text, (1, 0), value=self.shape.text_start)
        ids = F.pad(ids, (0, 1), value=self.shape.text_stop)
        positions = torch.arange(len(ids), device=ids.device)
        embedded = self.text_embedding(ids) + self.text_pos_embedding(positions)
        return torch.cat((latents.to(embedded.dtype), embedded[None]), dim=1)

    def audio_input(self, code: Tensor, position: int | Tensor) -> Tensor:
        """Codes `[batch]` at one audio position, or at one position each -> embeddings
        `[batch, 1, width]`."""
        where = position if isinstance(position, Tensor) else torch.full_like(code, position)
        return (self.mel_embedding(code) + self.mel_pos_embedding(where))[:, None]


def to_coqui(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`GPT.state_dict()` -> the names and orientation of Coqui's `model.pth`."""
    return {PREFIX + name: _turned(name, tensor).contiguous() for name, tensor in state.items()}


def from_coqui(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The trained part of a `model.pth` -> `GPT.state_dict()`.

    Leaves out other parts, and the inference copies that Coqui's trainer also saves.
    """
    left_out = (PREFIX + "gpt_inference.", PREFIX + "gpt.wte.", PREFIX + "gpt.wpe.")
    return {
        name.removeprefix(PREFIX): _turned(name, tensor)
        for name, tensor in state.items()
        if name.startswith(PREFIX) and not name.startswith(left_out)
    }


def _turned(name: str, tensor: Tensor) -> Tensor:
    turned = name.endswith(_TURNED) and ".h." in f".{name}"
    return tensor.t() if turned else tensor
