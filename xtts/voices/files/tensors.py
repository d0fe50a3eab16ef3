"""The header of voice.safetensors, read without reading the tensors.

The format: https://github.com/huggingface/safetensors, "Format". The library checks the same when
it opens a file, but only a file that is already written. Importing this module does not import
torch.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Literal

from pydantic import TypeAdapter, ValidationError

from machine.text import first_line
from xtts.model.shapes import NUM_LATENTS

LATENTS_TENSOR, SPEAKER_TENSOR = "latents", "speaker"
# As `xtts.model.vocoder.WAVEFORM_DECODER`, whose module imports torch.
DECODER_PREFIX = "hifigan_decoder.waveform_decoder."
_WEIGHTS_PREFIXES = ("gpt.", "hifigan_decoder.")
_LORA_SUFFIXES = (".lora_A.weight", ".lora_B.weight")
_MAX_HEADER_BYTES = 16 << 20
_BITS_OF_TYPE = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "I64": 64,
    "U64": 64,
    "F64": 64,
}
_METADATA_KEY = "__metadata__"


@dataclass(frozen=True)
class TensorEntry:
    """A tensor as the header describes it. data_offsets: its first byte, and after the last."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


@dataclass(frozen=True)
class TensorsHeader:
    """The tensors by name, and the metadata of the file."""

    tensors: Mapping[str, TensorEntry]
    metadata: dict[str, str]


def read_header(file: IO[bytes], size: int) -> TensorsHeader:
    """The header of a file of `size` bytes. Raises ValueError unless its tensors fill the rest of
    the file exactly, in any order."""
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(size - 8, _MAX_HEADER_BYTES):
        raise ValueError(f"Its header has {length:,} bytes, which cannot be right.")
    content = file.read(length)
    try:
        entries = TypeAdapter(dict[str, dict[str, object]]).validate_json(content)
        metadata = TypeAdapter(dict[str, str]).validate_python(entries.pop(_METADATA_KEY, {}))
        tensors = TypeAdapter(dict[str, TensorEntry]).validate_python(entries)
    except ValidationError as error:
        raise ValueError(f"Its header is damaged ({first_line(error)}).") from error
    end = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].data_offsets):
        begin, after = tensor.data_offsets
        num_bytes = math.prod(tensor.shape) * _BITS_OF_TYPE.get(tensor.dtype, 0) // 8
        if tensor.dtype not in _BITS_OF_TYPE or min(tensor.shape, default=0) < 0:
            raise ValueError(f"The tensor {name[:60]!a} is {tensor.dtype[:20]} {list(tensor.shape)[:8]}.")
        if begin != end or after - begin != num_bytes:
            raise ValueError(f"The tensor {name[:60]!a} is not where its header says.")
        end = after
    if 8 + length + end != size:
        raise ValueError(f"Its tensors end at byte {8 + length + end:,} of {size:,}.")
    return TensorsHeader(tensors, metadata)


def check_kind(header: TensorsHeader, kind: Literal["latents", "adapter", "weights"]) -> None:
    """Raises ValueError unless the tensors are those of a voice of this kind: the latents of the
    speaker, and an adapter or a model beside them."""
    latents, speaker = header.tensors.get(LATENTS_TENSOR), header.tensors.get(SPEAKER_TENSOR)
    if latents is None or latents.dtype != "F32" or latents.shape[:2] != (1, NUM_LATENTS):
        raise ValueError(f"It lacks the latents of the speaker, F32 [1, {NUM_LATENTS}, width].")
    if speaker is None or speaker.dtype != "F32" or speaker.shape[::2] != (1, 1):
        raise ValueError("It lacks the speaker's embedding, F32 [1, width, 1].")
    others = header.tensors.keys() - {LATENTS_TENSOR, SPEAKER_TENSOR}
    for name in sorted(others):
        if header.tensors[name].dtype == "BF16" and kind != "weights":
            raise ValueError(f"The tensor {name[:60]!a} is BF16; F32 or F16 is needed.")
        if not _is_tensor_of_kind(name, kind):
            raise ValueError(f"The tensor {name[:60]!a} belongs to no voice of this kind.")
    if kind == "adapter" and not any(is_adapter(name) for name in others):
        raise ValueError("It has no adapter.")
    if kind == "weights" and not any(name.startswith("gpt.") for name in others):
        raise ValueError("It has no weights.")


def _is_tensor_of_kind(name: str, kind: str) -> bool:
    if kind == "weights":
        return name.startswith(_WEIGHTS_PREFIXES) or name == "mel_stats"
    return name.startswith(DECODER_PREFIX) or (kind == "adapter" and is_adapter(name))


def is_adapter(name: str) -> bool:
    """Whether a tensor is one of an adapter's, by its name."""
    return name.startswith("gpt.") and name.endswith(_LORA_SUFFIXES)
