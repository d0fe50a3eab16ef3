"""Loads an ONNX voice: sessions, tables and latents."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from extras.common.onnxruntime import sessions
from extras.common.onnxruntime.placement import SessionStatus
from extras.common.onnxruntime.sessions import OnnxSessionOptions
from extras.onnx import folder as folders
from extras.onnx.folder import OnnxError, OnnxVoice
from extras.onnx.speech.gpt import OnnxGPT
from extras.onnx.speech.vocoder import OnnxVocoder
from machine.devices.selection import cpu_count
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.speech import Voice
from xtts.model.config import ModelConfig
from xtts.model.shapes import MIN_QUANTIZED_WIDTH
from xtts.model.streaming_vocoder import MAX_SAMPLES
from xtts.text.tokenizer import Tokenizer

# What the vocoder computes at once under LOW_MEMORY: 90 MB at XTTS-v2's size.
MAX_SAMPLES_LOW_MEMORY = 48_000


def gpt_kind(
    precision: str, width: int, *, low_memory: bool, kinds: Sequence[str] = tuple(folders.GPT_FILES)
) -> str:
    """Resolves a precision to one of these kinds. Raises OnnxError if it is not among them."""
    kind = precision
    if precision == "auto":
        rounded = low_memory or width >= MIN_QUANTIZED_WIDTH
        kind = "int8" if "int8" in kinds and rounded else kinds[0]
    if kind not in kinds:
        raise OnnxError(
            f"This ONNX voice has {' and '.join(kinds)}, not {kind}. Choose one of "
            "them with --precision or SPEAK_PRECISION, or export it again with --onnx all."
        )
    return kind


def session_options(where: ComputeConfig) -> OnnxSessionOptions:
    """The options of a voice's sessions: all threads of this process, or one under LOW_MEMORY. For
    the gain and cost of each option, see docs/develop/onnx.md."""
    if not where.low_memory:
        return OnnxSessionOptions(threads=where.threads or cpu_count())
    return OnnxSessionOptions(
        threads=where.threads or 1, arena=False, pattern=False, optimisation="ORT_ENABLE_BASIC"
    )


@dataclass
class OnnxModel:
    """The sessions and tables of a voice.

    Attributes:
        kind: The precision of the GPT: fp32, int8 or int4.
        provider: The requested provider, as for `open_session`.
        status: The execution provider of the GPT, and the reason.
    """

    config: ModelConfig
    folder: Path
    voice: OnnxVoice
    tokenizer: Tokenizer
    gpt: OnnxGPT
    vocoder: OnnxVocoder
    kind: str
    provider: str
    options: OnnxSessionOptions
    status: SessionStatus


def load_onnx_model(folder: Path, where: ComputeConfig, *, verify: bool = True) -> OnnxModel:
    """Opens an ONNX voice. verify: compares every file that it uses with its hash first.

    Raises OnnxError, also for a precision that this export lacks, ConfigError and the
    errors of `extras.common.onnxruntime.sessions`.
    """
    config, low_memory = ModelConfig.read(folder), where.low_memory
    kinds = folders.read(folder).kinds
    kind = gpt_kind(where.precision, config.gpt.width, low_memory=low_memory, kinds=kinds)
    provider = "cpu" if where.device == "auto" and kind != "fp32" else where.device
    options = session_options(where)
    voice = folders.verify(folder, kind) if verify else folders.read(folder)
    gpt = sessions.open_session(folder / folders.GPT_FILES[kind], provider, options)
    vocoder = sessions.open_session(folder / folders.VOCODER_FILE, provider, options)
    source = None
    if folders.SOURCE_FILE in voice.files:
        source = sessions.open_session(folder / folders.SOURCE_FILE, provider, options).session
    max_samples = MAX_SAMPLES_LOW_MEMORY if low_memory else MAX_SAMPLES
    return OnnxModel(
        config,
        folder,
        voice,
        Tokenizer(config, folder),
        OnnxGPT(gpt.session, folder, config.gpt),
        OnnxVocoder(vocoder.session, config.vocoder, max_samples, source),
        kind,
        provider,
        options,
        gpt.status,
    )


def read_voice(path: Path, config: ModelConfig) -> Voice:
    """Reads latents in the format of `xtts.inference.latents_file` and of exports. Raises
    OnnxError."""
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
        latents, speaker = tensors["latents"], tensors["speaker"]
    except Exception as error:
        raise OnnxError(
            f"{path} does not contain a voice ({error}). Use a file that `train export --onnx` or "
            "the API wrote."
        ) from error
    expected = (1, config.gpt.width), (1, config.speaker_encoder.embedding_width, 1)
    if latents.shape[::2] != expected[0] or speaker.shape != expected[1]:
        raise OnnxError(
            f"{path} is a voice of another model: its latents are {list(latents.shape)} and its "
            f"speaker {list(speaker.shape)}; this model has [1, 32, {config.gpt.width}] and "
            f"{list(expected[1])}. Use a voice of this model."
        )
    if not (np.isfinite(latents).all() and np.isfinite(speaker).all()):
        raise OnnxError(f"{path} contains non-finite values (NaN or infinite). Create it again.")
    return Voice(latents, speaker)
