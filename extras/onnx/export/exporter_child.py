"""Runs an export in a child process: `python -m extras.onnx.export.exporter_child`."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from extras.onnx.folder import GPT_FILES
from machine import commands
from machine.errors import SotaqueError


def main(argv: Sequence[str] | None = None) -> int:
    """Exports; prints an error's message to stderr and returns its exit code."""
    parser = argparse.ArgumentParser(
        prog=commands.program("extras.onnx.export.exporter_child"), description=__doc__
    )
    parser.add_argument("folder", type=Path, help="the model's folder")
    parser.add_argument("to", type=Path)
    parser.add_argument("--kinds", nargs="+", choices=tuple(GPT_FILES), default=tuple(GPT_FILES))
    parser.add_argument("--checkpoint", type=Path, help="replaces the GPT")
    parser.add_argument("--decoder", type=Path, help="a vocoder trained for these weights")
    arguments = parser.parse_args(argv)
    try:
        from extras.onnx.export import exporter
        from xtts.voices.run_folder import normalizer_of, read_checkpoint, reference_beside
        from xtts.voices.voice_files import VoiceFiles

        if arguments.checkpoint is None:
            source = exporter.source_of_folder(arguments.folder)
        else:
            checkpoint = read_checkpoint(arguments.checkpoint)
            source = VoiceFiles(
                arguments.folder,
                arguments.checkpoint,
                reference_beside(arguments.checkpoint),
                None,
                checkpoint.model,
                normalizer_of(checkpoint.provenance),
            )
        exporter.export(replace(source, decoder=arguments.decoder), arguments.to, arguments.kinds)
    except SotaqueError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except ImportError as error:
        sys.stderr.write(f"The package {error.name} is missing: {commands.install_extra('onnx')}\n")
        return SotaqueError.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
