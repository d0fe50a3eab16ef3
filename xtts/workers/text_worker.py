"""Normalizes and tokenizes untrusted text in a separate process with time limits.

A harmful text ends only its own request: the speaking process and all other requests continue. A
text is blamed only for crashes, since the system may also kill a process.

A thread would be simpler: none of 3,400 adversarial texts of 4,096 characters in 17 languages took
more than 0.6 s. But reading is Python that holds the GIL, so concurrent decode steps took seven
times as long, and a thread can be neither limited nor ended.

Lines of JSON on the child's stdin, one answer each on stdout:
    {"load": TOKENIZER}                               -> {"loaded": true}
    {"read": TEXT, "language": L, "plain": false, "tokenizer": TOKENIZER}
                                        -> {"pieces": [[[id, …], before, after, words, voice], …]}
or {"refused": SENTENCE}. TOKENIZER is a `TokenizerSpec`; before, after: seconds of silence
around a piece; words: [[word, first, last], …] and voice as in `Piece`. A text that takes more than
`MAX_CPU_SECONDS` is refused; if the process does not answer at all, the parent ends it. No part of a
text is ever printed.
"""

import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import astuple
from typing import NoReturn

from pydantic import TypeAdapter

from machine.errors import SotaqueError
from machine.process import JsonLineProcess, module_command, reserve_stdout, write_json_line
from machine.storage.files import JsonObject
from xtts.text.errors import TextError
from xtts.text.tokenizer import Piece, Tokenizer, TokenizerSpec
from xtts.text.written_words import WordSpan
from xtts.workers.failures import WorkerFailed, failure_from_exit

# Five times the slowest text of 4,096 characters (numbers of 24 digits). CPU time, so that a busy
# machine refuses no text.
MAX_CPU_SECONDS = 1.5
TOO_LONG = (
    "This text takes too long to read. Split it into parts, and write anything that is not a plain "
    "sentence (tables, codes, long numbers) in words."
)
# The parent's wall-clock limit, for native code, which the child's limit cannot stop.
MAX_READ_SECONDS = 5.0
# The limit for imports and a dictionary, on a machine that starts everything at once.
MAX_START_SECONDS = 120.0
_MAX_EXIT_SECONDS = 1.0
_SPEC_ADAPTER = TypeAdapter(TokenizerSpec)


class TextWorker:
    """The parent's side of one process, which is restarted after its end. Not thread-safe."""

    def __init__(self, command: Sequence[str] = (), *, max_seconds: float = MAX_READ_SECONDS) -> None:
        self._command = command or module_command("xtts.workers.text_worker")
        self._max_seconds = max_seconds
        self._process: JsonLineProcess | None = None
        self._loaded_tokenizers: set[TokenizerSpec] = set()

    @property
    def pid(self) -> int | None:
        """The process id, or None without a process."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Starts the process without waiting for it. The calling thread must outlive it."""
        if self._process is None:
            self._process = JsonLineProcess(self._command)

    def open(self, tokenizer: TokenizerSpec) -> None:
        """Loads or reloads a tokenizer. Raises SotaqueError."""
        try:
            message = {"load": _SPEC_ADAPTER.dump_python(tokenizer, mode="json")}
            answer = self._ask_twice(message, tokenizer, MAX_START_SECONDS)
        except WorkerFailed as failed:
            raise WorkerFailed(
                "text_process",
                f"The process that reads texts does not start. {failed} Run "
                "`python -c 'import xtts.workers.text_worker'` to see why.",
            ) from failed
        if "refused" in answer:
            raise SotaqueError(answer["refused"])
        self._loaded_tokenizers.add(tokenizer)

    def read(self, tokenizer: TokenizerSpec, text: str, language: str, *, plain: bool = False) -> list[Piece]:
        """The pieces of `text`, as `Tokenizer.split`, without their texts.

        Raises:
            TextError: The text cannot be read, or two processes in a row crashed at it.
            WorkerFailed: The process was killed or hung, and so did a new one.
        """
        message = {
            "read": text,
            "language": language,
            "plain": plain,
            "tokenizer": _SPEC_ADAPTER.dump_python(tokenizer, mode="json"),
        }
        try:
            answer = self._ask_twice(message, tokenizer, self._max_seconds)
        except WorkerFailed as failed:
            if failed.reason_code == "crashed":
                raise TextError(
                    f"Two processes crashed at this text. {failed} Simplify the text, or split it into parts."
                ) from failed
            raise WorkerFailed(
                "text_process",
                f"The process that reads texts failed twice in a row. {failed} This text was not "
                "read; send it again.",
            ) from failed
        if "refused" in answer:
            raise TextError(answer["refused"])
        return [
            Piece("", ids, before, after, tuple(WordSpan(*word) for word in words), voice)
            for ids, before, after, words, voice in answer["pieces"]
        ]

    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        self._loaded_tokenizers.clear()
        if process is not None:
            process.end()

    def _ask_twice(self, message: JsonObject, tokenizer: TokenizerSpec, max_seconds: float) -> JsonObject:
        """The answer of the running process, or else of a new one. Raises as `_ask`."""
        try:
            return self._ask(message, tokenizer, max_seconds)
        except WorkerFailed as first_failure:
            try:
                return self._ask(message, tokenizer, max_seconds)
            except WorkerFailed as second_failure:
                # Both must have crashed before a text is blamed.
                crashed = second_failure.reason_code == "crashed"
                raise (first_failure if crashed else second_failure) from None

    def _ask(self, message: JsonObject, tokenizer: TokenizerSpec, max_seconds: float) -> JsonObject:
        """The answer to a message. Raises WorkerFailed after closing the process, and TextError if
        it was busy with a text for longer than the limit."""
        if "read" in message and tokenizer not in self._loaded_tokenizers:
            self.open(tokenizer)
        self.start()
        process = self._process
        assert process is not None
        cpu_seconds_before = process.user_seconds
        try:
            process.send(message)
            return process.receive(max_seconds)
        except TimeoutError:
            failure: SotaqueError = WorkerFailed("hang", f"It did not answer within {max_seconds:g} s.")
            if "read" in message and process.user_seconds - cpu_seconds_before > MAX_CPU_SECONDS:
                failure = TextError(TOO_LONG)
        except EOFError:
            failure = failure_from_exit(process.wait(_MAX_EXIT_SECONDS) or 0, "")
        self.close()
        raise failure


# --- the child's side


class _OutOfTime(BaseException):
    """Reading took too long. No Exception, because the normaliser suppresses those."""


def main() -> int:
    """Reads until stdin is closed."""
    signal.signal(signal.SIGVTALRM, _raise_out_of_time)
    answers = reserve_stdout()
    tokenizers: dict[TokenizerSpec, Tokenizer] = {}
    for line in sys.stdin:
        write_json_line(answers, _answer(json.loads(line), tokenizers))
    return 0


def _answer(message: JsonObject, tokenizers: dict[TokenizerSpec, Tokenizer]) -> JsonObject:
    try:
        if "load" in message:
            spec = _SPEC_ADAPTER.validate_python(message["load"])
            tokenizers[spec] = spec.open()
            tokenizers[spec].warm_up()
            return {"loaded": True}
        tokenizer = tokenizers[_SPEC_ADAPTER.validate_python(message["tokenizer"])]
        signal.setitimer(signal.ITIMER_VIRTUAL, MAX_CPU_SECONDS)
        try:
            pieces = tokenizer.split(message["read"], message["language"], plain=message["plain"])
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except SotaqueError as error:
        return {"refused": str(error)}
    except _OutOfTime:
        return {"refused": TOO_LONG}
    except Exception as error:  # an unexpected error must refuse only this text
        return {"refused": f"This text cannot be read ({type(error).__name__}). Simplify it."}
    return {
        "pieces": [
            [piece.ids, piece.before, piece.after, list(map(astuple, piece.words)), piece.voice]
            for piece in pieces
        ]
    }


def _raise_out_of_time(*_: object) -> NoReturn:
    raise _OutOfTime


if __name__ == "__main__":
    sys.exit(main())
