"""An adapter on disk: what LoRA learned of a voice, apart from the base model that it belongs to.

    checkpoints/adapter_epoch_N.safetensors     of an epoch, in a run with LORA_RANK
    FOLDER/adapter.safetensors                  of an exported adapter (`train export --adapter`)

The tensors are A `[rank, in]` and B `[out, rank]` of each adapted matrix, float32, under the name
that the matrix has in `model.pth`: `gpt.gpt.h.0.attn.c_attn.lora_A.weight`. The header names what
they belong to. Importing this module does not import torch.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from machine.storage.atomic import Written, replace_file
from xtts.voices.base_models import BundleError

if TYPE_CHECKING:
    from torch import Tensor

NAME = "adapter.safetensors"
SCHEMA = 1
_KEY = "sotaque"


@dataclass(frozen=True)
class AdapterHeader:
    """What the header of an adapter's file says.

    Attributes:
        rank, alpha: W becomes W + share * alpha / rank * B A.
        base: {name, sha256} of the model.pth that W is of.
        matrices: The kinds of matrices that are adapted: `c_attn`, `c_fc`, `c_proj`.
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
        """What B A is multiplied by."""
        return self.share * self.alpha / self.rank


def matrices_of(names: Iterable[str]) -> tuple[str, ...]:
    """The kinds of matrices among an adapter's tensors, by their names."""
    return tuple(sorted({name.split(".")[-3] for name in names}))


def write(path: Path, tensors: "Mapping[str, Tensor]", header: AdapterHeader) -> Written:
    """Writes an adapter; the same tensors make the same file. Raises DiskFull, WriteError."""
    from safetensors.torch import save

    data = save(
        {name: tensor.float().cpu().contiguous() for name, tensor in tensors.items()},
        metadata={_KEY: json.dumps(asdict(header))},
    )
    return replace_file(path, lambda file: file.write(data))


def read(path: Path) -> "tuple[AdapterHeader, dict[str, Tensor]]":
    """Header and tensors of an adapter file, which the caller has verified. Raises BundleError."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = TypeAdapter(AdapterHeader).validate_json(metadata[_KEY])
    except KeyError:
        raise BundleError(
            f"{path} does not say which base it belongs to: Sotaque did not write it. Take the "
            "adapter out of a run with LORA_RANK, by `train export --adapter`."
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BundleError(f"{path} is damaged: {where} {first['msg']}. Export it again.") from error
    except (OSError, SafetensorError) as error:
        raise BundleError(f"{path} cannot be read ({error}). Export it again.") from error
    if header.schema != SCHEMA:
        raise BundleError(f"{path} has schema {header.schema}; this version reads {SCHEMA}.")
    return header, tensors
