"""A complete base model for tests: random weights, tiny sizes, the published files and names."""

import json
import shutil
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor

from demo_voice.new_gpt import new_gpt
from tests.installed import has
from xtts.inference.voice import Voice
from xtts.model.adapter import MATRICES
from xtts.model.config import ModelConfig
from xtts.model.gpt import PREFIX, to_coqui
from xtts.model.loading import new_dvae
from xtts.model.shapes import DVAEShape, GPTShape, SpeakerEncoderShape, VocoderShape
from xtts.model.vocoder import SpeakerEncoder, Vocoder
from xtts.voices import formats
from xtts.voices.voice_files import VoiceFiles

LANGUAGES = ("en", "pt")
CHARACTERS = "!'(),-./:;?abcdefghijklmnopqrstuvwxyzàáâãçéêíóôõúü"
# XTTS-v2's languages, and the letters they are read in; Chinese, Japanese and Korean are read in
# Latin letters.
ALL_LANGUAGES = (
    "en",
    "es",
    "fr",
    "de",
    "it",
    "pt",
    "pl",
    "tr",
    "ru",
    "nl",
    "cs",
    "ar",
    "zh-cn",
    "hu",
    "ko",
    "ja",
    "hi",
)
ALL_CHARACTERS = "".join(
    chr(code)
    for first, last in ((0x21, 0x7E), (0xA1, 0x17F), (0x400, 0x45F), (0x600, 0x660), (0x900, 0x980))
    for code in range(first, last + 1)
    if not chr(code).isspace()
)
MERGES = ("t h", "i n", "th e", "a n", "e r", "o u")
NUM_CODES = 64
SMALL_VOCODER = VocoderShape(
    upsample_initial_channel=32, resblock_kernel_sizes=(3,), resblock_dilation_sizes=((1, 3, 5),)
)
SMALL_SPEAKER_ENCODER = SpeakerEncoderShape(layers=(1, 1, 1, 1), num_filters=(8, 8, 16, 16))
SMALL_DVAE = DVAEShape(num_codes=NUM_CODES, codebook_dim=32, hidden_dim=32, num_resnet_blocks=1, num_layers=2)


def as_onnx(folder: Path, to: Path, kind: str = "all") -> Path:
    """Exports a voice's folder as ONNX; skips the test if that extra was deleted."""
    if not has("onnx"):
        pytest.skip("extras/onnx is not installed")
    reference = folder / "reference.wav"
    source = VoiceFiles(folder, folder / "model.pth", reference if reference.is_file() else None, None)
    formats.format_for("onnx").export(source, to, kind)
    return to


def tiny_base(
    folder: Path,
    *,
    layers: int = 2,
    width: int = 64,
    heads: int = 2,
    coqui_vocoder: bool = False,
    seed: int = 0,
    languages: tuple[str, ...] = LANGUAGES,
    characters: str = CHARACTERS,
) -> Path:
    """Writes a base model folder and returns it; built once per process for the same sizes.

    coqui_vocoder: vocoder and speaker encoder at the sizes that Coqui hard-codes (30 M values),
    under all the names of a published file.
    """
    source = _built(layers, width, heads, coqui_vocoder, seed, languages, characters)
    shutil.copytree(source.name, folder, dirs_exist_ok=True)
    return folder


def ending_base(folder: Path, **sizes: Any) -> Path:
    """A tiny base that ends its speech after a second or two, as random weights seldom do."""
    tiny_base(folder, **sizes)
    state = torch.load(folder / "model.pth", weights_only=True)["model"]
    state["gpt.mel_head.bias"][NUM_CODES + 1] += 1.2
    torch.save({"model": state}, folder / "model.pth")
    return folder


@cache
def _built(
    layers: int,
    width: int,
    heads: int,
    coqui_vocoder: bool,
    seed: int,
    languages: tuple[str, ...],
    characters: str,
) -> "TemporaryDirectory[str]":
    kept = TemporaryDirectory(prefix="tiny-base-")
    folder = Path(kept.name)
    write_vocabulary(folder / "vocab.json", languages, characters)
    config = _config(layers, width, heads, coqui_vocoder) | {"languages": list(languages)}
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    read = ModelConfig.read(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        mel_stats = torch.linspace(3.0, 6.0, 80)
        state = {
            **to_coqui(new_gpt(read.gpt, seed).state_dict()),
            **(_coqui_decoder(width) if coqui_vocoder else _small_decoder(read)),
            "mel_stats": mel_stats,
        }
        torch.save({"model": state}, folder / "model.pth")
        torch.save(new_dvae(read.dvae).state_dict(), folder / "dvae.pth")
        torch.save(mel_stats, folder / "mel_stats.pth")
    return kept


def tiny_voice(folder: Path, seed: int = 0) -> Path:
    """A tiny base with a recording of noise, which needs no other reference."""
    tiny_base(folder, seed=seed)
    wave = np.random.default_rng(seed).normal(0, 0.1, 22_050).astype("float32")
    soundfile.write(folder / "reference.wav", wave, 22_050)
    return folder


def drawn_voice() -> Voice:
    """A random voice, as a tiny base might compute it from a recording."""
    generator = torch.Generator().manual_seed(3)
    speaker = torch.randn(1, 512, 1, generator=generator)
    latents = torch.randn(1, 32, 64, generator=generator)
    return Voice(latents, torch.nn.functional.normalize(speaker, dim=1))


def write_vocabulary(
    path: Path, languages: tuple[str, ...] = LANGUAGES, characters: str = CHARACTERS
) -> None:
    """Writes a small BPE vocabulary with special tokens in the order of XTTS-v2's."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import Whitespace

    markers = [f"[{language}]" for language in languages]
    special = ["[STOP]", "[UNK]", "[SPACE]"]
    merged = [merge.replace(" ", "") for merge in MERGES]
    tokens = [*special, *characters, *merged, *markers, "[START]"]
    pairs: list[Any] = [tuple(merge.split()) for merge in MERGES]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(BPE(vocabulary, pairs, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.add_special_tokens([*special, *markers, "[START]"])
    tokenizer.save(str(path))


def _config(layers: int, width: int, heads: int, coqui_vocoder: bool) -> dict[str, Any]:
    own: dict[str, Any] = {
        "dvae": asdict(SMALL_DVAE),
        "licence": "Random weights, free to use",
        "weights": "random",
        "training": {"num_epochs": 2, "learning_rate": 1e-3},
    }
    if not coqui_vocoder:
        own["vocoder"] = asdict(SMALL_VOCODER)
        own["speaker_encoder"] = asdict(SMALL_SPEAKER_ENCODER)
    return {
        "model": "xtts",
        "model_args": {
            "gpt_layers": layers,
            "gpt_n_model_channels": width,
            "gpt_n_heads": heads,
            "gpt_num_audio_tokens": NUM_CODES + 2,
            "gpt_start_audio_token": NUM_CODES,
            "gpt_stop_audio_token": NUM_CODES + 1,
            "gpt_use_perceiver_resampler": True,
            "decoder_input_dim": width,
            "d_vector_dim": 512,
        },
        "temperature": 0.75,
        "top_k": 50,
        "top_p": 0.85,
        "repetition_penalty": 5.0,
        "gpt_cond_len": 30,
        "gpt_cond_chunk_len": 4,
        "max_ref_len": 30,
        "sotaque": own,
    }


def _small_decoder(config: ModelConfig) -> dict[str, Tensor]:
    vocoder = Vocoder(config.gpt.width, config.speaker_encoder.embedding_width, config.vocoder)
    # A random vocoder is almost silent (-56 dB), and 16 bits would hide its sound.
    with torch.no_grad():
        vocoder.waveform_decoder.conv_post.weight.mul_(100.0)
    return {
        **_named("hifigan_decoder.waveform_decoder.", vocoder.waveform_decoder),
        **_named("hifigan_decoder.speaker_encoder.", SpeakerEncoder(config).net),
    }


def _coqui_decoder(width: int) -> dict[str, Tensor]:
    from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder

    return _named("hifigan_decoder.", HifiDecoder(decoder_input_dim=width))


def _named(prefix: str, module: torch.nn.Module) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in module.state_dict().items()}


def random_adapter(shape: GPTShape, seed: int, rank: int) -> dict[str, Tensor]:
    """A and B of every matrix, named as in `xtts.voices.adapter_file`, large enough to hear."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer in range(shape.layers):
        for name, (wide, tall) in MATRICES.items():
            place = f"{PREFIX}gpt.h.{layer}.{name}"
            a = torch.randn(rank, wide * shape.width, generator=generator)
            b = torch.randn(tall * shape.width, rank, generator=generator)
            tensors[f"{place}.lora_A.weight"] = 0.1 * a
            tensors[f"{place}.lora_B.weight"] = 0.1 * b
    return tensors
