"""`python -m benchmarks guard` lists the attention heads of a voice that follow the text.

The guard finds them by itself when a voice is opened (`xtts.inference.alignment.heads`); this shows
how well each follows, and which of them config.json names.
"""

import argparse

import torch

from xtts.inference.alignment.heads import TEXTS, following_score, speak
from xtts.inference.compute_config import ComputeConfig
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec

MAX_LISTED_HEADS = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundle", default="demo", help="demo, an exported voice or a checkpoint")
    parser.add_argument("--part", choices=("heads",), default="heads", help="what is measured")
    parser.add_argument("--threads", type=int, default=1)


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """The share of codes at which the best heads follow the text, in the worst of three sentences."""
    torch.set_num_threads(arguments.threads)
    voice = load_voice(VoiceSpec(arguments.bundle), ComputeConfig(precision="fp32"))
    readings = [speak(voice.backend(), voice.own_voice, text) for text in TEXTS]
    scores = {
        f"layer {layer} head {head}": round(
            min(following_score(rows[layer, head], tokens) for rows, tokens in readings), 3
        )
        for layer, head in readings[0][0]
    }
    best = dict(sorted(scores.items(), key=lambda item: -item[1])[:MAX_LISTED_HEADS])
    return {"named": voice.model.config.alignment_heads, **best}
