"""The child process that reads a book for the service, like `xtts read`, with the served voice."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from extras.books import order, production
from machine import commands
from machine.errors import SotaqueError
from machine.memory import limit_onednn_cache
from machine.threads import limit_omp_spinning
from xtts.inference.compute_config import ComputeConfig
from xtts.text.languages import tag_of

if TYPE_CHECKING:
    from xtts.inference.loaded_voice import LoadedVoice


def main(argv: Sequence[str] | None = None) -> int:
    """Takes the arguments of `xtts read`, but with `--spec` and `--compute` as JSON for the
    voice."""
    limit_omp_spinning()
    limit_onednn_cache()
    parser = argparse.ArgumentParser(prog=commands.program("extras.books.book_child"))
    parser.add_argument("--spec", type=json.loads, required=True)
    parser.add_argument("--language", default="", type=tag_of)
    parser.add_argument("--seed", type=int, default=0)
    ComputeConfig.add_argument(parser)
    order.add_arguments(parser)
    parser.add_argument("--called", default="", help="the name of the uploaded file")
    arguments = parser.parse_args(argv)

    def open_voice() -> "LoadedVoice":
        from xtts.voices.loading import load_voice
        from xtts.voices.voice_files import VoiceSpec

        spec = arguments.spec
        reference = Path(spec["reference"]) if spec.get("reference") else None
        return load_voice(VoiceSpec(**{**spec, "reference": reference}), arguments.compute)

    try:
        return production.run(arguments, open_voice, typed=False)
    except SotaqueError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
