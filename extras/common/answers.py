"""Asks a child process for one JSON answer, and words its failure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from machine import process
from machine.process import ProcessResult
from machine.text import last_line, printable

# Python's exit code for an exception that nothing caught; those of Sotaque are in docs/errors.md.
_UNCAUGHT_EXCEPTION = 1
_MAX_MESSAGE_CHARACTERS = 700


@dataclass(frozen=True)
class ChildReply(ProcessResult):
    """The result of a child.

    Attributes:
        answer: The JSON value that it returned; None if there is none, and `last_error` says why.
    """

    answer: Any = None


def ask_once(
    command: Sequence[str],
    limit_seconds: float,
    environ: Mapping[str, str] | None = None,
    *,
    request: object = None,
) -> ChildReply:
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
    stdin = b"" if request is None else json.dumps(request).encode()
    result = process.run_with_timeout(command, limit_seconds, environ, stdin=stdin)
    reply = ChildReply(**asdict(result))
    if reply.code != 0:
        fault = reply.fault or ("" if reply.last_error else f"exit status {reply.code}")
        return replace(reply, fault=fault)
    try:
        answer = json.loads(reply.out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        answer = None
    fault = "no JSON as its answer" if answer is None else ""
    return replace(reply, answer=answer, fault=fault)


def failure_message(code: int, stderr: str) -> str:
    """The message with which a child failed, in one line, at most its last 700 characters.

    A program of Sotaque prints a message, of one line or more, and exits with its code. Python
    prints a traceback for an exception that nothing caught, and its last line has the message.
    """
    stderr = printable(stderr)
    message = last_line(stderr) if code == _UNCAUGHT_EXCEPTION else " ".join(stderr.split())
    return message[-_MAX_MESSAGE_CHARACTERS:]
