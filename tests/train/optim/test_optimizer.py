"""Which weights decay; `tests/train/test_step.py` tests the step itself."""

from demo_voice.new_gpt import new_gpt
from train.optim.optimizer import weight_groups
from xtts.model.shapes import GPTShape

SHAPE = GPTShape(
    text_ids=40,
    text_start=39,
    layers=1,
    width=32,
    heads=2,
    audio_ids=66,
    audio_start=64,
    audio_stop=65,
    max_text_tokens=20,
    max_audio_tokens=30,
)


def test_matrices_decay_and_biases_norms_tables_and_latents_do_not():
    gpt = new_gpt(SHAPE, 0)
    gpt.text_head.requires_grad_(False)
    names = {id(weight): name for name, weight in gpt.named_parameters()}
    decayed, kept = weight_groups(gpt, 0.01)
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.01, 0.0)
    matrices = {names[id(weight)] for weight in decayed["params"]}
    others = {names[id(weight)] for weight in kept["params"]}
    assert matrices | others == set(names.values()) - {"text_head.weight", "text_head.bias"}
    assert {"gpt.h.0.attn.c_attn.weight", "mel_head.weight"} <= matrices
    assert {
        "mel_head.bias",
        "final_norm.weight",
        "mel_embedding.weight",
        "text_pos_embedding.emb.weight",
        "conditioning_perceiver.latents",
    } <= others
    assert weight_groups(gpt.requires_grad_(False), 0.01) == []
