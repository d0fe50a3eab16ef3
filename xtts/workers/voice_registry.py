"""Opens a voice by name, folder or checkpoint, and keeps it loaded.

Importing this module imports no torch, and neither does opening an ONNX folder.
"""

import os
from collections.abc import Mapping
from dataclasses import replace

from xtts import arguments
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.model.config import ModelConfig
from xtts.onnx import folder as onnx_folder
from xtts.text.tokenizer import TokenizerSpec
from xtts.voices import bundle
from xtts.voices.base_models import BundleError
from xtts.voices.bundle import VoiceSpec

__all__ = [
    "BundleError", "ComputeConfig", "LoadedVoice", "VoiceSpec", "backend_of", "compute_config",
    "load_voice", "tokenizer_of", "voice_spec",
]  # fmt: skip


def voice_spec(
    name: "str | os.PathLike[str]",
    *,
    reference: "str | os.PathLike[str] | None" = None,
    base: "str | os.PathLike[str] | None" = None,
    latents: "str | os.PathLike[str] | None" = None,
    pronunciations: "str | os.PathLike[str] | None" = None,
    tos_agreed: bool = False,
) -> VoiceSpec:
    """The voice that a person asks for, from Python or on the command line.

    Raises ArgumentError for what is no path, or no switch.
    """
    optional = {"reference": reference, "base": base, "latents": latents,
                "pronunciations": pronunciations}  # fmt: skip
    paths = {key: arguments.path(key, one) for key, one in optional.items() if one is not None}
    return VoiceSpec(
        str(arguments.path("name", name)),
        str(paths["base"]) if "base" in paths else None,
        tos_agreed=arguments.switch("tos_agreed", tos_agreed),
        reference=paths.get("reference"),
        latents=paths.get("latents"),
        pronunciations=str(paths["pronunciations"]) if "pronunciations" in paths else None,
    )


def compute_config(
    spec: VoiceSpec, device: str, precision: str, *, low_memory: bool = False, guard: bool = True
) -> tuple[ComputeConfig, str]:
    """Where a voice is computed that a person asks for, and why there: "" where it is as asked, or
    ONNX Runtime says it.

    device: `cpu`, `cuda`, `cuda:N` or `auto`. Raises DeviceError for a GPU that is absent or unfit,
    and ArgumentError.
    """
    arguments.text("device", device)
    where = ComputeConfig(
        device, precision=precision, backend=backend_of(spec), low_memory=low_memory, guard=guard
    )
    if device == "cpu" or where.backend == "onnx":
        return where, ""
    from machine.devices import selection
    from machine.devices.health import GpuHealth

    machine = selection.look_at_machine()
    choice = selection.choose_device(machine, device, GpuHealth.speaks)
    gpu = selection.gpu_at(machine, choice.value)
    # The mel of a recording is taken on the CPU where the GPU's FFT failed its check.
    mel_device = "cpu" if gpu is None or "fft" in gpu.failed else choice.value
    return replace(where, device=choice.value, mel_device=mel_device), choice.reason


def load_voice(
    spec: VoiceSpec,
    where: ComputeConfig | None = None,
    others: Mapping[str, LoadedVoice] | None = None,
) -> LoadedVoice:
    """Opens a voice, verified.

    Args:
        spec: Which one.
        where: What computes it, and where; None is PyTorch on the CPU.
        others: Those that are loaded already. A checkpoint of a base model that is among them takes
            only the learning part: both share vocoder, speaker encoder and tokenizer, and both can
            speak until the older one is closed.

    Raises:
        BundleError: There is no such voice, it is damaged, or it is for the other backend.
        ConfigError, RunError, FilesError: Its files cannot be used.
        OnnxError, and the errors of `machine.onnxruntime.sessions`: With ONNX Runtime.
    """
    where = where or ComputeConfig()
    if where.backend == "onnx":
        from xtts.onnx.speech.onnx_voice import load_onnx_voice

        return load_onnx_voice(spec, where)
    if onnx_folder.is_one(spec.path):
        raise BundleError(f"{spec.path} is an ONNX voice; BACKEND=onnx speaks with it.")
    from xtts.inference.torch_voice import load_torch_voice

    return load_torch_voice(bundle.find_voice(spec), where, (others or {}).values())


def tokenizer_of(spec: VoiceSpec) -> TokenizerSpec:
    """What reads the texts of a voice, without its weights. Raises what `load_voice` does."""
    if onnx_folder.is_one(spec.path):
        config = ModelConfig.read(spec.path)
        lists = bundle.pronunciation_lists(spec, spec.path)
        return TokenizerSpec(spec.path, config.normalizer, lists)
    files = bundle.find_voice(spec)
    normalizer = files.normalizer or ModelConfig.read(files.folder).normalizer
    return TokenizerSpec(files.folder, normalizer, files.pronunciations)


def backend_of(spec: VoiceSpec) -> str:
    """The backend that speaks with a voice as it is: `onnx` for an ONNX folder, else `torch`."""
    return "onnx" if onnx_folder.is_one(spec.path) else "torch"
