"""LoRA adapters on disk, stored without their base model.

    checkpoints/adapter_epoch_N.safetensors     of an epoch, in a run with LORA_RANK
    FOLDER/adapter.safetensors                  of an exported adapter (`train export --adapter`)

The tensors are A `[rank, in]` and B `[out, rank]` of each adapted matrix, float32, named after the
matrix in `model.pth`: `gpt.gpt.h.0.attn.c_attn.lora_A.weight`. The header identifies the base
model. Importing this module does not import torch.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from machine.storage.files import Written, replace_file
from xtts.voices.base_models import BundleError

if TYPE_CHECKING:
    from torch import Tensor

FILE_NAME = "adapter.safetensors"
SCHEMA = 1
METADATA_KEY = "sotaque"


@dataclass(frozen=True)
class AdapterHeader:
    """The header of an adapter file.

    Attributes:
        rank, alpha: W becomes W + share * alpha / rank * B A.
        base: {name, sha256} of the base's model.pth, which contains W.
        matrices: The kinds of adapted matrices: `c_attn`, `c_fc`, `c_proj`.
        share: 1, or less for a blend with the base.
    """

    rank: int
    alpha: float
    base: Mapping[str, str]
    matrices: tuple[str, ...] = ()
    share: float = 1.0
    schema: int = field(default=SCHEMA)

    @property
    def scale(self) -> float:
        """The factor of B A."""
        return self.share * self.alpha / self.rank


def header_text(header: AdapterHeader, base: Mapping[str, str]) -> str:
    """A header as in the metadata of the file, but with another `base`."""
    return json.dumps(asdict(replace(header, base=dict(base))))


def matrix_kinds(names: Iterable[str]) -> tuple[str, ...]:
    """The kinds of matrices among an adapter's tensors with these names."""
    return tuple(sorted({name.split(".")[-3] for name in names}))


def write(path: Path, tensors: "Mapping[str, Tensor]", header: AdapterHeader) -> Written:
    """Writes an adapter; the same tensors make the same file. Raises DiskFull, WriteError."""
    from safetensors.torch import save

    data = save(
        {name: tensor.float().cpu().contiguous() for name, tensor in tensors.items()},
        metadata={METADATA_KEY: json.dumps(asdict(header))},
    )
    return replace_file(path, lambda file: file.write(data))


def read(path: Path) -> "tuple[AdapterHeader, dict[str, Tensor]]":
    """Header and tensors of an adapter file, which the caller has verified. Raises BundleError."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = TypeAdapter(AdapterHeader).validate_json(metadata[METADATA_KEY])
    except KeyError:
        raise BundleError(
            f"{path} does not name its base model, so Sotaque did not write it. Export an adapter "
            "from a run with LORA_RANK, with `train export --adapter`."
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        field_path = ".".join(str(part) for part in first["loc"])
        raise BundleError(f"{path} is damaged: {field_path} {first['msg']}. Export it again.") from error
    except (OSError, SafetensorError) as error:
        raise BundleError(f"{path} cannot be read ({error}). Export it again.") from error
    if header.schema != SCHEMA:
        raise BundleError(f"{path} has schema {header.schema}; this version reads {SCHEMA}.")
    return header, tensors
