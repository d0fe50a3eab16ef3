"""The isolated worker process: loads a base model, speaks request after request.

The other side of `xtts.workers.file_worker`. Imports and frozen parts are loaded before the first
request; of a checkpoint only the learning part is read.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, BinaryIO

from pydantic import TypeAdapter

from machine.devices.cuda_errors import GpuLost, exit_after_fault
from machine.errors import SotaqueError
from machine.memory import limit_onednn_cache
from machine.process import reserve_stdout, write_json_line
from machine.storage.hashes import HashedFile, trust_cached_hash
from machine.threads import set_omp_passive
from xtts.inference.compute_config import ComputeConfig
from xtts.workers.failures import answer_of
from xtts.workers.file_synthesis import FileSpeaker
from xtts.workers.requests import request_types


def main(new_speaker: Callable[[argparse.Namespace], FileSpeaker] | None = None) -> int:
    """Speaks until stdin is closed; exit 2 when the base model cannot be loaded, 70 after a fault
    of the device."""
    parser = argparse.ArgumentParser(description="Speaks for a trainer; not for people.")
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--keep-weights", action="store_true")
    ComputeConfig.add_argument(parser)
    arguments = parser.parse_args()
    set_omp_passive()
    limit_onednn_cache()
    os.nice(arguments.nice)
    answers = reserve_stdout()
    try:
        speaker = (new_speaker or _speaker)(arguments)
    except Exception as error:
        answer = answer_of(error, arguments.compute.device)
        if answer is None:
            raise
        write_json_line(answers, answer)
        return error.exit_code if isinstance(error, SotaqueError) else GpuLost.exit_code
    write_json_line(answers, {"ok": True})
    return serve(speaker, sys.stdin, answers, arguments.compute.device)


def serve(speaker: FileSpeaker, requests: IO[str], answers: BinaryIO, device: str) -> int:
    """One answer per request, and before it how far it is. A refusal is an answer; a fault of the
    device is the last one: the next process has a context of its own. Any other error ends the
    process."""

    def progress(done: float) -> None:
        write_json_line(answers, {"done": done})

    for line in requests:
        asked = json.loads(line)
        if told := asked["hashed"]:
            trust_cached_hash(Path(asked["request"]["weights"]), HashedFile(**told))
        try:
            kind = request_types()[asked["asked"]]
            request = TypeAdapter(kind).validate_python(asked["request"])
            answer = {"ok": True, **asdict(speaker.ask(request, progress))}
        except Exception as error:
            told = answer_of(error, device)
            if told is None:
                raise
            answer = told
        write_json_line(answers, answer)
        if "fault" in answer:
            return GpuLost.exit_code
    return 0


def _speaker(arguments: argparse.Namespace) -> FileSpeaker:
    arguments.compute.apply()
    return FileSpeaker(arguments.base, arguments.compute, keep_weights=arguments.keep_weights)


if __name__ == "__main__":
    exit_after_fault(main())
