"""A base model at XTTS-v2's full size with random weights, in the published layout.

The published weights cannot be had without a licence click, and speed and memory do not depend on
what the weights say. `write` makes config.json, vocab.json with 6,681 ids, model.pth (441 M
parameters that learn, Coqui's vocoder and speaker encoder), dvae.pth and mel_stats.pth.
"""

import json
from pathlib import Path

import torch

from xtts.model.gpt import new_gpt, to_coqui
from xtts.model.shapes import DVAEShape, GPTShape
from xtts.model.vocoder import new_dvae

TEXT_IDS = 6681
LANGUAGES = ("en", "es", "fr", "de", "it", "pt", "pl", "tr", "ru", "nl", "cs", "ar", "zh-cn", "ja")


def write(folder: Path, *, seed: int = 0, full: bool = True) -> Path:
    """Writes the folder (2.1 GB; not full: a GPT of 4 layers of 256, 0.2 GB) and returns it; a
    folder that is whole already stays."""
    if (folder / "mel_stats.pth").is_file():
        return folder
    from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder

    layers, width, heads = (30, 1024, 16) if full else (4, 256, 4)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(_vocabulary()), encoding="utf-8")
    (folder / "config.json").write_text(
        json.dumps(_config(layers, width, heads), indent=2), encoding="utf-8"
    )
    shape = GPTShape(text_ids=TEXT_IDS, text_start=261, layers=layers, width=width, heads=heads)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        decoder = {
            f"hifigan_decoder.{n}": t
            for n, t in HifiDecoder(decoder_input_dim=width).state_dict().items()
        }
        stats = torch.linspace(3.0, 6.0, 80)
        state = {**to_coqui(new_gpt(shape, seed).state_dict()), **decoder, "mel_stats": stats}
        torch.save({"model": state}, folder / "model.pth")
        torch.save(new_dvae(DVAEShape()).state_dict(), folder / "dvae.pth")
    torch.save(stats, folder / "mel_stats.pth")
    return folder


def _config(layers: int, width: int, heads: int) -> dict[str, object]:
    """The values of the published config.json that decide about sizes and speaking."""
    args = {
        "gpt_layers": layers, "gpt_n_model_channels": width, "gpt_n_heads": heads,
        "gpt_max_audio_tokens": 605, "gpt_max_text_tokens": 402, "gpt_max_prompt_tokens": 70,
        "gpt_number_text_tokens": TEXT_IDS, "gpt_num_audio_tokens": 1026,
        "gpt_start_audio_token": 1024, "gpt_stop_audio_token": 1025,
        "gpt_code_stride_len": 1024, "gpt_use_perceiver_resampler": True,
        "decoder_input_dim": width, "d_vector_dim": 512,
    }  # fmt: skip
    speaking = {"temperature": 0.75, "top_k": 50, "top_p": 0.85, "repetition_penalty": 5.0}
    reference = {"gpt_cond_len": 30, "gpt_cond_chunk_len": 4, "max_ref_len": 30}
    own = {"weights": "random", "licence": "random weights, free to use"}
    return {
        "model": "xtts", "model_args": args, "languages": list(LANGUAGES), **speaking, **reference,
        "sotaque": own,
    }  # fmt: skip


def _vocabulary() -> dict[str, object]:
    """Letters, specials where XTTS-v2 has them, and words that nobody says up to 6,681 ids."""
    special = ["[STOP]", "[UNK]", "[SPACE]"]
    letters = list("!'(),-./:;?abcdefghijklmnopqrstuvwxyzàáâãäåæçèéêëìíîïñòóôõöøùúûüýßœ")
    languages = [f"[{language}]" for language in LANGUAGES]
    tokens = special + letters + languages
    tokens += [f"⟨{number}⟩" for number in range(len(tokens), 261)] + ["[START]"]
    tokens += [f"⟨{number}⟩" for number in range(len(tokens), TEXT_IDS)]
    whole = [*special, *languages, "[START]"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [
            {"id": tokens.index(t), "content": t, "special": True, **flags} for t in whole
        ],
        "normalizer": None, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None,
        "decoder": None,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": "[UNK]",
            "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
            "vocab": {token: number for number, token in enumerate(tokens)}, "merges": [],
        },
    }  # fmt: skip
