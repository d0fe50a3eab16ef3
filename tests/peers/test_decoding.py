"""Our decode loop against Coqui's `GPT.generate`: greedy codes and their latents."""

import pytest
import torch
from torch import Tensor

from tests.peers.coqui import SMALL, coqui_gpt, ours_from
from xtts.inference.defaults import SamplingParams
from xtts.inference.torch_backend import TorchUtterance, decode

COUNT = 40
# If Coqui's two best logits are closer than this, rounding decides.
MARGIN = 1e-4


@pytest.fixture(scope="module")
def both():
    coqui = coqui_gpt(SMALL)
    for table in (coqui.text_embedding, coqui.mel_embedding, coqui.mel_head):
        torch.nn.init.normal_(table.weight, std=0.7)  # otherwise random models repeat one code
    ours = ours_from(coqui, SMALL).eval()
    coqui.init_gpt_for_inference()
    return coqui.eval(), ours


def by_coqui(coqui, latents: Tensor, tokens: Tensor, penalty: float):
    """Greedy codes, and the margin between Coqui's two best scores at each step."""
    codes, found = coqui.generate(
        latents,
        tokens[None],
        do_sample=False,
        num_beams=1,
        repetition_penalty=penalty,
        max_new_tokens=COUNT,
        return_dict_in_generate=True,
        output_scores=True,
    )
    margins = [float(-torch.diff(score[0].topk(2).values)) for score in found.scores]
    return codes[0], margins


# 1 is none, 5 is in the published config.json, 10 is the default of `Xtts.inference`. Penalties
# apply to the placeholders of the prefix as well.
@pytest.mark.parametrize("penalty", [1.0, 5.0, 10.0])
@pytest.mark.parametrize(
    "text", [pytest.param(text, marks=pytest.mark.slow if text % 4 else ()) for text in range(20)]
)
def test_greedy_codes_equal_coquis(both, penalty, text):
    coqui, ours = both
    generator = torch.Generator().manual_seed(text)
    tokens = torch.randint(2, 85, (3 + 2 * text,), generator=generator)
    latents = ours.conditioning_latents(torch.randn(1, 80, 60, generator=generator))
    theirs, margins = by_coqui(coqui, latents, tokens, penalty)

    rules = SamplingParams(greedy=True, repetition_penalty=penalty)
    said = TorchUtterance(ours, rules, torch.Generator(), COUNT)
    (spoken,) = decode(ours, latents, [(tokens, said)])
    codes = [*spoken.codes, SMALL.audio_stop] if spoken.stopped else spoken.codes

    ties = [step for step, margin in enumerate(margins) if margin < MARGIN]
    clear = ties[0] if ties else len(margins)
    assert codes[:clear] == theirs[:clear].tolist()
    assert clear > 3, "a test of nothing: Coqui itself is undecided from the start"


def test_latents_of_the_steps_equal_coquis_second_pass(both):
    coqui, ours = both
    tokens = torch.arange(3, 20)
    latents = ours.conditioning_latents(torch.randn(1, 80, 60))
    rules = SamplingParams(greedy=True, repetition_penalty=5.0)
    said = TorchUtterance(ours, rules, torch.Generator(), COUNT)
    (spoken,) = decode(ours, latents, [(tokens, said)])
    again = coqui(
        tokens[None],
        torch.tensor([len(tokens)]),
        torch.tensor(spoken.codes)[None],
        torch.tensor([len(spoken.codes) * coqui.code_stride_len]),
        cond_latents=latents,
        return_latent=True,
    )
    assert torch.allclose(torch.stack(spoken.latents[: len(spoken.codes)]), again[0], atol=1e-4)
