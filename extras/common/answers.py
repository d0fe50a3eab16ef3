"""What a child process says: its one answer, or the words with which it failed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from machine import process
from machine.process import ProcessResult
from machine.text import last_line, printable

# Python's exit code for an exception that nothing caught; those of Sotaque are in docs/errors.md.
_UNCAUGHT = 1
_LONGEST_MESSAGE = 700


@dataclass(frozen=True)
class Answer(ProcessResult):
    """answer: the JSON value that the child returned; None if there was none, and `last_error` says
    why."""

    answer: Any = None


def ask_once(
    command: Sequence[str],
    limit_seconds: float,
    environ: Mapping[str, str] | None = None,
    *,
    request: object = None,
) -> Answer:
    """Runs a child that returns one answer; never raises, never waits past the limit.

    The child reads its request with `json.load(sys.stdin)`. It calls `reserve_stdout` before it
    imports anything that may print, and returns its answer with `write_json_line`:

        reply = ask_once(module_command("package.child"), 90.0, request={"device": "cuda:0"})
        if reply.answer is None:
            raise SomethingFailed(f"The device could not be measured: {reply.last_error}.")

    Args:
        command: The child's command.
        limit_seconds: Its time limit.
        environ: Its environment; None is this process's.
        request: A JSON value for the child's stdin; None leaves stdin empty.

    Returns:
        The result. Its `answer` is the last line of stdout, parsed as JSON, if the child ended with
        status 0. Without an answer, `last_error` is never empty: the child hung, could not be
        started, was ended by a signal, failed with a message, or wrote no JSON.
    """
    given = b"" if request is None else json.dumps(request).encode()
    result = Answer(**vars(process.run_with_timeout(command, limit_seconds, environ, given=given)))
    if result.code != 0:
        fault = result.fault or ("" if result.last_error else f"exit status {result.code}")
        return replace(result, fault=fault)
    try:
        answer = json.loads(result.out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        answer = None
    fault = "no JSON as its answer" if answer is None else ""
    return replace(result, answer=answer, fault=fault)


def error_words(code: int, stderr: str) -> str:
    """The words with which a child failed, in one line, at most their last 700 characters.

    A program of Sotaque prints a message, of one line or more, and exits with its code. Python
    prints a traceback for an exception that nothing caught, and its last line has the message.
    """
    stderr = printable(stderr)
    words = last_line(stderr) if code == _UNCAUGHT else " ".join(stderr.split())
    return words[-_LONGEST_MESSAGE:]
