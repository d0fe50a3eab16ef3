"""Speaks with pocket-tts in a Python of its own: what a user of a CPU would take instead.

    PYTHON benchmarks/pocket_tts_child.py SECONDS fp32|int8

PYTHON has `pocket-tts[quantize]`, which is no package of ours: it sets torch's threads when it is
imported. Its configuration is its own, with random weights, since the published ones cannot be had
offline, and with a made-up vocabulary of as many words. For each line on stdin it says a sentence
that takes SECONDS, and prints [seconds of work, seconds until the first sound, seconds of sound].
Imports nothing of Sotaque.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# pocket-tts ends a text that has no end after so many seconds, and one for every three words more.
LEAST_SECONDS, WORDS_PER_SECOND = 2.0, 3
PROMPT_SECONDS = 5


def main() -> None:
    """Loads the model and answers lines until stdin ends."""
    seconds, precision = float(sys.argv[1]), sys.argv[2]
    model, state = loaded(precision)
    words = max(1, round(WORDS_PER_SECOND * (seconds - LEAST_SECONDS)))
    text = " ".join(["word"] * words)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(said(model, state, text)), flush=True)


def said(model: Any, state: Any, text: str) -> tuple[float, float, float]:
    """What a line is answered with."""
    started, first, samples = time.perf_counter(), 0.0, 0
    for chunk in model.generate_audio_stream(state, text, max_tokens=1000):
        first = first or time.perf_counter() - started
        samples += len(chunk)
    return time.perf_counter() - started, first, samples / model.sample_rate


def loaded(precision: str) -> tuple[Any, Any]:
    """The model that pocket-tts takes for English, and somebody's voice."""
    import torch
    import yaml
    from pocket_tts import TTSModel
    from pocket_tts.default_parameters import DEFAULT_LANGUAGE
    from pocket_tts.utils.config import CONFIGS_DIR

    config = yaml.safe_load((CONFIGS_DIR / f"{DEFAULT_LANGUAGE}.yaml").read_text())
    config |= {"weights_path": None, "weights_path_without_voice_cloning": None}
    table = config["flow_lm"]["lookup_table"]
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = {word: number for number, word in enumerate(_words(table["n_bins"]))}
        tokenizer = folder / "tokenizer.json"
        tokenizer.write_text(json.dumps(_tokenizer(words)))
        table |= {"tokenizer": "tokenizers", "tokenizer_path": str(tokenizer)}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        model = TTSModel.load_model(
            config=folder / "config.yaml", eos_threshold=float("inf"),
            quantize=precision == "int8",
        )  # fmt: skip
    prompt = torch.randn(1, PROMPT_SECONDS * model.sample_rate) * 0.1
    return model, model.get_state_for_audio_prompt(prompt)


def _words(count: int) -> list[str]:
    known = ["<unk>", "word", "Word", "word.", "Word."]
    return known + [f"w{number}" for number in range(count - len(known))]


def _tokenizer(words: dict[str, int]) -> dict[str, Any]:
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
        "decoder": None, "model": {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"},
    }  # fmt: skip


if __name__ == "__main__":
    main()
