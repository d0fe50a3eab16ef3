"""Generates test inputs for an unknown ONNX model: sizes for dynamic axes, and values.

A guess may be wrong, so there are several; the first that the model accepts is used and reported.
Everything but `make_arrays` is pure.
"""

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from extras.doctor.explain.graph import ExplainError, GraphValue

if TYPE_CHECKING:
    import numpy as np

_TYPES = frozenset("float32 float64 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool".split())
_CACHE_LENGTH = 8  # the length of a decoder's cache
_MAX_INPUT_VALUES = 250_000_000  # 1 GB of fp32


class Sizes(NamedTuple):
    """Sizes of inputs: samples at 16 kHz, mel frames, text tokens, and a picture's side."""

    samples: int
    frames: int
    tokens: int
    pixels: int


# Tried in this order: a detector wants multiples of 32, some heads exactly 112 or 80.
GUESSES = (
    Sizes(16_000, 200, 32, 320),
    Sizes(64_600, 400, 64, 112),
    Sizes(512, 64, 16, 80),
    Sizes(1_024, 16, 4, 640),
    Sizes(1, 1, 1, 1),
)
# A model that keeps a state between calls receives audio in pieces of this length (Silero's).
_CHUNK_SAMPLES = 512
_STATE_NAME = re.compile(r"^(state|h|c|hn|cn|h0|c0)$|past|cache|hidden|_state", re.IGNORECASE)
_SOUND_NAME = re.compile(r"audio|wav|sound|speech|signal|sample|^input$|^x$|source", re.IGNORECASE)
_RATE_NAME = re.compile(r"^sr$|sampl\w*_?rate", re.IGNORECASE)
_LENGTH_NAME = re.compile(r"len(gth)?s?$|_len", re.IGNORECASE)
_CHOICE_NAME = re.compile(r"sid|speaker|lang|emotion|^spk", re.IGNORECASE)
_MASK_NAME = re.compile(r"mask", re.IGNORECASE)


class Filling(TypedDict, total=False):
    """How to make an input. fill: "normal" (mean 0), "value", "values" or "ids" (below `value`)."""

    name: str
    type: str
    shape: list[int]
    fill: str
    value: float
    values: list[float]


def make_plans(
    inputs: Sequence[GraphValue], given_shapes: Mapping[str, tuple[int, ...]]
) -> list[list[Filling]]:
    """The inputs to try, without repeats, as JSON values.

    Args:
        inputs: The model's inputs.
        given_shapes: Name -> shape, from --shape.

    Raises:
        ExplainError: A shape does not fit, or an input cannot be generated.
    """
    for name in given_shapes.keys() - {value.name for value in inputs}:
        names = ", ".join(value.name for value in inputs)
        raise ExplainError(f"--shape {name}: this model has no such input. Its inputs: {names}.")
    for value in inputs:
        _check_input(value, given_shapes.get(value.name))
    plans_to_try: list[list[Filling]] = []
    for plan in (_make_plan(inputs, sizes, given_shapes) for sizes in GUESSES):
        if sum(prod(filling["shape"]) for filling in plan) <= _MAX_INPUT_VALUES and plan not in plans_to_try:
            plans_to_try.append(plan)
    if not plans_to_try:
        raise ExplainError(
            f"The inputs of this model hold more than {_MAX_INPUT_VALUES:,} values. Give a smaller "
            "--shape, or leave out --run."
        )
    return plans_to_try


def make_arrays(plan: Sequence[Filling]) -> "dict[str, np.ndarray]":
    """Name -> numpy array for a plan; the same values each time."""
    import numpy

    rng = numpy.random.default_rng(0)
    array_of: dict[str, np.ndarray] = {}
    numbers: np.ndarray
    for filling in plan:
        shape = tuple(filling["shape"])
        if filling["fill"] == "normal":
            numbers = rng.standard_normal(shape) * 0.1
        elif filling["fill"] == "ids":
            numbers = rng.integers(0, max(1, int(filling["value"])), shape)
        elif filling["fill"] == "values":
            numbers = numpy.resize(numpy.array(filling["values"]), shape)
        else:
            numbers = numpy.full(shape, filling["value"])
        array_of[filling["name"]] = numbers.astype(filling["type"])
    return array_of


def _check_input(value: GraphValue, given_shape: tuple[int, ...] | None) -> None:
    if value.type not in _TYPES:
        what = {"string": "text", "": "a list or a map"}.get(value.type, value.type)
        raise ExplainError(
            f"--run generates numbers, but the input {value.name!r} needs {what}. Leave out --run to "
            "see where the nodes are."
        )
    if given_shape is None or value.shape is None:
        return
    is_fitting = len(given_shape) == len(value.shape) and all(
        not isinstance(declared_size, int) or declared_size == size
        for declared_size, size in zip(value.shape, given_shape)
    )
    if not is_fitting:
        declared = "x".join(str(size) or "?" for size in value.shape)
        given = "x".join(map(str, given_shape))
        raise ExplainError(f"--shape {value.name}={given} does not fit the declared shape {declared}.")


def _make_plan(
    inputs: Sequence[GraphValue], sizes: Sizes, given_shapes: Mapping[str, tuple[int, ...]]
) -> list[Filling]:
    if any(_STATE_NAME.search(value.name) for value in inputs):
        sizes = sizes._replace(samples=min(sizes.samples, _CHUNK_SAMPLES))
    axis_sizes: dict[str, int] = {}
    for value in inputs:
        for axis, size in enumerate(value.shape or ()):
            if isinstance(size, str) and size and "+" not in size:
                guess = (
                    given_shapes[value.name][axis]
                    if value.name in given_shapes
                    else _guess_size(value, axis, sizes)
                )
                axis_sizes[size] = min(axis_sizes.get(size, guess), guess)
    shapes = {
        value.name: given_shapes.get(value.name)
        or tuple(
            _declared_size(size, axis_sizes) or _guess_size(value, axis, sizes)
            for axis, size in enumerate(value.shape or ())
        )
        for value in inputs
    }
    longest = max((size for value in inputs for size in _dynamic_sizes(value, shapes[value.name])), default=1)
    return [
        Filling(
            name=value.name,
            type=value.type,
            shape=list(shapes[value.name]),
            fill="normal",
            value=0.0,
            values=[],
        )
        | _special_filling(value, shapes[value.name], longest)
        for value in inputs
    ]


def _declared_size(size: int | str, axis_sizes: Mapping[str, int]) -> int:
    """A declared size, that of a named axis, or the sum in a name ("past + 1"); 0 if unknown."""
    if isinstance(size, int):
        return size
    parts = [part.strip() for part in size.split("+")]
    if not size or not all(part.isdigit() or part in axis_sizes for part in parts):
        return 0
    return sum(int(part) if part.isdigit() else axis_sizes[part] for part in parts)


def _guess_size(value: GraphValue, axis: int, sizes: Sizes) -> int:
    """The size chosen for a dynamic axis."""
    shape = value.shape or ()
    name, rank = str(shape[axis]).lower(), len(shape)
    if isinstance(shape[axis], int):
        return int(shape[axis])
    if "batch" in name or (axis == 0 and (rank > 1 or not value.type.startswith("float"))):
        return 1
    if "past" in name or _STATE_NAME.search(value.name):
        return 1 if axis == 1 and rank == 3 else _CACHE_LENGTH
    if not value.type.startswith("float"):
        return sizes.tokens
    if rank == 4 and (shape[1] in (1, 3, 4) or shape[3] in (1, 3, 4)):
        return sizes.pixels
    if rank <= 2 and _SOUND_NAME.search(value.name):
        return sizes.samples
    return sizes.frames if rank == 3 else (sizes.samples if rank == 1 else _CACHE_LENGTH)


def _dynamic_sizes(value: GraphValue, shape: Sequence[int]) -> list[int]:
    """The sizes chosen for dynamic axes after the batch; a length input refers to one of them."""
    return [
        size
        for axis, size in enumerate(shape)
        if axis and isinstance((value.shape or ())[axis], str) and not _STATE_NAME.search(value.name)
    ]


def _special_filling(value: GraphValue, shape: Sequence[int], longest: int) -> Filling:
    """How to fill an input, if not with normally distributed values."""
    is_integer = not value.type.startswith("float")
    if _RATE_NAME.search(value.name):
        return {"fill": "value", "value": 16_000.0}
    if is_integer and _LENGTH_NAME.search(value.name):
        return {"fill": "value", "value": float(longest)}
    if _MASK_NAME.search(value.name) or value.type == "bool":
        return {"fill": "value", "value": 1.0}
    if _STATE_NAME.search(value.name) or (is_integer and _CHOICE_NAME.search(value.name)):
        return {"fill": "value"}
    if is_integer:
        return {"fill": "ids", "value": float(value.ids or 10)} if shape else {"fill": "value", "value": 1.0}
    if value.name == "scales":  # Piper: noise, length, noise in the lengths
        return {"fill": "values", "values": [0.667, 1.0, 0.8]}
    return {} if shape else {"fill": "value", "value": 0.5}
