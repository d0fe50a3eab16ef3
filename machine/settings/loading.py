"""Loads settings from the command line, environment, .env and defaults, with all errors at once.

`train.settings` and `api.settings` each declare a frozen dataclass on top of `SharedSettings`, and
`load` fills it. An empty value means the setting's default and still wins over the sources below
it: `MAX_TRAIN_SAMPLES= make train` uses all clips, whatever `.env` says. No other module reads
settings from the environment.
"""

import os
import textwrap
from collections.abc import Collection, Mapping, Sequence
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

    def changed_settings(self) -> str:
        """The settings that differ from their defaults, one per line, and a line on the others."""
        changed = [row for row in self.rows if row[1] != self.defaults.get(row[0])]
        others = f"The other {len(self.rows) - len(changed)}" if changed else "All"
        lines = table(changed) if changed else []
        return "\n".join([*lines, f"{others} settings have their defaults (docs/settings.md)."])


@cache
def with_extras(kind: type[S]) -> type[S]:
    """A program's settings with those that the extras add to it (SETTINGS of `machine.extras`).

    An extra derives its classes from the class of the program that reads them, or from
    `SharedSettings` for both programs. The loaded settings are an instance of all of them.
    """
    added = [
        extra_kind
        for extra_kind in _extra_settings()
        if all(issubclass(kind, base) for base in _core_bases(extra_kind))
    ]
    if not added or kind.__module__ == __name__:
        return kind
    settings_kind: Any = type(kind.__name__, (*added, kind), {"__doc__": kind.__doc__})
    return cast(type[S], settings_class(frozen=True, kw_only=True, config=CONFIG)(settings_kind))


def _extra_settings() -> list[type[SharedSettings]]:
    return [kind for module in extras.modules("SETTINGS") for kind in reversed(module.SETTINGS)]


def _core_bases(extra_kind: type[SharedSettings]) -> list[type[SharedSettings]]:
    """The classes of the core that an extra's class derives from."""
    bases = [base for base in extra_kind.__mro__ if issubclass(base, SharedSettings)]
    return [base for base in bases if not base.__module__.startswith("extras.")]


def every_name() -> frozenset[str]:
    """The settings of both programs and of every extra."""
    return CORE_SETTINGS.union(name.upper() for kind in _extra_settings() for name in fields(kind))


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
    kind = with_extras(kind)  # type: ignore[arg-type]
    if "--help" in argv or "-h" in argv:
        print(help_text(kind))
        raise SystemExit(0)
    if "--version" in argv:
        print(commands.version())
        raise SystemExit(0)
    environ, locale_notes = _without_locale(os.environ if environ is None else environ)
    infos = {name.upper(): info for name, info in fields(kind).items()}
    file = dotenv.read(dotenv_path, environ, infos) if dotenv_path else dotenv.DotEnv({})
    flags, faults = _read_flags(argv, infos)
    variables = {name: GivenSetting(value, "environment") for name, value in environ.items()}
    given = {name: setting for name, setting in {**file.given, **variables, **flags}.items() if name in infos}
    settings, value_faults = _validate(kind, infos, given)
    misspelt, unknown_notes = _check_unknown(file, dotenv_path)
    faults += [*file.faults, *misspelt, *value_faults]
    if settings is None or faults:
        raise SettingsError(faults)
    rows = tuple(
        (name, value, given[name].source if name in given else "default")
        for name, value in values_of(settings).items()
    )
    settings, folder_notes = _locate_folders(settings)
    notes = (*file.notes, *unknown_notes, *locale_notes, *folder_notes)
    return settings, SettingsReport(rows, notes, values_of(kind()))


def _locate_folders(settings: S) -> tuple[S, list[str]]:
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
    footer = "docs/settings.md describes every setting and its allowed values."
    return "\n".join(["Settings, each with its default:", "", *lines, "", *wrap(PRECEDENCE, ""), footer])


def _without_locale(environ: Mapping[str, str]) -> tuple[Mapping[str, str], list[str]]:
    """The environment without GNU gettext's LANGUAGE (a list of locales such as pt_BR:pt:en), and a
    note on it."""
    locale = environ.get("LANGUAGE", "")
    if not {"_", ":"} & set(locale):
        return environ, []
    without_locale = {name: value for name, value in environ.items() if name != "LANGUAGE"}
    return without_locale, [
        f"LANGUAGE={locale} in the environment is the desktop's locale, so it is ignored."
    ]


def _read_flags(
    argv: Sequence[str], infos: Mapping[str, FieldInfo]
) -> tuple[dict[str, GivenSetting], list[str]]:
    given: dict[str, GivenSetting] = {}
    faults: list[str] = []
    words = list(argv)
    while words:
        flag, equals, value = words.pop(0).partition("=")
        name = flag[2:].replace("-", "_").upper()
        if name not in infos or flag != flag_of(name):
            faults.append(_unknown_flag_fault(flag, name, infos))
            if flag.startswith("-") and not equals and words and not words[0].startswith("--"):
                words.pop(0)  # its value, which would be reported as a second error
        elif not equals and (not words or words[0].startswith("--")):
            faults.append(f"{flag} has no value; allowed: {means(infos[name]).allowed}.")
        else:
            given[name] = GivenSetting(value if equals else words.pop(0), "command line")
    return given, faults


def _unknown_flag_fault(flag: str, name: str, infos: Collection[str]) -> str:
    hint = "; --help lists them."
    if flag == flag_of(name) and name in RETIRED:
        hint = f" any more: {RETIRED[name]}."
    elif flag.startswith("-"):
        common = setting_for_common_name(name)
        if close := likely_names(name, infos) or ([common] if common in infos else []):
            hint = f"; did you mean {flag_of(close[0])}?"
    return f"{flag} is not a setting of this program{hint}"


def _check_unknown(file: dotenv.DotEnv, path: Path | None) -> tuple[list[str], list[str]]:
    """Errors for names close to a setting's, and notes on the others that no program here reads."""
    faults: list[str] = []
    notes: list[str] = []
    foreign: list[str] = []
    names = every_name() if file.given else CORE_SETTINGS
    for name, setting in file.given.items():
        source = f"{setting.source}: {name}"
        if name in names:
            continue
        if name in RETIRED:
            notes.append(f"{source} is no longer a setting; {RETIRED[name]}.")
        elif close := likely_names(name, names):
            faults.append(f"{source} is not a setting; did you mean {' or '.join(close)}?")
        elif setting_name := setting_for_common_name(name):
            notes.append(f"{source} is not a setting; if it was meant for Sotaque, use {setting_name}.")
        else:
            foreign.append(name)
    note = f"{path}: not read by this program: {', '.join(sorted(foreign))}."
    return faults, [*notes, note] if foreign else notes


def _validate(
    kind: type[S], infos: Mapping[str, FieldInfo], given: Mapping[str, GivenSetting]
) -> tuple[S | None, list[str]]:
    values: dict[str, Any] = {}
    for name, setting in given.items():
        text, rule = setting.text.strip(), means(infos[name])
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
        reasons: dict[str, str] = {}
        for item in error.errors():
            if item["loc"]:
                name = str(item["loc"][0]).upper()
                reasons[name] = reasons.get(name) or _fault_reason(item)
        faults = [_fault_sentence(name, infos[name], given[name], reason) for name, reason in reasons.items()]
        return None, faults + [str(item["ctx"]["error"]) for item in error.errors() if not item["loc"]]


def _fault_reason(item: ErrorDetails) -> str:
    """A sentence that completes `Means.allowed`: an upper limit, or a validator's reason."""
    context = item.get("ctx") or {}
    if item["type"] == "value_error":
        return str(context["error"])
    for bound, words in (("lt", "below"), ("le", "at most")):
        if bound in context:
            return f"It must be {words} {context[bound]:,}."
    return ""


def _fault_sentence(name: str, info: FieldInfo, given: GivenSetting, reason: str) -> str:
    value = "********" if means(info).secret else repr(given.text)
    return f"{name} is {value} ({given.source}); allowed: {means(info).allowed}. {reason}".rstrip()
