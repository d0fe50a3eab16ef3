"""How likely the base model finds a clip's codes, given its text and given other texts.

Teacher-forced: no recogniser is needed, and every language of the base is judged. Codes that a base
finds unlikely are a poor recording or an unheard way of speaking; codes that are no likelier with
their own text than with another clip's are not what the text says.
"""

from dataclasses import dataclass

import numpy as np
import torch

from xtts.evaluation.word_evidence import log_likelihoods
from xtts.model.gpt import GPT


@dataclass(frozen=True)
class Likelihood:
    """nats: mean negative log-likelihood of a code given its text; evidence: by how many nats a
    code its own text makes it likelier than the best of the other texts."""

    nats: float
    evidence: float


@torch.inference_mode()
def likelihood(
    gpt: GPT,
    codes: np.ndarray,
    mel: np.ndarray,
    tokens: tuple[int, ...],
    others: list[tuple[int, ...]],
) -> Likelihood:
    """Scores one clip by the base's GPT, in one padded pass.

    Args:
        gpt: The base's, in evaluation mode.
        codes: `[n]`, of the whole clip; what is beyond the model's positions is left out.
        mel: Conditioning mel `[80, frames]` of the clip itself.
        tokens: Of its text.
        others: Tokens of other texts.
    """
    device = gpt.mel_head.weight.device
    latents = gpt.conditioning_latents(torch.from_numpy(np.array(mel, np.float32)).to(device)[None])
    most = gpt.shape.max_codes
    heard = torch.from_numpy(np.array(codes[:most], np.int64)).to(device)
    own, *foreign = (
        float(one) / len(heard)
        for one in log_likelihoods(gpt, latents, [tokens, *others], heard, stopped=False)
    )
    return Likelihood(-own, own - max(foreign, default=own))
