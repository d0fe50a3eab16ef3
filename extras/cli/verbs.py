"""The verbs of `sotaque`, collected from all programs."""

import argparse
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from api import __main__ as api
from api.settings import ApiSettings
from extras.common.flags import flag_values
from machine import extras
from machine.settings.loading import whole
from train import __main__ as train
from train.settings import TrainSettings
from xtts import __main__ as xtts

# The flags of a verb with the fixed words of each.
Choices = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Verb:
    """One verb.

    Attributes:
        summary: What it does, in one line.
        run: Runs it with the words that follow it, and returns its exit code.
        choices: The words for completion, by flag. Those of a positional argument are under the
            name of the verb.
        usage: The words after the verb, if its help does not include a usage.
    """

    summary: str
    run: Callable[[Sequence[str]], int]
    choices: Callable[[], Choices]
    usage: str = ""


def find_all() -> dict[str, Verb]:
    """All verbs by name."""
    found: dict[str, Verb] = {}
    for name, module in train.modules().items():
        run, choices = partial(_run_after, train.main, name), partial(_train_choices, name)
        own = "train" if name == "run" else name
        found[own] = Verb(_summary(module), run, choices, "[settings]" * (own == "train"))
    for name, module in xtts.modules().items():
        run, choices = partial(_run_after, xtts.main, name), partial(_xtts_choices, name)
        found[name] = Verb(_summary(module), run, choices)
    found["serve"] = Verb(
        "speak over HTTP, and show the page", api.main, partial(flag_values, whole(ApiSettings)),
        "[settings]",
    )  # fmt: skip
    for name, module in extras.verbs("sotaque").items():
        entry: Any = importlib.import_module(module)
        found[name] = Verb(_summary(module), entry.main, entry.choices, entry.USAGE)
    return found


def _summary(module: str) -> str:
    """The first line of a module's SUMMARY; the others are for `python -m train --help`."""
    first: str = importlib.import_module(module).SUMMARY.splitlines()[0]
    return first.partition("  [")[0]


def _run_after(program: Callable[[Sequence[str]], int], name: str, words: Sequence[str]) -> int:
    return program([name, *words])


def _train_choices(name: str) -> Choices:
    return flag_values(whole(TrainSettings)) | _choices_of(train.opened(name)[1])


def _xtts_choices(name: str) -> Choices:
    parser = xtts.parser_of_all()
    (verbs,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return _choices_of(verbs.choices[name])


def _choices_of(parser: argparse.ArgumentParser) -> Choices:
    return {
        flag: tuple(map(str, action.choices or ()))
        for action in parser._actions
        for flag in action.option_strings
        if flag.startswith("--")
    }
