"""`python -m benchmarks rounding`: what weights of 8 and 4 bits cost the embedded voice, in nats a
code, where every code before it was the right one.

The sentences are flite's, as in `benchmarks.voice`; no random draw is in it, so the difference is
the rounding's alone. Each position has its own scale of activations, as it has when codes are
spoken one at a time. What attention remembers stays in float32 here.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import soundfile
import torch
from torch import Tensor, nn

from benchmarks import judges
from benchmarks.texts import sentences
from train.dataset import dataset, features
from train.dataset.batches import Batches, ConditioningChoice
from train.settings import TrainSettings
from xtts.audio import SPEAKER_RATE
from xtts.model import loading as model
from xtts.model.config import ModelConfig
from xtts.model.gpt import GPT
from xtts.model.quantization import KINDS, Int8Linear
from xtts.text.tokenizer import Tokenizer
from xtts.voices.base_models import DEMO

BATCH_SECONDS = 40.0


class EachPosition(nn.Module):
    """An 8-bit layer that takes a scale for each position; by itself it takes one for an utterance,
    as long as that is read at once."""

    def __init__(self, layer: Int8Linear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """[.., in] -> [.., out]."""
        found: Tensor = self.layer(x.reshape(-1, x.shape[-1]))
        return found.view(*x.shape[:-1], -1)


def main(argv: Sequence[str]) -> int:
    """Prints the table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks rounding", description=__doc__)
    parser.add_argument("--speak-as", default="slt", help="whose sentences: one of flite's voices")
    parser.add_argument("--sentences", type=int, help="only the first so many")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    lines = sentences("twenty")
    clips = [
        (judges.teacher(arguments.speak_as, text), text) for text in lines[: arguments.sentences]
    ]
    rows = measured(DEMO, clips, arguments.kinds.split(","))
    print(json.dumps(rows, indent=1) if arguments.json else told(rows))
    return 0


def measured(
    base: Path, clips: Sequence[tuple[Tensor, str]], kinds: Sequence[str]
) -> list[dict[str, Any]]:
    """clips: ([samples] at 16 kHz, what they say). Mean losses in nats a token, of each kind."""
    config = ModelConfig.read(base)
    with tempfile.TemporaryDirectory() as name:
        batches = _batches(base, config, Path(name), clips)
        rows = [batches.batch(0, group).rows for group in batches.plan(0)]
    found = []
    for kind in kinds:
        gpt = _rounded(base, config, kind)
        with torch.inference_mode():
            losses = [gpt.losses(row) for row in rows]
        codes, tokens = (sum(n) for n in zip(*((one.num_audio, one.num_text) for one in losses)))
        found.append({
            "kind": kind, "clips": len(batches.indices), "codes": codes,
            "audio_loss": sum(float(one.audio) * one.num_audio for one in losses) / codes,
            "text_loss": sum(float(one.text) * one.num_text for one in losses) / tokens,
        })  # fmt: skip
    return found


def _rounded(base: Path, config: ModelConfig, kind: str) -> GPT:
    gpt = model.load_gpt(model.read_tensors(base / "model.pth"), config, kind=kind).eval()
    layers = [(name, one) for name, one in gpt.named_modules() if isinstance(one, Int8Linear)]
    for name, layer in layers:
        parent, _, own = name.rpartition(".")
        setattr(gpt.get_submodule(parent), own, EachPosition(layer))
    return gpt


def _batches(
    base: Path, config: ModelConfig, folder: Path, clips: Sequence[tuple[Tensor, str]]
) -> Batches:
    """All clips, each heard as another one of them, the same for every kind."""
    wavs = folder / "data" / "wavs"
    wavs.mkdir(parents=True)
    for number, (samples, _) in enumerate(clips):
        soundfile.write(wavs / f"{number:02}.wav", samples.numpy(), SPEAKER_RATE)
    listed = "".join(f"{number:02}|{text}\n" for number, (_, text) in enumerate(clips))
    (folder / "data" / "metadata.csv").write_text(listed, encoding="utf-8")
    settings = TrainSettings(dataset_dir=folder / "data", cache_dir=folder / "cache")
    data = dataset.read(settings, Tokenizer(config, base), config.gpt)
    everything = tuple(range(len(data.clips)))
    return Batches(
        data.clips, everything, features.build(data, base, config, settings.cache_dir), config.gpt,
        seed=0, batch_seconds=BATCH_SECONDS, stop_input=config.stop_input_trained,
        conditions=ConditioningChoice("other_clip", everything), fixed=True, prefetch=False,
    )  # fmt: skip


def told(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each kind; the differences are from the first."""
    lines = [f"{rows[0]['clips']} sentences, {rows[0]['codes']} codes; nats a token"]
    for row in rows:
        more = row["audio_loss"] - rows[0]["audio_loss"]
        lines.append(
            f"{row['kind']:6} audio {row['audio_loss']:.4f} ({more:+.4f})  "
            f"text {row['text_loss']:.4f}"
        )
    return "\n".join(lines)
