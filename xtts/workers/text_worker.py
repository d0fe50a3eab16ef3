"""Parent side of the text worker, with time limits.

What a text does there, whatever it is, becomes a TextError: the process that speaks goes on, and so
does every request that it serves.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from machine.errors import SotaqueError
from machine.process import JsonLineProcess
from xtts.text.errors import TextError
from xtts.text.tokenizer import Piece, TokenizerSpec, WordSpan
from xtts.workers.text_worker_main import TOO_LONG

COMMAND = (sys.executable, "-m", "xtts.workers.text_worker_main")
# Behind the child's own limit, in seconds of the clock: native code obeys no other.
LIMIT_SECONDS = 5.0
# Imports and a dictionary, on a machine that starts everything at once.
START_SECONDS = 120.0


class TextWorker:
    """One process, started again after its end; used by one thread at a time."""

    def __init__(
        self, command: Sequence[str] = COMMAND, *, limit_seconds: float = LIMIT_SECONDS
    ) -> None:
        self._command = command
        self._limit_seconds = limit_seconds
        self._process: JsonLineProcess | None = None
        self._loaded: dict[TokenizerSpec, None] = {}

    @property
    def pid(self) -> int | None:
        """Of the process, where one runs."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Starts the process without waiting for it. The thread must live as long as it."""
        if self._process is None:
            self._process = JsonLineProcess((*self._command, "--parent", str(os.getpid())))

    def open(self, tokenizer: TokenizerSpec) -> None:
        """Has a tokenizer loaded, anew if it was. Raises SotaqueError."""
        self._loaded.pop(tokenizer, None)
        self._load(tokenizer)

    def read(self, tokenizer: TokenizerSpec, text: str, language: str) -> list[Piece]:
        """The pieces of `text`, as `Tokenizer.split`, without their texts. Raises TextError."""
        if self._process is None or tokenizer not in self._loaded:
            self._load(tokenizer)
        asked = {"read": text, "language": language, "tokenizer": tokenizer.as_dict()}
        try:
            answer = self._ask(asked, self._limit_seconds)
        except TimeoutError:
            raise TextError(TOO_LONG) from None
        except EOFError:
            raise TextError(
                "This text ended the process that reads texts. Write it simpler."
            ) from None
        if "refused" in answer:
            raise TextError(answer["refused"])
        return [
            Piece("", ids, before, after, tuple(WordSpan(*word) for word in words))
            for ids, before, after, words in answer["pieces"]
        ]

    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        self._loaded.clear()
        if process is not None:
            process.end()

    def _load(self, tokenizer: TokenizerSpec) -> None:
        try:
            answer = self._ask({"load": tokenizer.as_dict()}, START_SECONDS)
        except (TimeoutError, EOFError) as error:
            raise SotaqueError(
                "The process that reads texts does not start. Try "
                "`python -c 'import xtts.workers.text_worker_main'`, which says why."
            ) from error
        if "refused" in answer:
            raise SotaqueError(answer["refused"])
        self._loaded[tokenizer] = None

    def _ask(self, message: Mapping[str, Any], limit_seconds: float) -> dict[str, Any]:
        """Raises TimeoutError and EOFError, after which the process is gone."""
        self.start()
        assert self._process is not None
        try:
            self._process.send(message)
            return self._process.receive(limit_seconds)
        except (TimeoutError, EOFError):
            self.close()
            raise
