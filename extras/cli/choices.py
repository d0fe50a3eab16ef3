"""The flags of each verb of `sotaque`, with the words that each accepts."""

import argparse
import importlib
from typing import Any

from api.settings import ApiSettings
from extras.common.flags import flag_values
from machine import extras
from machine.settings.loading import with_extras
from train import __main__ as train
from train.settings import TrainSettings
from xtts import __main__ as xtts

# The flags of a verb with the fixed words of each. Those of a positional argument are under the
# name of the verb.
Choices = dict[str, tuple[str, ...]]


def choices_of(verb: str) -> Choices:
    """The flags of one verb."""
    if verb == "serve":
        return flag_values(with_extras(ApiSettings))
    if verb in (declared := extras.verbs("sotaque")):
        module: Any = importlib.import_module(declared[verb])
        choices: Choices = module.choices()
        return choices
    if verb in xtts.modules():
        parser = xtts.parser_of_all()
        (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        return _flags_of(verbs.choices[verb])
    parser = train.open_verb("run" if verb == "train" else verb)[1]
    return flag_values(with_extras(TrainSettings)) | _flags_of(parser)


def _flags_of(parser: argparse.ArgumentParser) -> Choices:
    return {
        flag: tuple(map(str, action.choices or ()))
        for action in parser._actions
        for flag in action.option_strings
        if flag.startswith("--")
    }
