"""Opens a voice by name, folder or checkpoint, and keeps it loaded.

Importing this module imports no torch, and neither does opening an ONNX folder.
"""

from collections.abc import Mapping

from xtts.hub import bundle
from xtts.hub.base_models import BundleError
from xtts.hub.bundle import VoiceSpec
from xtts.inference.loaded_voice import ComputeConfig, LoadedVoice
from xtts.model.config import ModelConfig
from xtts.onnx import folder as onnx_folder
from xtts.text.tokenizer import TokenizerSpec

__all__ = [
    "BundleError", "ComputeConfig", "LoadedVoice", "VoiceSpec", "backend_of", "load_voice",
    "tokenizer_of",
]  # fmt: skip


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
