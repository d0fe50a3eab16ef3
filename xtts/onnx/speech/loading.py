"""Loads an ONNX voice: sessions, tables, latents."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from machine.devices.selection import cpu_count
from machine.onnxruntime import sessions
from machine.onnxruntime.sessions import OnnxSessionOptions, SessionStatus
from xtts.model.config import ModelConfig
from xtts.model.shapes import SMALLEST_ROUNDED_WIDTH
from xtts.onnx import folder as folders
from xtts.onnx.folder import OnnxError, OnnxVoice
from xtts.onnx.speech.gpt import OnnxGPT
from xtts.onnx.speech.vocoder import MOST_SAMPLES, OnnxVocoder
from xtts.text.tokenizer import Tokenizer

# Under LOW_MEMORY: a piece of the vocoder's this long takes 90 MB at XTTS-v2's size.
SHORT_SAMPLES = 48_000
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class OnnxLatents:
    """Who speaks: latents [1, 32, width] for the GPT, speaker [1, 512, 1] for the vocoder."""

    latents: Array
    speaker: Array


@dataclass(frozen=True)
class OnnxComputeConfig:
    """How a voice computes. kind: of the GPT, fp32 or int8; wish: where, as
    `machine.onnxruntime.sessions`; most_samples: what the vocoder speaks at once."""

    kind: str = "int8"
    wish: str = "cpu"
    options: OnnxSessionOptions = field(default_factory=OnnxSessionOptions)
    most_samples: int = MOST_SAMPLES


def compute_config(
    said: OnnxVoice, config: ModelConfig, *, precision: str, device: str, low: bool,
    threads: int | None = None,
) -> OnnxComputeConfig:  # fmt: skip
    """How to compute. threads: None is as many as this process may use, one with `low`.

    Raises OnnxError for a precision that this export has not.
    """
    kind = gpt_kind(precision, config.gpt.width, low=low, kinds=said.kinds)
    wish = "cpu" if device == "cpu" or (device == "auto" and kind == "int8") else device
    base = low_memory_config(threads or 1) if low else OnnxComputeConfig()
    options = base.options if low else OnnxSessionOptions(threads=threads or cpu_count())
    return OnnxComputeConfig(kind, wish, options, base.most_samples)


def gpt_kind(
    precision: str, width: int, *, low: bool, kinds: Sequence[str] = tuple(folders.GPT)
) -> str:
    """Which of these kinds a precision means. Raises OnnxError for one that is not among them."""
    kind = precision
    if precision == "auto":
        rounded = low or width >= SMALLEST_ROUNDED_WIDTH
        kind = "int8" if "int8" in kinds and rounded else kinds[0]
    if kind not in kinds:
        raise OnnxError(
            f"This ONNX voice speaks in {' and '.join(kinds)}, not in {kind}. Ask for one of "
            "them with --precision or SPEAK_PRECISION, or export it again with --onnx all."
        )
    return kind


def low_memory_config(threads: int = 1) -> OnnxComputeConfig:
    """What LOW_MEMORY=on means here; docs/onnx.md says what each part saves and costs."""
    options = OnnxSessionOptions(
        threads=threads, arena=False, pattern=False, optimisation="ORT_ENABLE_BASIC"
    )
    return OnnxComputeConfig("int8", "cpu", options, SHORT_SAMPLES)


@dataclass
class OnnxModel:
    """Everything needed to speak. status: where the GPT computes."""

    config: ModelConfig
    voice: OnnxVoice
    tokenizer: Tokenizer
    gpt: OnnxGPT
    vocoder: OnnxVocoder
    kind: str
    status: SessionStatus
    most_samples: int = MOST_SAMPLES


def load_onnx_model(
    folder: Path, how: OnnxComputeConfig = OnnxComputeConfig(), *, verify: bool = True
) -> OnnxModel:
    """Opens an ONNX voice. verify: compares every file that it uses with its hash before.

    Raises OnnxError, ConfigError and the errors of `machine.onnxruntime.sessions`.
    """
    voice = folders.verified(folder, how.kind) if verify else folders.read(folder)
    config = ModelConfig.read(folder)
    tokenizer = Tokenizer(config, folder)
    gpt = sessions.open_session(folders.gpt_of(folder, how.kind), how.wish, how.options)
    vocoder = sessions.open_session(folder / folders.VOCODER, how.wish, how.options)
    return OnnxModel(
        config, voice, tokenizer, OnnxGPT(gpt.session, folder, config.gpt),
        OnnxVocoder(vocoder.session, config.vocoder), how.kind, gpt.status, how.most_samples,
    )  # fmt: skip


def read_voice(path: Path, config: ModelConfig) -> OnnxLatents:
    """Stored latents, as `xtts.inference.latents_file` and the export write them. Raises
    OnnxError."""
    from safetensors.numpy import load_file

    try:
        found: dict[str, Any] = load_file(path)
        latents, speaker = found["latents"], found["speaker"]
    except Exception as error:
        raise OnnxError(
            f"{path} holds no voice ({error}). Give a file that `python -m train export --onnx` or "
            "the API wrote: a voice is taken from a recording once."
        ) from error
    wanted = (1, config.gpt.width), (1, config.speaker_encoder.embedding_width, 1)
    if latents.shape[::2] != wanted[0] or speaker.shape != wanted[1]:
        raise OnnxError(
            f"{path} is a voice of another model: its latents are {list(latents.shape)} and its "
            f"speaker {list(speaker.shape)}; this one's are [1, 32, {config.gpt.width}] and "
            f"{list(wanted[1])}. Take one that was made with this model."
        )
    if not (np.isfinite(latents).all() and np.isfinite(speaker).all()):
        raise OnnxError(f"{path} holds non-finite values (NaN or infinite): make it again.")
    return OnnxLatents(latents, speaker)
