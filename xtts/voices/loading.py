"""Opens a verified voice with PyTorch or ONNX Runtime.

Importing this module does not import torch, and neither does opening an ONNX folder.
"""

from collections.abc import Mapping

from machine.devices import selection
from xtts import arguments
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.voices import formats
from xtts.voices.base_models import BundleError
from xtts.voices.voice_files import VoiceFiles, VoiceSpec, find_voice


def compute_config(
    voice: VoiceFiles,
    device: str,
    precision: str,
    *,
    low_memory: bool = False,
    guard: bool = True,
    threads: int | None = None,
    watermark: str = "off",
) -> tuple[ComputeConfig, str]:
    """The configuration for a voice, and the reason if it differs from the request. The reason is
    "" for ONNX Runtime, which reports it itself.

    device: `cpu`, `cuda`, `cuda:N`, `auto`, or `gpu` as in DEVICE. Raises DeviceError for a GPU
    that is missing or unusable, and ArgumentError.
    """
    device = arguments.device("device", device)
    compute = ComputeConfig(
        device,
        precision=precision,
        backend="onnx" if voice.onnx else "torch",
        low_memory=low_memory,
        guard=guard,
        threads=threads,
        watermark=watermark,
    )
    if device == "cpu" or voice.onnx:
        return compute, ""
    place = selection.choose_device(selection.look_at_machine(), device)
    return compute.at(place), place.reason


def load_voice(
    voice: VoiceFiles | VoiceSpec,
    compute: ComputeConfig | None = None,
    others: Mapping[str, LoadedVoice] | None = None,
) -> LoadedVoice:
    """Verifies and opens a voice in this process.

    Args:
        voice: The files of a voice, or its specification.
        compute: The device, backend and precision; None is PyTorch on the CPU.
        others: The loaded voices. For a checkpoint whose base model is among them, only the GPT is
            loaded: both share the vocoder and the speaker encoder.

    Raises:
        BundleError: The voice does not exist, is damaged, or is for the other backend.
        ConfigError, RunError, FilesError: Its files cannot be used.
        SotaqueError: ONNX Runtime or its models cannot be used.
    """
    compute = compute or ComputeConfig()
    compute.apply()
    files = find_voice(voice) if isinstance(voice, VoiceSpec) else voice
    if compute.backend == "onnx":
        loaded: LoadedVoice = formats.format_for(compute.backend).load_voice(files, compute)
        return loaded
    if files.onnx:
        raise BundleError(f"{files.folder} is an ONNX voice; it needs BACKEND=onnx.")
    from xtts.inference.torch_voice import load_torch_voice

    return load_torch_voice(files, compute, (others or {}).values())
