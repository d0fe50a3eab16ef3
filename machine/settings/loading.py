"""Loads settings from the command line, environment, .env and defaults, with all errors at once.

`train.settings` and `api.settings` each declare a frozen dataclass on top of `SharedSettings`, and
`load` fills it. An empty value means the setting's default and still wins over the sources below
it: `MAX_TRAIN_SAMPLES= make train` uses all clips, whatever `.env` says. No other module reads
settings from the environment.
"""

import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import ValidationError
from pydantic.dataclasses import dataclass as settings_class
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from machine import commands, extras, package_data
from machine.devices.selection import SpeakPrecision
from machine.errors import SotaqueError
from machine.settings import dotenv
from machine.settings.dotenv import GivenSetting
from machine.settings.names import CORE_SETTINGS, RETIRED, likely_names, setting_for_common_name
from machine.settings.types import (
    CONFIG,
    Address,
    AutoCount,
    Device,
    Folder,
    Means,
    PathOrWord,
    Switch,
    display,
    fields,
    flag_of,
    means,
    purpose,
)
from machine.text import WIDTH, table, wrap

S = TypeVar("S", bound="SharedSettings")

PRECEDENCE = (
    "The command line comes before the environment, the environment before .env, and .env before "
    "the defaults. An empty value means the default, and it hides the sources after it."
)


class SettingsError(SotaqueError):
    """All errors in the settings, one per line; `faults` holds them one by one."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n  ".join(("The settings are invalid:", *faults)))


@settings_class(frozen=True, kw_only=True, config=CONFIG)
class SharedSettings:
    """The settings that both programs read."""

    base_model: Annotated[PathOrWord, Means("demo, xtts_v2, or a folder in Coqui's layout")] = "demo"
    """The model to start from. demo is included. xtts_v2 is downloaded once (2.1 GB) and needs
    COQUI_TOS_AGREED."""
    device: Device = "auto"
    """The device to compute on. auto is a GPU that passes its check, or else the CPU; the log says
    why."""
    speak_precision: Annotated[SpeakPrecision, Means("auto, fp32, bf16, int8 or int4", words=True)] = "auto"
    """The precision of speaking. On a CPU, auto is the fastest one without an audible difference;
    on a GPU it is bf16 if the GPU has it. fp32 is exact. int8 and int4 are for CPUs only, and int4
    is the least exact."""
    guard: Switch = True
    """Checks each utterance and speaks it again if it broke off, repeated itself, got stuck or
    continued after the end of the text. off returns every utterance unchecked."""
    watermark: Annotated[Literal["off", "perth"], Means("off or perth", words=True)] = "off"
    """Adds an inaudible watermark to all speech. perth needs resemble-perth
    (docs/synthetic-sound.md). Every file also says in its metadata that it is AI-generated."""
    output_dir: Folder = Path("train/output")
    """The run folder, with checkpoints, samples and metrics. The API finds its voices there."""
    num_threads: AutoCount = None
    """The number of CPU threads. auto is all cores of the machine, or the container's limit."""
    coqui_tos_agreed: Switch = False
    """on (or 1) says that you have read and accepted Coqui's licence of XTTS-v2 (CPML:
    non-commercial, for the model and its outputs). Until then, no program downloads or loads
    XTTS-v2, or a voice that was fine-tuned from it."""
    xtts_v2_dir: Folder = Path("train/xtts_v2")
    """The folder for the files of xtts_v2: 2.1 GB, downloaded once or copied there by hand."""
    hf_endpoint: Annotated[Address, Means("an http or https address")] = "https://huggingface.co"
    """The Hugging Face hub, or a mirror of it, that xtts_v2 is downloaded from. The files must be
    identical to the published ones."""


@dataclass(frozen=True)
class SettingsReport:
    """The resolved settings.

    Attributes:
        rows: (name, value, source) of each setting; secrets are masked.
        notes: Sentences about what is unusual but not an error.
        defaults: The default of each setting, as it is printed.
    """

    rows: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)

    def given(self) -> str:
        """The settings that differ from their defaults, one per line, and a line on the others."""
        given = [row for row in self.rows if row[1] != self.defaults.get(row[0])]
        others = f"The other {len(self.rows) - len(given)}" if given else "All"
        lines = table(given) if given else []
        return "\n".join([*lines, f"{others} settings have their defaults (docs/settings.md)."])


@cache
def whole(kind: type[S]) -> type[S]:
    """A program's settings with those that the extras add to it (SETTINGS of `machine.extras`).

    An extra derives its classes from the class of the program that reads them, or from
    `SharedSettings` for both programs. The loaded settings are an instance of all of them.
    """
    added = [
        extra_kind
        for extra_kind in _of_extras()
        if all(issubclass(kind, base) for base in _programs(extra_kind))
    ]
    if not added or kind.__module__ == __name__:
        return kind
    settings_kind: Any = type(kind.__name__, (*added, kind), {"__doc__": kind.__doc__})
    return cast(type[S], settings_class(frozen=True, kw_only=True, config=CONFIG)(settings_kind))


def _of_extras() -> list[type[SharedSettings]]:
    return [kind for module in extras.modules("SETTINGS") for kind in reversed(module.SETTINGS)]


def _programs(added: type[SharedSettings]) -> list[type[SharedSettings]]:
    """The classes of the core that an extra's class derives from."""
    bases = [base for base in added.__mro__ if issubclass(base, SharedSettings)]
    return [base for base in bases if not base.__module__.startswith("extras.")]


def every_name() -> frozenset[str]:
    """The settings of both programs and of every extra."""
    return CORE_SETTINGS.union(name.upper() for kind in _of_extras() for name in fields(kind))


def load(
    kind: type[S],
    argv: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    dotenv_path: Path | None = Path(".env"),
) -> tuple[S, SettingsReport]:
    """Loads the settings of one program. `--help` prints and exits, as in argparse.

    Args:
        kind: The program's settings class.
        argv: Arguments as in `--num-epochs 3 --tensorboard=off`; `--version` prints and exits, too.
        environ: The environment; None for this process's.
        dotenv_path: The `.env` file, if any.

    Returns:
        The settings, and a report on where each came from.

    Raises:
        SettingsError: With all errors of all sources.
    """
    kind = whole(kind)  # type: ignore[arg-type]
    if "--help" in argv or "-h" in argv:
        print(help_text(kind))
        raise SystemExit(0)
    if "--version" in argv:
        print(commands.version())
        raise SystemExit(0)
    environ, locales = _without_locale(os.environ if environ is None else environ)
    ours = {name.upper(): info for name, info in fields(kind).items()}
    file = dotenv.read(dotenv_path, environ, ours) if dotenv_path else dotenv.DotEnv({})
    flags, faults = _flags(argv, ours)
    variables = {name: GivenSetting(value, "environment") for name, value in environ.items()}
    given = {name: setting for name, setting in {**file.given, **variables, **flags}.items() if name in ours}
    settings, value_faults = _validate(kind, ours, given)
    misspelt, unknown = _unknown(file, dotenv_path)
    faults += [*file.faults, *misspelt, *value_faults]
    if settings is None or faults:
        raise SettingsError(faults)
    rows = tuple(
        (name, value, given[name].source if name in given else "default")
        for name, value in values_of(settings).items()
    )
    settings, moved = _in_package(settings)
    notes = (*file.notes, *unknown, *locales, *moved)
    return settings, SettingsReport(rows, notes, values_of(kind()))


def _in_package(settings: S) -> tuple[S, list[str]]:
    """Resolves folders by `package_data.locate`. Returns the settings, and a note on folders of
    the package."""
    changed: dict[str, Any] = {}
    for name in fields(type(settings)):
        value = getattr(settings, name)
        if isinstance(value, Path) and (path := package_data.locate(value)) != value:
            changed[name] = path
    if not changed:
        return settings, []
    named = ", ".join(f"{name.upper()}={path}" for name, path in changed.items())
    note = f"Not in this folder, so the package's data is used: {named}"
    return replace(settings, **changed), [note]


def values_of(settings: SharedSettings) -> dict[str, str]:
    """Every setting by its name, as it is printed; secrets are masked."""
    return {
        name.upper(): display(info, getattr(settings, name)) for name, info in fields(type(settings)).items()
    }


def help_text(kind: type[object]) -> str:
    """The flags of one program, one per line: the program's, then the shared ones."""
    settings = {
        f"{flag_of(name)} {display(info, info.default)}".rstrip(): purpose(info).partition(". ")[0]
        for name, info in fields(kind).items()
    }
    width = max(map(len, settings))
    lines = [
        f"  {flag:{width}}  " + textwrap.shorten(text.rstrip("."), WIDTH - width - 4, placeholder=" …")
        for flag, text in settings.items()
    ]
    more = "docs/settings.md describes every setting and its allowed values."
    return "\n".join(["Settings, each with its default:", "", *lines, "", *wrap(PRECEDENCE, ""), more])


def _without_locale(environ: Mapping[str, str]) -> tuple[Mapping[str, str], list[str]]:
    """Ignores GNU gettext's LANGUAGE, a list of locales such as pt_BR:pt:en."""
    locale = environ.get("LANGUAGE", "")
    if not {"_", ":"} & set(locale):
        return environ, []
    rest = {name: value for name, value in environ.items() if name != "LANGUAGE"}
    return rest, [f"LANGUAGE={locale} in the environment is the desktop's locale, so it is ignored."]


def _flags(argv: Sequence[str], ours: Mapping[str, FieldInfo]) -> tuple[dict[str, GivenSetting], list[str]]:
    given: dict[str, GivenSetting] = {}
    faults: list[str] = []
    rest = list(argv)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        name = flag[2:].replace("-", "_").upper()
        if name not in ours or flag != flag_of(name):
            common = setting_for_common_name(name)
            close = likely_names(name, ours) or ([common] if common in ours else [])
            misspelt = flag.startswith("-") and close
            hint = f"; did you mean {flag_of(close[0])}?" if misspelt else "; --help lists them."
            gone = RETIRED.get(name) if flag == flag_of(name) else None
            hint = f" any more: {gone}." if gone else hint
            faults.append(f"{flag} is not a setting of this program{hint}")
            if flag.startswith("-") and not equals and rest and not rest[0].startswith("--"):
                rest.pop(0)  # its value, which would be reported as a second error
        elif not equals and (not rest or rest[0].startswith("--")):
            faults.append(f"{flag} has no value; allowed: {means(ours[name]).allowed}.")
        else:
            given[name] = GivenSetting(value if equals else rest.pop(0), "command line")
    return given, faults


def _unknown(file: dotenv.DotEnv, path: Path | None) -> tuple[list[str], list[str]]:
    """Errors for names close to ours, and notes on the others that no program here reads."""
    faults: list[str] = []
    notes: list[str] = []
    rest: list[str] = []
    names = every_name() if file.given else CORE_SETTINGS
    for name, setting in file.given.items():
        source = f"{setting.source}: {name}"
        if name in names:
            continue
        if name in RETIRED:
            notes.append(f"{source} is no longer a setting; {RETIRED[name]}.")
        elif close := likely_names(name, names):
            faults.append(f"{source} is not a setting; did you mean {' or '.join(close)}?")
        elif ours := setting_for_common_name(name):
            notes.append(f"{source} is not a setting; if it was meant for Sotaque, use {ours}.")
        else:
            rest.append(name)
    note = f"{path}: not read by this program: {', '.join(sorted(rest))}."
    return faults, [*notes, note] if rest else notes


def _validate(
    kind: type[S], ours: Mapping[str, FieldInfo], given: Mapping[str, GivenSetting]
) -> tuple[S | None, list[str]]:
    values: dict[str, Any] = {}
    for name, setting in given.items():
        text, rule = setting.text.strip(), means(ours[name])
        if text == "":
            continue
        if rule.none and text.lower() == rule.none:
            values[name.lower()] = None
        else:
            values[name.lower()] = text.lower() if rule.words else text
    try:
        return kind(**values), []
    except ValidationError as error:
        # A union reports one error for each of its types, but one sentence per setting is enough.
        named: dict[str, str] = {}
        for item in error.errors():
            if item["loc"]:
                name = str(item["loc"][0]).upper()
                named[name] = named.get(name) or _more(item)
        whole = [str(item["ctx"]["error"]) for item in error.errors() if not item["loc"]]
        return None, [_sentence(name, ours[name], given[name], more) for name, more in named.items()] + whole


def _more(item: ErrorDetails) -> str:
    """A sentence that completes `Means.allowed`: an upper limit, or a validator's reason."""
    context = item.get("ctx") or {}
    if item["type"] == "value_error":
        return str(context["error"])
    for bound, words in (("lt", "below"), ("le", "at most")):
        if bound in context:
            return f"It must be {words} {context[bound]:,}."
    return ""


def _sentence(name: str, info: FieldInfo, given: GivenSetting, more: str) -> str:
    value = "********" if means(info).secret else repr(given.text)
    return f"{name} is {value} ({given.source}); allowed: {means(info).allowed}. {more}".rstrip()
