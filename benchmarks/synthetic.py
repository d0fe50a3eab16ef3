"""Inputs of the benchmarks: random weights, clips of noise, one sentence, and Coqui's own model.

torch is imported only where it is needed: processes that speak with ONNX Runtime run without it.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xtts.inference.alignment.guarded_piece import Guard
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.shapes import GPTShape

if TYPE_CHECKING:
    from torch import Tensor
    from TTS.tts.models.xtts import Xtts

    from train.dataset.batches import Batch, Batches
    from train.optim.optimizer import OptimizationConfig
    from train.step import Learner
    from xtts.inference.compute_config import ComputeConfig
    from xtts.inference.speech import Backend, SpokenModel, Voice
    from xtts.model.config import ModelConfig

TEXT = "the old man walked slowly along the river and thought about the long day."
FULL_SHAPE = GPTShape(text_ids=6681, text_start=261)
LANGUAGES = ("en", "es", "fr", "de", "it", "pt", "pl", "tr", "ru", "nl", "cs", "ar", "zh-cn", "ja")
_CONFIG = Path(__file__).with_name("xtts_config.json")
CLIPS = 8
CLIP_TEXTS = ("one two three", "four five six", "seven eight nine", "a short one", "the last of all")
# Coqui's recipe: recipes/ljspeech/xtts_v2/train_gpt_xtts.py.
LEARNING_RATE = 5e-6


# ---- a base model ----


def add_base_arguments(parser: argparse.ArgumentParser, rounds: int | None = None) -> None:
    """Adds the arguments that `base_model` reads, and the number of rounds."""
    parser.add_argument("--full", action="store_true", help="XTTS-v2's size, not 4 layers of 256")
    parser.add_argument("--folder", type=Path, help="folder that keeps the base model")
    if rounds:
        parser.add_argument("--rounds", type=int, default=rounds)


@contextmanager
def base_model(arguments: argparse.Namespace) -> Iterator[tuple[Path, Path]]:
    """Yields the base model's folder and a temporary folder to work in."""
    with tempfile.TemporaryDirectory() as name:
        base = arguments.folder or Path(name) / "base"
        yield write_base(base, full=arguments.full), Path(name)


def write_base(folder: Path, *, seed: int = 0, full: bool = True) -> Path:
    """A base model in the published layout, with random weights.

    Random, because speed and memory do not depend on the values, and the published weights need an
    agreement. Writes config.json, vocab.json with 6,681 ids, model.pth (441 M parameters that learn,
    Coqui's vocoder and speaker encoder), dvae.pth and mel_stats.pth: 2.1 GB, or 0.2 GB with a GPT of
    4 layers of 256 if not `full`. A complete folder is left as it is.
    """
    if (folder / "mel_stats.pth").is_file():
        return folder
    import torch
    from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder

    from demo_voice.new_gpt import new_gpt
    from xtts.model.gpt import to_coqui
    from xtts.model.loading import new_dvae
    from xtts.model.shapes import DVAEShape

    shape = FULL_SHAPE if full else replace(FULL_SHAPE, layers=4, width=256, heads=4)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("vocab.json", _vocabulary()), ("config.json", _config(shape))):
        (folder / name).write_text(json.dumps(content, indent=2), encoding="utf-8")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        decoder = {
            f"hifigan_decoder.{n}": t
            for n, t in HifiDecoder(decoder_input_dim=shape.width).state_dict().items()
        }
        stats = torch.linspace(3.0, 6.0, 80)
        state = {**to_coqui(new_gpt(shape, seed).state_dict()), **decoder, "mel_stats": stats}
        torch.save({"model": state}, folder / "model.pth")
        torch.save(new_dvae(DVAEShape()).state_dict(), folder / "dvae.pth")
    torch.save(stats, folder / "mel_stats.pth")
    return folder


def smaller_base(base: Path, to: Path, layers: int) -> Path:
    """Writes a base with some of the layers of another, as `train distil` begins, to the folder `to`."""
    import torch

    from extras.distil.student import kept_layers, new_student
    from xtts.model.config import ModelConfig
    from xtts.model.gpt import GPT, PREFIX, from_coqui, to_coqui
    from xtts.model.loading import read_tensors

    state = read_tensors(base / "model.pth")
    teacher = GPT(ModelConfig.read(base).gpt)
    teacher.load_state_dict(from_coqui(state))
    student = new_student(teacher, kept_layers(teacher.shape.layers, layers))
    other_parts = {name: tensor for name, tensor in state.items() if not name.startswith(PREFIX)}
    to.mkdir(parents=True)
    torch.save({"model": {**to_coqui(student.state_dict()), **other_parts}}, to / "model.pth")
    content = json.loads((base / "config.json").read_text(encoding="utf-8"))
    content["model_args"]["gpt_layers"] = layers
    (to / "config.json").write_text(json.dumps(content, indent=2), encoding="utf-8")
    for name in ("vocab.json", "dvae.pth", "mel_stats.pth"):
        shutil.copy(base / name, to / name)
    return to


def _config(shape: GPTShape) -> dict[str, object]:
    """The values of the published config.json that set sizes and speaking."""
    config = json.loads(_CONFIG.read_text(encoding="utf-8"))
    config["languages"] = LANGUAGES
    config["model_args"] |= {
        "gpt_layers": shape.layers,
        "gpt_n_model_channels": shape.width,
        "gpt_n_heads": shape.heads,
        "gpt_number_text_tokens": shape.text_ids,
        "decoder_input_dim": shape.width,
    }
    return config


def _vocabulary() -> dict[str, object]:
    """Letters, specials where XTTS-v2 has them, and made-up words up to 6,681 ids."""
    from demo_voice.packaging import tokenizer_json

    special = ["[STOP]", "[UNK]", "[SPACE]"]
    letters = list("!'(),-./:;?abcdefghijklmnopqrstuvwxyzàáâãäåæçèéêëìíîïñòóôõöøùúûüýßœ")
    languages = [f"[{language}]" for language in LANGUAGES]
    tokens = special + letters + languages
    tokens += [f"⟨{number}⟩" for number in range(len(tokens), 261)] + ["[START]"]
    tokens += [f"⟨{number}⟩" for number in range(len(tokens), FULL_SHAPE.text_ids)]
    return tokenizer_json(tokens, [*special, *languages, "[START]"])


# ---- speaking ----


def voice_latents(width: int) -> tuple["Tensor", "Tensor"]:
    """Random latents `[1, 32, width]` and a random speaker embedding `[1, 512, 1]`, for both sides."""
    import torch

    generator = torch.Generator().manual_seed(0)
    speaker = torch.randn(1, 512, 1, generator=generator)
    latents = torch.randn(1, 32, width, generator=generator)
    return latents, torch.nn.functional.normalize(speaker, dim=1)


def new_guard(model: "SpokenModel", seed: int = 0) -> Guard:
    """The guard of one speech by a torch or an ONNX model, without a second attempt.

    Both sides of a comparison speak `TEXT` with exactly the same number of codes: STOP is
    suppressed and the codes are limited, so no utterance ends by itself. The guard still judges, as
    in the product, but further attempts would triple the codes.
    """
    heads = tuple(model.config.alignment_heads or ())
    return Guard(heads, model.tokenizer.spoken_positions, seed, retries=0)


@dataclass(frozen=True)
class FixedVoice:
    """A model with random weights that speaks all codes that a request allows, under the guard."""

    backend: "Backend"
    voice: "Voice"

    def say(self, request: SynthesisRequest) -> int:
        """Speaks it; returns the number of samples."""
        from xtts.inference import speech

        guard = new_guard(self.backend.model, request.seed)
        return len(speech.synthesize(self.backend, self.voice, request, guard))

    def begin(self, request: SynthesisRequest) -> None:
        """Speaks the first chunk of a stream."""
        from xtts.inference import speech

        guard = new_guard(self.backend.model, request.seed)
        next(speech.Speech(self.backend, self.voice, request, guard).chunks())


def torch_voice(folder: Path, precision: str, *, low_memory: bool = False) -> FixedVoice:
    """A voice in PyTorch. low_memory: as with LOW_MEMORY=on."""
    from xtts.inference.torch_backend import TorchBackend
    from xtts.inference.voice import Voice
    from xtts.model.loading import load_model

    model = load_model(folder, precision=precision, low_memory=low_memory)
    model.gpt.mel_head.bias.data[model.gpt.shape.audio_stop] = -1e4
    return FixedVoice(TorchBackend(model), Voice(*voice_latents(model.config.gpt.width)))


def onnx_voice(folder: Path, kind: str, threads: int, *, low_memory: bool = False) -> FixedVoice:
    """A voice in ONNX Runtime, from the export of `folder`, which never stops by itself. low_memory:
    as with LOW_MEMORY=on."""
    from extras.onnx.speech import loading
    from extras.onnx.speech.backend import OnnxBackend
    from xtts.inference.speech import Voice

    config = onnx_config(kind, threads, low_memory=low_memory)
    model = loading.load_onnx_model(export_onnx(folder), config, verify=False)
    model.config = replace(model.config, gpt=replace(model.config.gpt, audio_stop=-1))
    random = np.random.default_rng(0)
    speaker = random.standard_normal((1, 512, 1)).astype(np.float32)
    latents = random.standard_normal((1, 32, model.config.gpt.width)).astype(np.float32)
    voice = Voice(latents, speaker / np.linalg.norm(speaker))
    return FixedVoice(OnnxBackend(model), voice)


def onnx_config(kind: str, threads: int = 1, *, low_memory: bool = False) -> "ComputeConfig":
    """The config with which the service computes."""
    from xtts.inference.compute_config import ComputeConfig

    return ComputeConfig(precision=kind, backend="onnx", low_memory=low_memory, threads=threads)


def export_onnx(base: Path) -> Path:
    """The ONNX voice beside a base model's folder; a child exports it if it is missing."""
    to = base.with_name(f"{base.name}-onnx")
    if not (to / "onnx.json").is_file():
        command = [sys.executable, "-m", "extras.onnx.export.exporter_child", str(base), str(to)]
        subprocess.run(command, check=True)
    return to


def load_coqui(folder: Path, codes: int) -> "Xtts":
    """Coqui's unchanged `Xtts` on the CPU, from a folder in the published layout. It speaks exactly
    `codes` codes."""
    from TTS.tts.configs.xtts_config import XttsConfig
    from TTS.tts.models.xtts import Xtts

    config = XttsConfig()
    config.load_json(str(folder / "config.json"))
    xtts = Xtts(config)
    xtts.load_checkpoint(config, checkpoint_dir=str(folder), eval=True, strict=True)
    xtts.gpt.mel_head.bias.data[xtts.gpt.stop_audio_token] = -1e4
    xtts.gpt.max_gen_mel_tokens = codes
    return xtts


# ---- training ----


def write_dataset(folder: Path) -> None:
    """Eight clips of 3 to 9 s, a hum in noise, in LJSpeech's layout."""
    import soundfile

    (folder / "wavs").mkdir(parents=True)
    generator = np.random.default_rng(0)
    rows = []
    for number in range(CLIPS):
        seconds = 3 + 6 * number / (CLIPS - 1)
        times = np.arange(int(22_050 * seconds)) / 22_050
        hum = sum(np.sin(2 * np.pi * 120 * k * times) / k for k in range(1, 10))
        sound = 0.1 * hum + 0.02 * generator.standard_normal(len(times))
        soundfile.write(folder / "wavs" / f"{number}.wav", sound, 22_050)
        rows.append(f"{number}|{CLIP_TEXTS[number % len(CLIP_TEXTS)]} {'again ' * number}")
    (folder / "metadata.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def open_batches(base: Path, data: Path, cache: Path) -> tuple["ModelConfig", "Batches"]:
    """The batches of a dataset, as a training opens them: judges every clip, builds or finds the
    cache."""
    from train.dataset import dataset, features
    from train.dataset.batches import Batches
    from train.settings import TrainSettings
    from xtts.model.config import ModelConfig
    from xtts.text.tokenizer import Tokenizer

    config = ModelConfig.read(base)
    settings = TrainSettings(dataset_dir=data, cache_dir=cache)
    clips = dataset.read(settings, Tokenizer(config, base), config.gpt)
    features_cache = features.build(clips, base, config, cache)
    all_clips = tuple(range(len(clips.clips)))
    batches = Batches(
        clips.clips,
        all_clips,
        features_cache,
        config.gpt,
        seed=0,
        batch_seconds=40.0,
        stop_input=False,
        sources=all_clips,
    )
    return config, batches


def coqui_recipe(precision: str, **changes: Any) -> "OptimizationConfig":
    """The settings of Coqui's recipe."""
    from train.optim.optimizer import OptimizationConfig

    return OptimizationConfig(
        learning_rate=LEARNING_RATE,
        warmup_steps=1,
        weight_decay=0.01,
        gradient_clip=1.0,
        seed=0,
        precision=precision,
        **changes,
    )


def new_learner(shape: GPTShape, precision: str, device: str = "cpu", **changes: Any) -> "Learner":
    """A learner with random weights and Coqui's dropout."""
    import torch

    from demo_voice.new_gpt import new_gpt
    from train.step import Learner

    gpt = new_gpt(shape, seed=0)
    for module in gpt.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.1
    return Learner(gpt, coqui_recipe(precision, **changes), device)


def noise_batch(shape: GPTShape, sizes: Sequence[tuple[int, int, int]], seconds: float) -> "Batch":
    """Clips of noise. sizes: the numbers of text ids, codes and conditioning frames of each."""
    import torch

    from train.dataset.batches import Batch
    from xtts.model.training import pack

    generator = torch.Generator().manual_seed(0)
    texts, codes, frames = zip(*sizes, strict=True)
    rows = pack(
        [torch.randint(2, shape.text_start, (count,), generator=generator) for count in texts],
        [torch.randint(0, shape.audio_start, (count,), generator=generator) for count in codes],
        [torch.randn(80, count, generator=generator) for count in frames],
        shape,
        stop_input=False,
    )
    return Batch(rows, tuple(range(len(sizes))), seconds)
