"""The student: a GPT with half of the teacher's layers, or as many as named, and other parts."""

from dataclasses import replace

from torch import Tensor

from machine.errors import SotaqueError
from xtts.model.gpt import GPT

_LAYERS = "gpt.h."


def kept_layers(layers: int, count: int | None) -> tuple[int, ...]:
    """The numbers of the teacher's layers that a student with `count` layers keeps: evenly spaced,
    including the first. count: None for half of them.

    With two of four layers, the first and the third learned faster than the first and the last
    (docs/develop/log.md, "Half the layers"). Raises SotaqueError for a count out of range.
    """
    size = max(1, layers // 2) if count is None else count
    if not 1 <= size < layers:
        raise SotaqueError(
            f"--layers {size}: the model has {layers}; give a number from 1 to {layers - 1}."
            if layers > 1
            else "The model has one layer, which cannot be removed."
        )
    return tuple(number * layers // size for number in range(size))


def new_student(teacher: GPT, layers: tuple[int, ...]) -> GPT:
    """A GPT with copies of the teacher's weights and of those layers."""
    student = GPT(replace(teacher.shape, layers=len(layers)))
    student.load_state_dict(_of_layers(teacher.state_dict(), layers))
    return student


def _of_layers(state: dict[str, Tensor], layers: tuple[int, ...]) -> dict[str, Tensor]:
    chosen = {}
    for name, tensor in state.items():
        if name.startswith(_LAYERS):
            number, _, rest = name.removeprefix(_LAYERS).partition(".")
            if int(number) not in layers:
                continue
            name = f"{_LAYERS}{layers.index(int(number))}.{rest}"
        chosen[name] = tensor
    return chosen
