"""Loads settings: command line, environment, .env, default; all errors at once.

`train.settings` and `api.settings` each declare a frozen dataclass on top of `SharedSettings`;
`load` fills it and tells every fault at once. An empty value is that name's default and still wins
over the sources below it: `MAX_TRAIN_SAMPLES= make train` means all clips, whatever `.env` says.
No other module reads the environment.
"""

import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import StringConstraints, ValidationError
from pydantic.dataclasses import dataclass as settings_class
from pydantic.fields import FieldInfo

from machine.errors import SotaqueError
from machine.settings import dotenv
from machine.settings.dotenv import GivenSetting
from machine.settings.names import NAMES, RETIRED, difference, equivalent, meant
from machine.settings.types import (
    CONFIG,
    Address,
    AutoCount,
    Folder,
    Means,
    Place,
    SpeakPrecision,
    Switch,
    fields,
    flag_of,
    means,
    purpose,
    shown,
)
from machine.text import WIDTH, table, wrapped

S = TypeVar("S", bound="SharedSettings")

PRECEDENCE = (
    "Command line, then environment, then .env, then default. An empty value is that setting's "
    "default, and still wins over the sources below it."
)


class SettingsError(SotaqueError):
    """Every fault of the settings at once, a line each; `faults` holds them one by one."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n  ".join(("The settings cannot be used:", *faults)))


@settings_class(frozen=True, kw_only=True, config=CONFIG)
class SharedSettings:
    """What both programs read."""

    base_model: Annotated[Place, Means("demo, xtts_v2, or a folder in Coqui's layout")] = "demo"
    """The model to start from. demo is in the package; xtts_v2 is downloaded once, and needs
    COQUI_TOS_AGREED."""
    device: Annotated[
        str,
        StringConstraints(pattern=r"^(auto|cpu|cuda(:\d{1,3})?)$"),
        Means("auto, cpu, cuda or cuda:N", words=True),
    ] = "auto"
    """Where to compute. auto is the GPU where it works, else the CPU; the log has the reason."""
    speak_precision: Annotated[
        SpeakPrecision,
        Means("auto, fp32, bf16, int8 or int4", words=True),
    ] = "auto"
    """What speaking computes in. auto is on a CPU the fastest one without an audible difference, on
    a GPU bf16 where it has that; fp32 is exact; int8 and int4 are a CPU's, and int4 rounds."""
    guard: Switch = True
    """Judges how each utterance ended, and speaks again one that broke off, repeated itself, stood
    still or went on behind its end. off serves what comes."""
    output_dir: Folder = Path("train/output")
    """The run folder: checkpoints, samples, metrics. The API finds its voices there."""
    num_threads: AutoCount = None
    """CPU threads. auto is what the machine, or the container's limit, offers."""
    coqui_tos_agreed: Switch = False
    """Set it to 1 once you have read and accepted Coqui's licence of XTTS-v2 (CPML: non-commercial,
    model and outputs). Nothing of it is downloaded or loaded before."""
    xtts_v2_dir: Folder = Path("train/xtts_v2")
    """Where the files of xtts_v2 lie: 2.1 GB, downloaded once, or put there by hand."""
    xtts_v2_url: Annotated[Address | None, Means("an http or https address")] = None
    """Where to get them instead: the address under which a copy of them lies. They must be the
    same files."""
    hf_endpoint: Annotated[Address, Means("an http or https address")] = "https://huggingface.co"
    """The hub that they come from, or a mirror of it."""


@dataclass(frozen=True)
class SettingsReport:
    """What was read, and what a person should know without it being a fault.

    rows: name, value as a person would write it (a secret masked), and where that came from.
    """

    rows: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...] = ()

    def table(self) -> str:
        """The resolved settings, a line each."""
        return "\n".join(table(self.rows))


def load(
    kind: type[S],
    argv: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    dotenv_path: Path | None = Path(".env"),
) -> tuple[S, SettingsReport]:
    """The settings of one program and the report on them.

    argv: `--num-epochs 3 --tensorboard=off`. environ: None = this process's. dotenv_path: None =
    no file. Raises SettingsError with every fault of all three. `--help` prints and exits, as in
    argparse.
    """
    if "--help" in argv or "-h" in argv:
        print(help_text(kind))
        raise SystemExit(0)
    environ, locales = _without_locale(os.environ if environ is None else environ)
    ours = {name.upper(): info for name, info in fields(kind).items()}
    file = dotenv.read(dotenv_path, environ, ours) if dotenv_path else dotenv.DotEnv({})
    flags, faults = _flags(argv, ours)
    variables = {name: GivenSetting(value, "environment") for name, value in environ.items()}
    given = {
        name: one for name, one in {**file.given, **variables, **flags}.items() if name in ours
    }
    settings, value_faults = _validated(kind, ours, given)
    faults += [*file.faults, *_near_misses(file), *value_faults]
    if settings is None or faults:
        raise SettingsError(faults)
    rows = tuple(
        (name, shown(info, getattr(settings, name.lower())),
            given[name].source if name in given else "default")
        for name, info in ours.items()
    )  # fmt: skip
    return settings, SettingsReport(rows, (*file.notes, *_foreign(file, dotenv_path), *locales))


def help_text(kind: type[Any]) -> str:
    """The flags of one program, a line each: its own, then the shared ones."""
    settings = {
        f"{flag_of(name)} {shown(info, info.default)}".rstrip(): purpose(info).partition(". ")[0]
        for name, info in fields(kind).items()
    }
    width = max(map(len, settings))
    lines = [
        f"  {flag:{width}}  "
        + textwrap.shorten(text.rstrip("."), WIDTH - width - 4, placeholder=" …")
        for flag, text in settings.items()
    ]
    more = "What each may be, and more about it: docs/settings.md."
    return "\n".join(["Settings, each with its default:", "", *lines, "",
                      *wrapped(PRECEDENCE, ""), more])  # fmt: skip


def _without_locale(environ: Mapping[str, str]) -> tuple[Mapping[str, str], list[str]]:
    """GNU gettext has a LANGUAGE too, a list of locales such as pt_BR:pt:en: it is none of ours."""
    found = environ.get("LANGUAGE", "")
    if not {"_", ":"} & set(found):
        return environ, []
    kept = {name: value for name, value in environ.items() if name != "LANGUAGE"}
    return kept, [f"LANGUAGE={found} in the environment is the desktop's locale; it is not read."]


def _flags(
    argv: Sequence[str], ours: Mapping[str, FieldInfo]
) -> tuple[dict[str, GivenSetting], list[str]]:
    given: dict[str, GivenSetting] = {}
    faults: list[str] = []
    rest = list(argv)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        name = flag[2:].replace("-", "_").upper()
        if name not in ours or flag != flag_of(name):
            close = meant(name, ours) or [one for one in [equivalent(name)] if one in ours]
            misspelt = flag.startswith("-") and close
            hint = f"; did you mean {flag_of(close[0])}?" if misspelt else "; --help lists them."
            faults.append(f"{flag} is not a setting of this program{hint}")
            if flag.startswith("-") and not equals and rest and not rest[0].startswith("--"):
                rest.pop(0)  # its value, or it would be reported as a fault of its own
        elif not equals and (not rest or rest[0].startswith("--")):
            faults.append(f"{flag} has no value; allowed: {means(ours[name]).allowed}.")
        else:
            given[name] = GivenSetting(value if equals else rest.pop(0), "command line")
    return given, faults


def _near_misses(file: dotenv.DotEnv) -> list[str]:
    return [
        f"{one.source}: {name} is not a setting; did you mean {' or '.join(close)}?"
        + (f" ({other}.)" if (other := difference(name)) else "")
        for name, one in file.given.items()
        if name not in NAMES | RETIRED.keys() and (close := meant(name, NAMES))
    ]


def _foreign(file: dotenv.DotEnv, path: Path | None) -> list[str]:
    """Notes on names that are not ours: our name for each that has one, the others in one line."""
    others = sorted(set(file.given) - NAMES)
    named = {name: ours for name in others if (ours := equivalent(name))}
    notes = [
        f"{file.given[name].source}: {name} is not read; if it was meant for Sotaque, the setting "
        f"is {ours}" + (f" ({other})." if (other := difference(name)) else ".")
        for name, ours in named.items()
    ]
    notes += [
        f"{file.given[name].source}: {name} is not a setting any more; {RETIRED[name]}."
        for name in others
        if name in RETIRED
    ]
    rest = [name for name in others if name not in named and name not in RETIRED]
    return notes + ([f"{path}: not read by this program: {', '.join(rest)}."] if rest else [])


def _validated(
    kind: type[S], ours: Mapping[str, FieldInfo], given: Mapping[str, GivenSetting]
) -> tuple[S | None, list[str]]:
    values: dict[str, Any] = {}
    for name, one in given.items():
        text, rule = one.text.strip(), means(ours[name])
        if text == "":
            continue
        if rule.none and text.lower() == rule.none:
            values[name.lower()] = None
        else:
            values[name.lower()] = text.lower() if rule.words else text
    try:
        return kind(**values), []
    except ValidationError as error:
        # A union reports one error for each of its kinds: one sentence a setting is enough.
        named: dict[str, str] = {}
        for item in error.errors():
            if item["loc"]:
                name = str(item["loc"][0]).upper()
                named[name] = named.get(name) or _more(item)
        whole = [str(item["ctx"]["error"]) for item in error.errors() if not item["loc"]]
        return None, [
            _sentence(name, ours[name], given[name], more) for name, more in named.items()
        ] + whole


def _more(item: Mapping[str, Any]) -> str:
    """What `Means.allowed` leaves out, as a sentence: an upper limit, or a validator's reason."""
    found = item.get("ctx") or {}
    if item["type"] == "int_parsing_size":
        return "It may have at most 4,300 digits."
    if item["type"] == "value_error":
        return str(found["error"])
    for bound, words in (("lt", "below"), ("le", "at most")):
        if bound in found:
            return f"It must be {words} {found[bound]:,}."
    return ""


def _sentence(name: str, info: FieldInfo, given: GivenSetting, more: str) -> str:
    value = "********" if means(info).secret else repr(given.text)
    return f"{name} is {value} ({given.source}); allowed: {means(info).allowed}. {more}".rstrip()
