"""The GPT, the trained part of XTTS: embeddings, transformer, heads and losses.

Coqui's implementation is not used, because it imports transformers, whose updates broke it more
than once. The names are Coqui's, so that a published `model.pth` is read and written key for key.
`tests/peers` compares its losses, gradients and greedy codes with Coqui's `GPT`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from xtts.model.casting import cast_together
from xtts.model.conditioning import (
    ConditioningEncoder,
    PerceiverResampler,
    packed_conditioning_latents,
)
from xtts.model.kv_cache import Cache
from xtts.model.packed_batch import PackedBatch
from xtts.model.shapes import GPTShape
from xtts.model.transformer import Transformer, initialise

PREFIX = "gpt."
# The tables with a row for each text id.
TEXT_TABLES = ("text_embedding.weight", "text_head.weight", "text_head.bias")
# On disk these are Hugging Face Conv1D weights, [in, out].
_TURNED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")

# Targets per chunk of logits: with 6,681 text ids in float32, a chunk takes 55 MB.
LOGITS_CHUNK = 2048


class Losses(NamedTuple):
    """Mean cross-entropies in nats per token."""

    text: Tensor
    audio: Tensor


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

    # Training

    def hidden(self, rows: PackedBatch, latents: Tensor | None = None) -> Tensor:
        """The training forward: the normed output `[rows * length, width]` of every slot of the
        grid. latents: of the conditioning, `[clips, 32, width]`; None computes them from its mel.
        """
        latents = self._heard(rows) if latents is None else latents
        text = self.text_embedding(rows.text) + self.text_pos_embedding(rows.text_positions)
        audio = self.mel_embedding(rows.audio) + self.mel_pos_embedding(rows.audio_positions)
        # Filled slot by slot, so that padding is neither embedded nor part of the gradient.
        grid = text.new_zeros(rows.num_rows * rows.length, self.shape.width)
        grid = grid.index_copy(0, rows.conditioning_slots, latents.flatten(0, 1).to(grid.dtype))
        grid = grid.index_copy(0, rows.text_slots, text)
        grid = grid.index_copy(0, rows.audio_slots, audio)
        seen = self.gpt(grid.view(rows.num_rows, rows.length, -1), rows.segments)
        return self.final_norm(seen).flatten(0, 1)

    def losses(self, rows: PackedBatch) -> Losses:
        """The cross-entropies of text and audio, each the mean over its targets in the batch; 0
        without targets."""
        hidden = self.hidden(rows)
        return Losses(
            cross_entropy(self.text_head, hidden, rows.text_target_slots, rows.text_targets),
            cross_entropy(self.mel_head, hidden, rows.audio_target_slots, rows.audio_targets),
        )

    def _heard(self, rows: PackedBatch) -> Tensor:
        """The conditioning latents, `[clips, 32, width]`."""
        if rows.frames is None:
            return self.conditioning_latents(rows.conditioning, rows.conditioning_lengths)
        frames = rows.conditioning.transpose(1, 2).flatten(0, 1)
        listening = (self.conditioning_encoder, self.conditioning_perceiver)
        with cast_together(part for one in listening for part in one.modules()):
            return packed_conditioning_latents(
                *listening, frames.index_select(0, rows.frames.slots), rows.frames
            )

    # Speaking

    def conditioning_latents(self, mel: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Conditioning mel `[batch, 80, frames]` -> latents `[batch, 32, width]`. lengths: the
        frames of each mel that are not padding."""
        valid = None
        if lengths is not None:
            valid = torch.arange(mel.shape[2], device=lengths.device) < lengths[:, None]
        frames = self.conditioning_encoder(mel, valid).transpose(1, 2)
        return self.conditioning_perceiver(frames, valid)

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

    def prefill(self, embedded: Tensor, cache: Cache) -> tuple[Tensor, Tensor]:
        """Appends positions `[batch, time, width]` to the cache; returns the latent `[batch,
        width]` and the audio logits `[batch, audio_ids]` of the last one.

        Runs the modules on any number of positions. Decoding, with one position per row, uses
        `xtts.inference.decode_step`, which is a fifth faster and is tested against this.
        """
        latent = self.final_norm(self.gpt(embedded, cache)[:, -1])
        return latent, self.mel_head(latent)


def cross_entropy(head: nn.Module, hidden: Tensor, slots: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy of `head` at these slots of `hidden`, in float32.

    With many targets, only one chunk of logits is in memory: the backward pass computes each chunk
    again, which takes 2 % of a step of XTTS-v2.
    """
    total = hidden.new_zeros((), dtype=torch.float32)
    pieces = list(zip(slots.split(LOGITS_CHUNK), targets.split(LOGITS_CHUNK), strict=True))
    for where, wanted in pieces:
        if len(pieces) > 1 and torch.is_grad_enabled():
            part = checkpoint(
                _summed, head, hidden, where, wanted, use_reentrant=False, preserve_rng_state=False
            )
        else:
            part = _summed(head, hidden, where, wanted)
        total = total + part
    return total / max(1, len(targets))


def _summed(head: nn.Module, hidden: Tensor, slots: Tensor, targets: Tensor) -> Tensor:
    logits = head(hidden.index_select(0, slots))
    return F.cross_entropy(logits.float(), targets, reduction="sum")


def new_gpt(shape: GPTShape, seed: int) -> GPT:
    """A GPT with GPT-2's random initialisation, determined by the seed; does not change torch's
    random state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        gpt = GPT(shape)
        initialise(gpt.gpt)
        tables = (gpt.text_embedding, gpt.mel_embedding)
        for table in (*tables, gpt.text_pos_embedding.emb, gpt.mel_pos_embedding.emb):
            nn.init.normal_(table.weight, std=0.02)
    return gpt


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
