"""Normalizes and tokenizes untrusted text in a separate process with time limits.

A harmful text ends only its own request: the speaking process and all other requests continue. A
text is blamed only if it was the cause, since the system may also end a process. This check, and a
child that loads no model, distinguish it from `xtts.workers.file_worker`.

A thread would be simpler: none of 3,400 adversarial texts of 4,096 characters in 17 languages took
more than 0.6 s. But reading is Python that holds the GIL, so concurrent decode steps took seven
times as long, and a thread can be neither limited nor ended.

Lines of JSON on the child's stdin, one answer each on stdout:
    {"load": TOKENIZER}                               -> {"loaded": true}
    {"read": TEXT, "language": L, "plain": false, "tokenizer": TOKENIZER}
                                        -> {"pieces": [[[id, …], before, after, words, voice], …]}
or {"refused": SENTENCE}. TOKENIZER is `TokenizerSpec.as_dict()`; before, after: seconds of silence
around a piece; words: [[word, first, last], …] and voice as in `Piece`. A text that takes more than
`CPU_SECONDS` is refused; if the process does not answer at all, the parent ends it. No part of a
text is ever printed.
"""

import json
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any, NoReturn

from machine.errors import SotaqueError
from machine.process import JsonLineProcess, module_command, reserve_stdout, write_json_line
from xtts.text.errors import TextError
from xtts.text.tokenizer import Piece, Tokenizer, TokenizerSpec, WordSpan
from xtts.workers.failures import WorkerFailed, ending

# Five times the slowest text of 4,096 characters (numbers of 24 digits). CPU time, so that a busy
# machine refuses no text.
CPU_SECONDS = 1.5
TOO_LONG = (
    "This text takes too long to read. Split it into parts, and write anything that is not a plain "
    "sentence (tables, codes, long numbers) in words."
)
# The parent's wall-clock limit, for native code, which the child's limit cannot stop.
LIMIT_SECONDS = 5.0
# The limit for imports and a dictionary, on a machine that starts everything at once.
START_SECONDS = 120.0
# Signals from outside: out of memory, a user, or a container that stops.
_SENT_SIGNALS = tuple(
    -one for one in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
)
_EXIT_SECONDS = 1.0


class _ProcessEnded(Exception):
    """The process hung or ended before it answered, and is closed.

    Attributes:
        by_itself: Whether it ended by itself, not by a signal from outside.
        at_work: Whether it hung after computing for longer than the limit for a text.
    """

    def __init__(self, how: str, *, by_itself: bool = False, at_work: bool = False) -> None:
        super().__init__(how)
        self.by_itself = by_itself
        self.at_work = at_work


class TextWorker:
    """One process, restarted after its end. Used by one thread at a time."""

    def __init__(
        self, command: Sequence[str] = (), *, limit_seconds: float = LIMIT_SECONDS
    ) -> None:
        self._command = command or module_command("xtts.workers.text_worker")
        self._limit_seconds = limit_seconds
        self._process: JsonLineProcess | None = None
        # The message that identifies each tokenizer to the child.
        self._loaded: dict[TokenizerSpec, dict[str, Any]] = {}

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
        self._loaded.pop(tokenizer, None)
        self._load(tokenizer)

    def read(
        self, tokenizer: TokenizerSpec, text: str, language: str, *, plain: bool = False
    ) -> list[Piece]:
        """The pieces of `text`, as `Tokenizer.split`, without their texts.

        Raises:
            TextError: The text cannot be read, or two fresh processes in a row crashed at it.
            WorkerFailed: The process was killed, hung or crashed, and so did a fresh one.
        """
        message = {"read": text, "language": language, "plain": plain}
        answer = self._answered(tokenizer, message)
        if "refused" in answer:
            raise TextError(answer["refused"])
        return [
            Piece("", ids, before, after, tuple(WordSpan(*word) for word in words), voice)
            for ids, before, after, words, voice in answer["pieces"]
        ]

    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        self._loaded.clear()
        if process is not None:
            process.end()

    def _answered(self, tokenizer: TokenizerSpec, message: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the running process, or else of a fresh one; if the text may be to blame,
        of a second fresh one. Raises as `read`."""
        hows, fresh_ends = list[str](), list[_ProcessEnded]()
        while True:
            fresh = self._process is None
            if fresh or tokenizer not in self._loaded:
                self._load(tokenizer)
            try:
                known = {"tokenizer": self._loaded[tokenizer]}
                return self._ask({**message, **known}, self._limit_seconds)
            except _ProcessEnded as end:
                if end.at_work:
                    raise TextError(TOO_LONG) from None
                hows.append(str(end))
                fresh_ends += [end] if fresh else []
            if not all(end.by_itself for end in fresh_ends):
                how = ", then it ".join(hows)
                twice = " twice in a row" if len(hows) > 1 else ""
                raise WorkerFailed(
                    "text_process",
                    f"The process that reads texts failed{twice}: it {how}. This text was "
                    "not read; send it again.",
                )
            if len(fresh_ends) == 2:
                raise TextError(
                    "Two new processes failed while reading this text; the last one "
                    f"{hows[-1]}. Simplify the text, or split it into parts."
                )

    def _load(self, tokenizer: TokenizerSpec) -> None:
        fresh, known = self._process is None, tokenizer.as_dict()
        message = {"load": known}
        try:
            try:
                answer = self._ask(message, START_SECONDS)
            except _ProcessEnded:
                if fresh:
                    raise
                answer = self._ask(message, START_SECONDS)  # by a new process
        except _ProcessEnded as end:
            raise WorkerFailed(
                "text_process",
                f"The process that reads texts does not start: it {end}. Run "
                "`python -c 'import xtts.workers.text_worker'` to see why.",
            ) from end
        if "refused" in answer:
            raise SotaqueError(answer["refused"])
        self._loaded[tokenizer] = known

    def _ask(self, message: Mapping[str, Any], limit_seconds: float) -> dict[str, Any]:
        """The answer to a message. Raises _ProcessEnded after closing the process."""
        self.start()
        process = self._process
        assert process is not None
        before = process.user_seconds
        try:
            process.send(message)
            return process.receive(limit_seconds)
        except TimeoutError:
            at_work = process.user_seconds - before > CPU_SECONDS
            ended = _ProcessEnded(f"did not answer within {limit_seconds:g} s", at_work=at_work)
        except EOFError:
            code = process.wait(_EXIT_SECONDS)
            how = "wrote an invalid answer" if code is None else ending(code)
            ended = _ProcessEnded(how, by_itself=code not in _SENT_SIGNALS)
        self.close()
        raise ended


# --- the child's side


class _OutOfTime(BaseException):
    """Not an Exception, because the normaliser suppresses those."""


def main() -> int:
    """Reads until stdin is closed."""
    signal.signal(signal.SIGVTALRM, _out_of_time)
    answers = reserve_stdout()
    known: dict[TokenizerSpec, Tokenizer] = {}
    for line in sys.stdin:
        write_json_line(answers, _answer(json.loads(line), known))
    return 0


def _answer(message: Mapping[str, Any], known: dict[TokenizerSpec, Tokenizer]) -> dict[str, Any]:
    try:
        if "load" in message:
            wanted = TokenizerSpec.from_dict(message["load"])
            known[wanted] = _loaded(wanted)
            return {"loaded": True}
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
        try:
            wanted = TokenizerSpec.from_dict(message["tokenizer"])
            if wanted not in known:
                known[wanted] = _loaded(wanted)
            pieces = known[wanted].split(
                message["read"], message["language"], plain=message["plain"]
            )
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except SotaqueError as error:
        return {"refused": str(error)}
    except _OutOfTime:
        return {"refused": TOO_LONG}
    except Exception as error:  # an unexpected error must refuse only this text
        return {"refused": f"This text cannot be read ({type(error).__name__}). Simplify it."}
    return {"pieces": [
        [piece.ids, piece.before, piece.after, list(map(astuple, piece.words)), piece.voice]
        for piece in pieces
    ]}  # fmt: skip


def _loaded(wanted: TokenizerSpec) -> Tokenizer:
    tokenizer = wanted.open()
    tokenizer.warm_up()
    return tokenizer


def _out_of_time(*_: object) -> NoReturn:
    raise _OutOfTime


if __name__ == "__main__":
    sys.exit(main())
