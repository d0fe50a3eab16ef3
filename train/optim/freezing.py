"""FREEZE: parameters that are not trained, by name pattern.

A pattern that matches no weight is an error; the message lists similar names.
"""

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from machine.errors import SotaqueError
from xtts.model.config import TrainingAdvice

NOTHING = "none"


def chosen(
    setting: str | None, advice: TrainingAdvice, *, with_adapters: bool
) -> tuple[tuple[str, ...], str]:
    """The patterns of FREEZE, or else those that the base model recommends, with the reason. `none`
    means no pattern. With adapters, everything else is frozen anyway, so advice is ignored."""
    if setting is not None:
        return (() if setting.strip() == NOTHING else patterns(setting)), "FREEZE"
    if advice.freeze is None or with_adapters:
        return (), "nothing is frozen"
    return patterns(advice.freeze), "recommended by the base model"


def patterns(setting: str) -> tuple[str, ...]:
    """Splits the setting into patterns."""
    return tuple(part.strip() for part in setting.split(",") if part.strip())


def freeze(module: nn.Module, globs: Sequence[str]) -> int:
    """Freezes every weight that a pattern matches; returns how many numbers that are.

    A pattern matches a whole name (`text_embedding.weight`) or the name of a part
    (`conditioning_*`). Raises SotaqueError if one matches nothing.
    """
    named = dict(module.named_parameters())
    for glob in globs:
        if not any(fits(name, [glob]) for name in named):
            raise SotaqueError(_nothing(glob, list(named)))
    frozen = [parameter for name, parameter in named.items() if fits(name, globs)]
    if len(frozen) == len(named):
        raise SotaqueError(f"FREEZE={','.join(globs)} freezes every weight: nothing would train.")
    for parameter in frozen:
        parameter.requires_grad_(False)
    return sum(parameter.numel() for parameter in frozen)


def fits(name: str, globs: Sequence[str]) -> bool:
    """Whether a pattern matches this weight, or a part that contains it."""
    parts = name.split(".")
    heads = [".".join(parts[: count + 1]) for count in range(len(parts))]
    return any(fnmatchcase(head, glob) for glob in globs for head in heads)


def _nothing(glob: str, names: Sequence[str]) -> str:
    heads = sorted({".".join(name.split(".")[:depth]) for name in names for depth in (1, 2, 3, 4)})
    near = difflib.get_close_matches(glob.strip("*."), heads, n=3, cutoff=0.5)
    tops = sorted({name.split(".")[0] for name in names})
    hint = f"Similar parts are {', '.join(near)}." if near else f"The parts are {', '.join(tops)}."
    return f"FREEZE has {glob!r}, which matches no weight of the model. {hint}"
