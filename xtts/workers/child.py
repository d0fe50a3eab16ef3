"""The start, answers and exit of every child process that computes speech.

Messages arrive on stdin and answers leave on stdout, each a JSON object on its own line. An answer
with `bytes` is followed by that number of bytes of sound. No message can run code: no pickle.
    {say: ready}                              first
    {say: failed, reason_code, reason, …}     a refusal; the child continues
    {say: fault, reason_code, reason, fault}  last, if the device is unusable; exit 70
The end of stdin ends a child, and so does its parent's death (`machine.process.module_command`).
Other libraries' prints go to stderr.
"""

import argparse
import sys
import traceback
from collections.abc import Callable
from functools import partial

from machine.devices.recovery import GpuLost
from machine.errors import SotaqueError
from machine.memory import limit_onednn_cache
from machine.process import reserve_stdout, write_json_line
from machine.threads import limit_omp_spinning
from xtts.inference.compute_config import ComputeConfig
from xtts.workers.failures import answer_to_error, type_and_place

# Writes an answer and its sound.
Say = Callable[..., None]


def run(
    parser: argparse.ArgumentParser,
    serve: Callable[[argparse.Namespace, Say], None],
    *,
    quotes_texts: bool = False,
) -> int:
    """Serves until stdin is closed, and returns the exit code.

    Args:
        parser: The child's specific arguments; `--compute` is added.
        serve: Loads the models, says `ready`, and answers until stdin is closed.
        quotes_texts: Whether an unexpected error may quote a user's text; if so, stderr gets only
            its type and place.
    """
    ComputeConfig.add_argument(parser)
    arguments = parser.parse_args()
    limit_omp_spinning()
    limit_onednn_cache()
    say = partial(write_json_line, reserve_stdout())
    try:
        serve(arguments, say)
    except BrokenPipeError:  # the parent has gone
        return 0
    except Exception as error:
        answer = answer_to_error(error, arguments.compute.device)
        if answer is not None:
            say({"say": "fault", **answer})
            if isinstance(error, SotaqueError) and "fault" not in answer:
                return error.exit_code
            return GpuLost.exit_code
        if not quotes_texts:
            raise
        for frame in traceback.extract_tb(error.__traceback__):
            sys.stderr.write(f"  {frame.filename}:{frame.lineno} in {frame.name}\n")
        sys.stderr.write(type_and_place(error) + "\n")
        return 1
    return 0
