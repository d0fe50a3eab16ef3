"""Our learning part against Coqui's `GPT`: the same weights, the same batch, the same numbers."""

import pytest
import torch
from torch.nn import functional as F

from tests.peers.coqui import FULL, SMALL, coqui_gpt, ours_from
from xtts.inference.torch_backend import DecodeStep
from xtts.model import training
from xtts.model.gpt import KeyValueCache, to_coqui
from xtts.model.shapes import GPTShape
from xtts.model.training import PackedBatch, pack


def a_batch(shape: GPTShape, seconds: list[float], seed: int = 3) -> dict:
    generator = torch.Generator().manual_seed(seed)
    samples = torch.tensor([int(s * 22050) for s in seconds])
    codes = [int(-(-n // 1024)) for n in samples.tolist()]
    most_text = shape.max_text_tokens // 2
    tokens = [
        torch.randint(2, shape.text_ids - 3, (most_text - 5 * i,), generator=generator)
        for i in range(len(seconds))
    ]
    return {
        "samples": samples,
        "tokens": tokens,
        "codes": [torch.randint(0, shape.audio_ids - 2, (n,), generator=generator) for n in codes],
        "mels": torch.randn(len(seconds), 80, 120, generator=generator),
    }


def coqui_losses(coqui, batch: dict):
    longest = max(len(t) for t in batch["tokens"])
    text = torch.stack([F.pad(t, (0, longest - len(t))) for t in batch["tokens"]])
    most = max(len(c) for c in batch["codes"])
    codes = torch.stack([F.pad(c, (0, most - len(c))) for c in batch["codes"]])
    lengths = torch.tensor([len(t) for t in batch["tokens"]])
    # No cond_idxs: its mask is a defect of Coqui's (last row only, wrong stride).
    text_loss, audio_loss, _ = coqui(
        text, lengths, codes, batch["samples"], cond_mels=batch["mels"].unsqueeze(1)
    )
    return text_loss, audio_loss


def our_rows(batch: dict, shape: GPTShape, **options) -> PackedBatch:
    return pack(
        batch["tokens"], batch["codes"], list(batch["mels"]), shape, **{"stop_input": False, **options}
    )


def check_losses_and_gradients(shape: GPTShape, seconds: list[float]) -> None:
    coqui = coqui_gpt(shape).train()
    ours = ours_from(coqui, shape).train()
    batch = a_batch(shape, seconds)

    theirs = coqui_losses(coqui, batch)
    (0.01 * theirs[0] + theirs[1]).backward()
    found = training.losses(ours, our_rows(batch, shape))
    (0.01 * found.text + found.audio).backward()

    assert found.text.item() == pytest.approx(theirs[0].item(), abs=1e-5)
    assert found.audio.item() == pytest.approx(theirs[1].item(), abs=1e-5)
    gradients = to_coqui({name: p.grad for name, p in ours.named_parameters()})
    for name, parameter in coqui.named_parameters():
        reference = parameter.grad
        difference = (gradients["gpt." + name] - reference).norm() / reference.norm()
        assert difference < 1e-4, f"{name}: {difference:.1e}"


def test_losses_and_gradients_equal_coquis():
    check_losses_and_gradients(SMALL, [1.7, 0.6, 2.9])


def test_losses_and_gradients_equal_coquis_however_few_logits_are_held(monkeypatch):
    monkeypatch.setattr("xtts.model.training.LOGITS_CHUNK", 7)
    check_losses_and_gradients(SMALL, [1.7, 0.6, 2.9])


@pytest.mark.slow
def test_losses_and_gradients_equal_coquis_at_full_size():
    check_losses_and_gradients(FULL, [3.1, 1.9])


def test_losses_differ_when_the_text_does():
    """The reference project's loss did not depend on the text at all."""
    gpt = ours_from(coqui_gpt(SMALL), SMALL)
    # Random text embeddings are 50 times smaller than the latents.
    torch.nn.init.normal_(gpt.text_embedding.weight)
    batch = a_batch(SMALL, [1.7])
    before = training.losses(gpt, our_rows(batch, SMALL)).audio
    batch["tokens"] = [torch.full_like(batch["tokens"][0], 7)]
    assert not torch.isclose(before, training.losses(gpt, our_rows(batch, SMALL)).audio, atol=1e-4)


def test_conditioning_latents_equal_coquis():
    coqui = coqui_gpt(SMALL).eval()
    ours = ours_from(coqui, SMALL).eval()
    mel = torch.randn(2, 80, 97)
    theirs = coqui.get_style_emb(mel).transpose(1, 2)
    assert torch.allclose(ours.conditioning_latents(mel), theirs, atol=1e-5)


def test_steps_through_the_cache_equal_the_packed_forward():
    gpt = ours_from(coqui_gpt(SMALL), SMALL).eval()
    batch = a_batch(SMALL, [1.1])
    tokens, codes = batch["tokens"][0], batch["codes"][0]
    hidden = training.hidden_states(gpt, our_rows(batch, SMALL, stop_input=True))
    cache: KeyValueCache = gpt.gpt.new_cache(batch=1, capacity=150)
    prefix = gpt.prefix(gpt.conditioning_latents(batch["mels"]), tokens)
    first = 32 + len(tokens) + 2
    step, start = DecodeStep(gpt), gpt.audio_input(torch.tensor([SMALL.audio_start]), 0)
    latent, _ = step.prefill(torch.cat((prefix, start), 1), cache)
    assert torch.allclose(latent[0], hidden[first], atol=1e-5)
    for position, code in enumerate(codes, start=1):
        latent, _ = step(code[None], torch.tensor([position]), cache)
        assert torch.allclose(latent[0], hidden[first + position], atol=1e-5)
