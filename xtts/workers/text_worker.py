"""Parent side of the text worker, with time limits.

What a text does there, whatever it is, becomes a TextError: the process that speaks goes on, and so
does everybody whom it speaks for.
"""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from machine.errors import SotaqueError
from xtts.text.errors import TextError
from xtts.text.tokenizer import Piece, TokenizerSpec
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
        self._process: subprocess.Popen[bytes] | None = None
        self._loaded: dict[TokenizerSpec, None] = {}

    @property
    def pid(self) -> int | None:
        """Of the process, where one runs."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Starts the process without waiting for it. The thread must live as long as it."""
        if self._process is None:
            self._process = subprocess.Popen(
                [*self._command, "--parent", str(os.getpid())],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip

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
        return [Piece("", ids, before, after) for ids, before, after in answer["pieces"]]

    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        self._loaded.clear()
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

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
        process = self._process
        assert process is not None and process.stdin is not None
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            answer: dict[str, Any] = json.loads(_line(process, limit_seconds))
        except (TimeoutError, EOFError):
            self.close()
            raise
        except (OSError, ValueError) as error:
            self.close()
            raise EOFError from error
        return answer


def _line(process: "subprocess.Popen[bytes]", limit_seconds: float) -> bytes:
    """The next line, which is all that the process says until it is asked again."""
    assert process.stdout is not None
    end, found = time.monotonic() + limit_seconds, bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not found.endswith(b"\n"):
            if not selector.select(max(0.0, end - time.monotonic())):
                raise TimeoutError
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise EOFError
            found += chunk
    return bytes(found)
