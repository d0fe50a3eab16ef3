"""Readings from the programs of this machine: which exist, the kernel's log, refused settings."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from extras.common.answers import ask_once
from extras.common.readings.snapshot import ReadingFailed
from machine.process import run_with_timeout

PROGRAMS = (
    "ffmpeg",
    "nvidia-smi",
    "prime-select",
    "envycontrol",
    "supergfxctl",
    "optimus-manager",
    "docker",
    "nvidia-ctk",
    "nvidia-container-runtime",
    "nvidia-container-cli",
    "dmesg",
    "journalctl",
)
_MAX_SETTINGS_SECONDS = 60.0
_MAX_LOG_SECONDS = 8.0


def on_path(variables: Mapping[str, str]) -> dict[str, str]:
    """The paths of the programs that the checks use."""
    search_path = variables.get("PATH", "")
    paths = {name: shutil.which(name, path=search_path) for name in PROGRAMS}
    return {name: path for name, path in paths.items() if path}


def kernel_log(programs: Mapping[str, str]) -> tuple[str, ...]:
    """The lines of the kernel log about a card's fault; none if the log is not readable."""
    commands = (("dmesg",), ("journalctl", "-k", "-b", "-q", "--no-pager", "-n", "5000"))
    for name, *options in commands:
        if name in programs:
            result = run_with_timeout((programs[name], *options), _MAX_LOG_SECONDS)
            if result.code == 0:
                return tuple(line for line in result.out.splitlines() if "NVRM: Xid" in line)
    return ()


def refused_settings(
    preflights: Mapping[str, Sequence[str]], environ: Mapping[str, str], dotenv: Path
) -> tuple[tuple[str, str], ...]:
    """The settings that each program refuses, as (program, sentence); each program checks its own
    settings in a child.

    Args:
        preflights: Program name -> the command that prints its refusals as a JSON list; `dotenv` is
            appended.
        environ: The child's environment.
        dotenv: The path of `.env`.
    """
    refusals: list[tuple[str, str]] = []
    for program, command in preflights.items():
        reply = ask_once((*command, str(dotenv)), _MAX_SETTINGS_SECONDS, environ)
        if reply.answer is None:
            raise ReadingFailed(f"the settings of {program}: {reply.last_error}")
        refusals += [(program, sentence) for sentence in reply.answer]
    return tuple(refusals)
