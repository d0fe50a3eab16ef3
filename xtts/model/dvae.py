"""The DVAE, Coqui's module, which makes codes of mels for training."""

from pathlib import Path
from typing import Any

import torch

from xtts.audio import MEL_BANDS
from xtts.model.config import ConfigError, ModelConfig
from xtts.model.shapes import DVAEShape


def new_dvae(shape: DVAEShape) -> Any:
    """Coqui's `DiscreteVAE` at these sizes: mel `[batch, 80, frames]` <-> codes `[batch, n]`."""
    from TTS.tts.layers.xtts.dvae import DiscreteVAE

    return DiscreteVAE(
        channels=MEL_BANDS, normalization=None, positional_dims=1, num_tokens=shape.num_codes,
        codebook_dim=shape.codebook_dim, hidden_dim=shape.hidden_dim,
        num_resnet_blocks=shape.num_resnet_blocks, kernel_size=3, num_layers=shape.num_layers,
        use_transposed_convs=False,
    )  # fmt: skip


def load_dvae(folder: Path, config: ModelConfig) -> Any:
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
