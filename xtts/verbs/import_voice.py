"""`python -m xtts import`: adds the voice of a `.sotaque` file to VOICES_DIR."""

import argparse
import json
import shlex
from pathlib import Path

from machine import commands
from xtts.voices.files.manifest import SUFFIX

SUMMARY = f"add the voice of a {SUFFIX} file to VOICES_DIR"
USAGE = "FILE "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help=f"a {SUFFIX} file, or the recording of a .voicebox or .ovsvoice file",
    )
    parser.add_argument(
        "--name", default="", help="the voice's name (default: as in the file); a taken one gets a number"
    )
    parser.add_argument("--replace", action="store_true", help="replace the imported voice of that name")
    parser.add_argument("--base", help="the folder of the voice's base model, if it has moved")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Imports the file and says how to speak with it. Raises SotaqueError."""
    from machine.settings.loading import load
    from xtts.voices.files import unpacking
    from xtts.voices.served_voice import ServedVoiceSettings

    settings, _ = load(ServedVoiceSettings)
    imported = unpacking.import_voice(
        arguments.file,
        settings.voices_dir,
        name=arguments.name,
        replaces=arguments.replace,
        base=arguments.base,
        xtts_v2=settings.xtts_v2_dir,
        tos_agreed=settings.coqui_tos_agreed,
    )
    if arguments.json:
        content = {"schema": 1, "exit_code": 0, "name": imported.name, "kind": imported.kind}
        print(json.dumps(content, indent=2, ensure_ascii=False))
        return 0
    print(f"Imported {arguments.file} as {imported.folder}: {imported.kind}, licence {imported.licence}.")
    if (consent := imported.consent) is not None:
        print(
            f"Consent, as its maker states it (nobody has verified it): {consent.who}, "
            f"{consent.when}: {consent.what}"
        )
    command = f'xtts speak --voice {shlex.quote(str(imported.folder))} --text "Good morning."'
    print(f"It speaks with:\n  {commands.program(command)}")
    print("A service with this VOICES_DIR lists it as a voice.")
    return 0
