"""Finds the extras: the optional parts in `extras/`, which the core does not import.

`extras.NAMES` lists them; deleted folders are skipped. The `__init__` of an extra declares its
modules in constants, by name, so that they are imported only when needed:

VERBS       program -> verb -> module, for `python -m train`, `python -m xtts` and `sotaque`, which
            has the verbs of both. A module of train has SUMMARY, PURPOSE, USAGE,
            `add_arguments(parser)` and `run(settings, arguments)`; one of xtts has SUMMARY, USAGE,
            `add_arguments(parser)` and `run(arguments)`; one of sotaque has SUMMARY, USAGE,
            `main(words)`, and `choices()` for shell completion.
SETTINGS    settings of the extra: `machine.settings.loading`
SERVICE     routes of the HTTP service, also WebSockets, and their state: `api.parts`
PAGE        the folder of its part of the web page: `api.parts`
LISTENER    a further protocol: `api.parts`
VOICES      a further format of voices: `xtts.voices.formats`
CLIPS       looks at clips before training: `look`, `report_kept`, `without_suspects`
LAYOUTS     reads datasets in the layouts of other tools: `read`
LANGUAGES   tells which languages a base lacks: `report_lacking`
HELP        the pages of `sotaque --help`: `overview`, `examples_of`
REHEARSAL   clips in the added languages that a base has learned: `rehearsal_of`
JUDGE       a further column in a run's evaluation: `train.evaluation.further_judges`
OPTIMIZER   AdamW with 8-bit states: `AdamW8bit`
RULES       rules of languages that XTTS-v2 lacks: `rules_of`
MARKUP      reads further tags in texts: `Reader`
USAGE       a run's GPU, CPU and RAM usage, and FLOPs: `MachineMetrics`, `of_steps`
GRAPHS      training steps as CUDA graphs: `graphs_of`
SPEECH_GRAPHS   decode steps and the vocoder's windows as CUDA graphs: `rows_of`, `record_windows`
STEPS       computes steps elsewhere: `steps_on`
WATERMARK   an inaudible watermark: `load`, `mark`
"""

import importlib
import importlib.util
from functools import cache
from types import ModuleType
from typing import Any


@cache
def entries() -> tuple[ModuleType, ...]:
    """The `__init__` modules of the installed extras."""
    try:
        names: tuple[str, ...] = importlib.import_module("extras").NAMES
    except ModuleNotFoundError:
        return ()
    return tuple(
        importlib.import_module(f"extras.{name}")
        for name in names
        if importlib.util.find_spec(f"extras.{name}") is not None
    )


def names() -> tuple[str, ...]:
    """The names of the installed extras."""
    return tuple(entry.__name__.removeprefix("extras.") for entry in entries())


def offers(port: str) -> list[Any]:
    """The value that each extra declares under the name of a port."""
    return [getattr(entry, port) for entry in entries() if hasattr(entry, port)]


def modules(port: str) -> list[ModuleType]:
    """The modules that the extras declare for a port, imported."""
    return [importlib.import_module(name) for name in offers(port)]


def first(port: str) -> ModuleType | None:
    """The module of the first extra that declares a port; None without one."""
    return next(iter(modules(port)), None)


def verbs(program: str) -> dict[str, str]:
    """The verbs that the extras add to a program, each with its module."""
    return {
        verb: module for declared in offers("VERBS") for verb, module in declared.get(program, {}).items()
    }
