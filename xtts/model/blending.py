"""Blends of fine-tuned weights with their base's."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from xtts.model.config import ConfigError, Extension
from xtts.model.gpt import PREFIX, TEXT_TABLES, from_coqui


def blend(
    base: Mapping[str, Tensor],
    tuned: Mapping[str, Tensor],
    share: float,
    extensions: Sequence[Extension] = (),
) -> dict[str, Tensor]:
    """`base + share * (tuned - base)` of the GPT, in float32, by the names of `tuned`.

    A mean of a fine-tune and its base often keeps the base's abilities and is better on the new
    data than either (Wortsman et al. 2022, https://arxiv.org/abs/2109.01903).

    share: the share of the fine-tuned weights, 0 to 1; 1 returns `tuned` unchanged. extensions:
    added languages; the base has not learned their rows of the text tables, so these are those of
    `tuned`. Raises ConfigError if names or shapes differ.
    """
    if share == 1:
        return dict(tuned)
    trained = {PREFIX + name for name in from_coqui(base)}
    for name in sorted(trained ^ tuned.keys()):
        raise ConfigError(f"{name} is in only one of base and checkpoint; they cannot be blended.")
    blended = {}
    for name, tensor in tuned.items():
        if base[name].shape != tensor.shape:
            raise ConfigError(
                f"{name} is {list(base[name].shape)} in the base and {list(tensor.shape)} in the "
                "checkpoint; they cannot be blended."
            )
        blended[name] = base[name].float().lerp(tensor.float(), share)
    for extension in extensions:
        rows = slice(extension.first_id, extension.first_id + extension.num_ids)
        for name in TEXT_TABLES:
            blended[PREFIX + name][rows] = tuned[PREFIX + name][rows].float()
    return blended
