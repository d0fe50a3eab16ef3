"""A mean of two sets of weights: `base + share * (tuned - base)`.

A mean of a fine-tune and its base often keeps what the base can do and comes nearer to what was
learned than either end (Wortsman et al. 2022, https://arxiv.org/abs/2109.01903).
"""

from collections.abc import Mapping

from torch import Tensor

from xtts.model.config import ConfigError
from xtts.model.gpt import PREFIX, from_coqui


def blend(
    base: Mapping[str, Tensor], tuned: Mapping[str, Tensor], share: float
) -> dict[str, Tensor]:
    """The learning part between the two, in float32 and in the names of `tuned`.

    share: of the fine-tuned weights, 0 to 1; 1 is `tuned` bit for bit. Raises ConfigError where the
    two do not belong together.
    """
    if share == 1:
        return dict(tuned)
    known = {PREFIX + name for name in from_coqui(base)}
    for name in sorted(known ^ tuned.keys()):
        raise ConfigError(f"{name} is in only one of base and checkpoint; they cannot be blended.")
    found = {}
    for name, tensor in tuned.items():
        if base[name].shape != tensor.shape:
            raise ConfigError(
                f"{name} is {list(base[name].shape)} in the base and {list(tensor.shape)} in the "
                "checkpoint; they cannot be blended."
            )
        found[name] = base[name].float().lerp(tensor.float(), share)
    return found
