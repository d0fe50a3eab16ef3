"""Writes the embedded voice's files in Coqui's layout.

config.json, vocab.json, model.pth (fp16), dvae.pth without its decoder, mel_stats.pth, and
discriminators.safetensors (fp16), against which a person's decoder is trained.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from demo_voice.recipe import CHARACTERS, BaseRecipe
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.torch_voice import load_torch_voice
from xtts.model.discriminators import Discriminators, write_discriminators
from xtts.model.gpt import GPT, to_coqui
from xtts.voices.voice_files import VoiceFiles

if TYPE_CHECKING:
    from TTS.tts.layers.xtts.dvae import DiscreteVAE

VOCODER_PREFIX = "hifigan_decoder.waveform_decoder."
SPEAKER_ENCODER_PREFIX = "hifigan_decoder.speaker_encoder."
# A fine-tune needs neither the decoder nor the running sums, which train the codebook.
_DVAE_LEFT_OUT = ("decoder.", "discrete_loss.", "codebook.embed_avg", "codebook.cluster_size")
LICENCE = (
    "MIT; learned from what hibari-tts and Kokoro-82M said (Apache 2.0), from CMU Arctic's bdl, "
    "from LibriSpeech (CC BY 4.0), from WordNet and from the CMU Pronouncing Dictionary"
)
# Added for a voice that continues from an earlier one (CARD.md).
EARLIER_SOURCES = "; its codec and GPT continue a voice that learned from flite, RHVoice, Pico and Festival"


def write(
    folder: Path,
    recipe: BaseRecipe,
    *,
    gpt: GPT,
    vocoder: nn.Module,
    speaker_encoder: nn.Module,
    dvae: "DiscreteVAE",
    mel_stats: Tensor,
    weights: str,
    continued: bool = False,
    discriminators: Discriminators | None = None,
) -> None:
    """Writes the files. Raises ConfigError for discriminators with too many channels.

    Args:
        weights: "trained" or "random": the log of a run says which.
        continued: Whether the training began with an earlier voice.
        discriminators: None writes none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = config_json(recipe, weights)
    content["sotaque"]["licence"] = LICENCE + (EARLIER_SOURCES if continued else "")
    _write_json(folder / "config.json", content)
    special = [token for token in CHARACTERS if len(token) > 1]
    _write_json(folder / "vocab.json", tokenizer_json(CHARACTERS, special))
    state = to_coqui(gpt.state_dict())
    for prefix, module in ((VOCODER_PREFIX, vocoder), (SPEAKER_ENCODER_PREFIX, speaker_encoder)):
        state |= {prefix + name: tensor for name, tensor in module.state_dict().items()}
    state["mel_stats"] = mel_stats
    torch.save({"model": _halved(state)}, folder / "model.pth")
    dvae_state = {
        name: tensor for name, tensor in dvae.state_dict().items() if not name.startswith(_DVAE_LEFT_OUT)
    }
    torch.save(_halved(dvae_state), folder / "dvae.pth")
    torch.save(mel_stats.cpu(), folder / "mel_stats.pth")
    if discriminators is not None:
        write_discriminators(folder, discriminators)


def write_alignment_heads(folder: Path) -> None:
    """Measures which attention heads of the voice in `folder` follow the text while it speaks, and
    writes them into config.json, so that they need not be measured again."""
    files = VoiceFiles(folder, folder / "model.pth", folder / "reference.wav", None)
    heads = load_torch_voice(files, ComputeConfig(precision="fp32")).heads
    content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    content["sotaque"]["alignment_heads"] = heads
    _write_json(folder / "config.json", content)


def config_json(recipe: BaseRecipe, weights: str) -> dict[str, Any]:
    """config.json: Coqui's keys, and ours under "sotaque"."""
    gpt = recipe.gpt
    return {
        "model": "xtts",
        "model_args": {
            "gpt_layers": gpt.layers,
            "gpt_n_model_channels": gpt.width,
            "gpt_n_heads": gpt.heads,
            "gpt_number_text_tokens": gpt.text_ids,
            "gpt_num_audio_tokens": gpt.audio_ids,
            "gpt_start_audio_token": gpt.audio_start,
            "gpt_stop_audio_token": gpt.audio_stop,
            "gpt_max_text_tokens": gpt.max_text_tokens,
            "gpt_max_audio_tokens": gpt.max_audio_tokens,
            "gpt_use_perceiver_resampler": True,
            "decoder_input_dim": gpt.width,
            "output_hop_length": recipe.vocoder_shape.hop,
            "d_vector_dim": recipe.speaker_encoder.embedding_width,
        },
        "languages": ["en"],
        "temperature": 0.2,
        "top_k": 50,
        "top_p": 0.85,
        "repetition_penalty": 1.0,
        "gpt_cond_len": 12,
        "gpt_cond_chunk_len": 2,
        "max_ref_len": 10,
        "sotaque": {
            "dvae": asdict(recipe.dvae),
            "vocoder": asdict(recipe.vocoder_shape),
            "speaker_encoder": asdict(recipe.speaker_encoder),
            "text_frontend": "cmu_phones",
            "piece_tokens": recipe.piece_tokens,
            "stop_input_trained": True,
            "training": asdict(recipe.advice),
            "licence": LICENCE,
            "weights": weights,
        },
    }


def tokenizer_json(tokens: Sequence[str], special: Sequence[str]) -> dict[str, object]:
    """A vocabulary in the format of the tokenizers library: tokens by id, without merges."""
    added = [
        {
            "id": tokens.index(token),
            "special": True,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for token in special
    ]
    model: dict[str, object] = {
        "type": "BPE",
        "dropout": None,
        "unk_token": "[UNK]",
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "vocab": {token: number for number, token in enumerate(tokens)},
        "merges": [],
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": model,
    }


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _halved(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights in fp16; the 80 mel scales stay in float32."""
    return {
        name: tensor.detach().cpu().half()
        if tensor.is_floating_point() and name != "mel_stats"
        else tensor.detach().cpu()
        for name, tensor in state.items()
    }
