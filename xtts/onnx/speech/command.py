"""`python -m xtts speak` with an ONNX voice."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from machine.devices.selection import cpu_count
from machine.onnxruntime.sessions import OnnxSessionOptions
from xtts import wav
from xtts.model.config import ModelConfig
from xtts.model.shapes import SMALLEST_ROUNDED_WIDTH, VOCODER_RATE
from xtts.onnx import folder as folders
from xtts.onnx.folder import OnnxError, OnnxVoice
from xtts.onnx.speech import loading as model
from xtts.onnx.speech import request as speech
from xtts.onnx.speech.loading import OnnxComputeConfig, OnnxLatents
from xtts.onnx.speech.request import OnnxSynthesisParams


def speak(
    folder: Path,
    lines: Sequence[tuple[str, Path]],
    *,
    language: str,
    seed: int = 0,
    precision: str = "auto",
    device: str = "cpu",
    low_memory: bool = False,
    voice: Path | None = None,
    reference: Path | None = None,
) -> Iterator[str]:
    """Speaks each text into its file, and says so; voice: stored latents, None is the folder's own.

    Raises the errors of model, speech and hearing.
    """
    config = ModelConfig.read(folder)
    said = folders.read(folder)
    how = computing(said, config, precision=precision, device=device, low=low_memory)
    folders.verified(folder, how.kind)
    whose = _whose(folder, config, how, voice, reference)
    loaded = model.load_onnx_model(folder, how, verify=False)
    if loaded.status.message:
        yield loaded.status.message
    for text, out in lines:
        waveform = speech.speak(loaded, whose, text, language, OnnxSynthesisParams(seed=seed))
        wav.write(out, waveform, VOCODER_RATE)
        yield f"{out}: {len(waveform) / VOCODER_RATE:.2f} s"


def computing(
    said: OnnxVoice, config: ModelConfig, *, precision: str, device: str, low: bool,
    threads: int | None = None,
) -> OnnxComputeConfig:  # fmt: skip
    """How to compute. threads: None is as many as this process may use, one with `low`.

    Raises OnnxError for a precision that this export has not.
    """
    kind = kind_of(precision, config.gpt.width, low=low, kinds=said.kinds)
    wish = "cpu" if device == "cpu" or (device == "auto" and kind == "int8") else device
    base = model.low_memory_config(threads or 1) if low else OnnxComputeConfig()
    options = base.options if low else OnnxSessionOptions(threads=threads or cpu_count())
    return OnnxComputeConfig(kind, wish, options, base.most_samples)


def kind_of(
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


def _whose(
    folder: Path,
    config: ModelConfig,
    how: OnnxComputeConfig,
    voice: Path | None,
    reference: Path | None,
) -> OnnxLatents:
    if reference is not None:
        from xtts.onnx.speech import conditioning

        return conditioning.onnx_latents_of_recording(folder, config, how, reference)
    path = voice or folder / folders.VOICE
    if voice is None and not path.is_file():
        raise OnnxError(
            f"{folder} holds no voice of its own; say whose it is to be with --reference FILE.wav "
            "(3 to 30 s of clear speech) or --latents FILE.safetensors."
        )
    return model.read_voice(path, config)
