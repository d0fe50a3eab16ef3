"""`python -m train export`: writes a checkpoint as a voice."""

import argparse
from pathlib import Path

from machine.errors import SotaqueError
from train.settings import TrainSettings
from xtts.voices.files.manifest import is_voice_file

SUMMARY = """save your voice to a folder or a file
--to DIR|FILE.sotaque [--checkpoint FILE] [--base DIR] [--force]
[--onnx [all|fp32|int8|int4] | --adapter]
[--no-reference] [--consent FILE]"""
PURPOSE = "Writes a checkpoint as a voice that you can copy elsewhere."
USAGE = "--to DIR|FILE.sotaque "
FOLDER = "DIR"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    add = parser.add_argument
    add(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="the checkpoint; for --onnx also an exported voice (default: the best)",
    )
    add("--to", type=Path, metavar="DIR|FILE.sotaque", help="the folder or the one file to write")
    add("--base", type=Path, metavar="DIR", help="the base model, if it has moved")
    add("--force", action="store_true", help="replace an earlier export")
    add(
        "--onnx",
        nargs="?",
        const="all",
        choices=("all", "fp32", "int8", "int4"),
        help="export ONNX models: all of them, or one precision",
    )
    add("--adapter", action="store_true", help="export what LORA_RANK learned, without the base model")
    add("--no-reference", action="store_true", help="in a .sotaque file, leave out the recording")
    add(
        "--consent",
        type=Path,
        metavar="FILE",
        help="in a .sotaque file, the person's consent: JSON with who, when, what",
    )


def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
    """As `train.export.run` or `train.voice_file_export.run`."""
    from train import export

    given = arguments
    asked = {"checkpoint": given.checkpoint, "to": given.to, "base": given.base, "force": given.force}
    if given.adapter and given.onnx is not None:
        raise SotaqueError(
            "--adapter and --onnx do not go together: ONNX models hold merged weights. Leave out one of them."
        )
    if is_voice_file(given.to):
        from train import voice_file_export

        if given.onnx is not None:
            raise SotaqueError("--onnx writes a folder. Name one with --to, not a .sotaque file.")
        return voice_file_export.run(
            settings,
            adapter=given.adapter,
            with_reference=not given.no_reference,
            consent=given.consent,
            **asked,
        )
    if given.no_reference or given.consent is not None:
        raise SotaqueError("--no-reference and --consent need a file: --to NAME.sotaque.")
    return export.run(settings, onnx=given.onnx, adapter=given.adapter, **asked)
