"""Coqui's classes at any size with random weights: the reference for ours."""

from typing import Any

import torch

from demo_voice.new_gpt import new_gpt
from xtts.model.gpt import GPT, from_coqui
from xtts.model.shapes import GPTShape

SMALL = GPTShape(
    text_ids=90,
    text_start=88,
    layers=3,
    width=64,
    heads=4,
    audio_ids=66,
    audio_start=64,
    audio_stop=65,
    max_text_tokens=60,
    max_audio_tokens=80,
)
FULL = GPTShape(text_ids=6681, text_start=261)


def coqui_gpt(shape: GPTShape) -> Any:
    """Coqui's class at `shape` with random weights and every dropout at zero."""
    from TTS.tts.layers.xtts.gpt import GPT as CoquiGPT

    torch.manual_seed(1)
    gpt = CoquiGPT(
        start_text_token=shape.text_start,
        stop_text_token=shape.text_stop,
        layers=shape.layers,
        model_dim=shape.width,
        heads=shape.heads,
        max_text_tokens=shape.max_text_tokens,
        max_mel_tokens=shape.max_audio_tokens,
        number_text_tokens=shape.text_ids,
        num_audio_tokens=shape.audio_ids,
        start_audio_token=shape.audio_start,
        stop_audio_token=shape.audio_stop,
        use_perceiver_resampler=True,
    )
    for name, parameter in gpt.named_parameters():
        if "proj_out" in name:  # initially zero, which would hide the attention before it
            torch.nn.init.normal_(parameter, std=0.05)
    for module in gpt.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return gpt


def ours_from(coqui: Any, shape: GPTShape) -> GPT:
    """Our module with Coqui's weights."""
    gpt = new_gpt(shape, seed=0)
    state = {"gpt." + name: tensor for name, tensor in coqui.state_dict().items()}
    gpt.load_state_dict(from_coqui(state), strict=True)
    return gpt
