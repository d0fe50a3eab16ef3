"""`python -m train export`: writes a checkpoint as a voice."""

import argparse
from pathlib import Path

from machine.errors import SotaqueError
from train.settings import TrainSettings

SUMMARY = """save your voice to a folder
--to DIR [--checkpoint FILE] [--base DIR] [--force]
[--onnx [all|fp32|int8|int4] | --adapter]"""
PURPOSE = "Writes a checkpoint as a voice that you can copy elsewhere."
USAGE = "--to DIR "
FOLDER = "DIR"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    add = parser.add_argument
    add("--checkpoint", type=Path, metavar="FILE",
        help="the checkpoint; for --onnx also an exported voice (default: the best)")  # fmt: skip
    add("--to", type=Path, metavar="DIR", help="the folder to write")
    add("--base", type=Path, metavar="DIR", help="the base model, if it has moved")
    add("--force", action="store_true", help="replace the voice that DIR holds")
    add("--onnx", nargs="?", const="all", choices=("all", "fp32", "int8", "int4"),
        help="export ONNX models: all of them, or one precision")  # fmt: skip
    add("--adapter", action="store_true",
        help="export what LORA_RANK learned, without the base model")  # fmt: skip


def run(settings: TrainSettings, arguments: argparse.Namespace) -> int:
    """As `train.export.run`, or as `train.adapter_export.run` for an adapter."""
    from train import export

    given = arguments
    asked = {
        "checkpoint": given.checkpoint, "to": given.to, "base": given.base, "force": given.force
    }  # fmt: skip
    if given.adapter and given.onnx is not None:
        raise SotaqueError(
            "--adapter and --onnx do not go together: ONNX models hold merged weights. Leave out "
            "one of them."
        )
    if given.adapter:
        from train import adapter_export

        return adapter_export.run(settings, **asked)
    return export.run(settings, onnx=given.onnx, **asked)
