"""The text worker process: normalizes and tokenizes untrusted text.

Lines of JSON on stdin, one answer each on stdout:
    {"load": TOKENIZER}                               -> {"loaded": true}
    {"read": TEXT, "language": L, "tokenizer": TOKENIZER}
                                        -> {"pieces": [[[id, …], before, after, words], …]}
or {"refused": SENTENCE}. TOKENIZER is `TokenizerSpec.as_dict()`; before, after: seconds of silence
around a piece; words: [[word, first, last], …] as in `Piece`. A text may take
`CPU_SECONDS`; after more, the parent ends the process. Nothing of a text is ever printed.
"""

import json
import signal
import sys
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any, NoReturn

from machine.errors import SotaqueError
from machine.process import reserve_stdout, write_json_line
from xtts.text.tokenizer import Tokenizer, TokenizerSpec

# Five times what the slowest text of 4,096 characters takes (numbers of 24 digits). The processor's
# time, so that a busy machine refuses no text.
CPU_SECONDS = 1.5
TOO_LONG = (
    "This text takes too long to be read. Speak it in parts, and write what is not a plain "
    "sentence (tables, codes, long numbers) in words."
)


class _OutOfTime(BaseException):
    """No Exception: the normaliser suppresses those."""


def main() -> int:
    """Reads until stdin is closed."""
    signal.signal(signal.SIGVTALRM, _out_of_time)
    answers = reserve_stdout()
    known: dict[TokenizerSpec, Tokenizer] = {}
    for line in sys.stdin:
        write_json_line(answers, _answer(json.loads(line), known))
    return 0


def _answer(asked: Mapping[str, Any], known: dict[TokenizerSpec, Tokenizer]) -> dict[str, Any]:
    try:
        if "load" in asked:
            wanted = TokenizerSpec.from_dict(asked["load"])
            known[wanted] = _loaded(wanted)
            return {"loaded": True}
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
        try:
            wanted = TokenizerSpec.from_dict(asked["tokenizer"])
            if wanted not in known:
                known[wanted] = _loaded(wanted)
            pieces = known[wanted].split(asked["read"], asked["language"])
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except SotaqueError as error:
        return {"refused": str(error)}
    except _OutOfTime:
        return {"refused": TOO_LONG}
    except Exception as error:  # of reading: whatever it is, only this text is to suffer
        return {"refused": f"This text cannot be read ({type(error).__name__}). Write it simpler."}
    return {"pieces": [
        [piece.ids, piece.before, piece.after, list(map(astuple, piece.words))] for piece in pieces
    ]}  # fmt: skip


def _loaded(wanted: TokenizerSpec) -> Tokenizer:
    found = wanted.open()
    found.warm_up()
    return found


def _out_of_time(*_: object) -> NoReturn:
    raise _OutOfTime


if __name__ == "__main__":
    sys.exit(main())
