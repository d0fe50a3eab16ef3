"""A student is a GPT with some of its teacher's layers, by default half, and all other parts."""

from dataclasses import replace

from torch import Tensor

from machine.errors import SotaqueError
from xtts.model.gpt import GPT

_LAYER_PREFIX = "gpt.h."


def kept_layers(layers: int, count: int | None) -> tuple[int, ...]:
    """The numbers of the teacher's layers that a student with `count` layers keeps: evenly spaced,
    including the first. None keeps half of them.

    With two of four layers, the first and the third learned faster than the first and the last
    (docs/develop/log.md, "Half the layers"). Raises SotaqueError for a count out of range.
    """
    num_kept = max(1, layers // 2) if count is None else count
    if not 1 <= num_kept < layers:
        raise SotaqueError(
            f"--layers {num_kept}: the model has {layers}; give a number from 1 to {layers - 1}."
            if layers > 1
            else "The model has one layer, which cannot be removed."
        )
    return tuple(number * layers // num_kept for number in range(num_kept))


def new_student(teacher: GPT, layers: tuple[int, ...]) -> GPT:
    """A GPT with these layers of the teacher and all of its other weights, as copies."""
    student = GPT(replace(teacher.shape, layers=len(layers)))
    student.load_state_dict(_with_layers(teacher.state_dict(), layers))
    return student


def _with_layers(state: dict[str, Tensor], layers: tuple[int, ...]) -> dict[str, Tensor]:
    chosen = {}
    for name, tensor in state.items():
        if name.startswith(_LAYER_PREFIX):
            number, _, rest = name.removeprefix(_LAYER_PREFIX).partition(".")
            if int(number) not in layers:
                continue
            name = f"{_LAYER_PREFIX}{layers.index(int(number))}.{rest}"
        chosen[name] = tensor
    return chosen
