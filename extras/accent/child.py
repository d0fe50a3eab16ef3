"""Hears vowels in a separate process: a fault of pocketsphinx must not end a training.

Each line on stdin names a sound and its text, `{"sound": PATH, "text": TEXT}`: float32 samples at
16 kHz. Its answer is a line on stdout with the fields of `extras.accent.hearing.HeardVowels`, or
`{"vowels": null}`.
"""

import json
import sys
import weakref
from collections.abc import Callable
from dataclasses import asdict
from tempfile import NamedTemporaryFile

import numpy as np

from extras.accent.hearing import HeardVowels, Listener
from machine.errors import SotaqueError
from machine.process import JsonLineProcess, module_command, reserve_stdout, write_json_line
from machine.storage.files import JsonObject

_MAX_ANSWER_SECONDS = 60.0


class ListeningChild:
    """The parent's side. The child starts when it is needed, and ends with this object."""

    def __init__(self) -> None:
        self._child: JsonLineProcess | None = None
        self._end_child: Callable[[], object] = lambda: None

    def hear(self, samples: np.ndarray, text: str) -> HeardVowels | None:
        """As `Listener.hear`. Raises SotaqueError; the next sound gets a new process."""
        try:
            with NamedTemporaryFile() as sound:
                sound.write(samples.astype("<f4").tobytes())
                sound.flush()
                answer = self._ask({"sound": sound.name, "text": text})
        except (OSError, EOFError) as error:
            self._end_child()
            self._child = None
            raise SotaqueError("pocketsphinx failed: its process ended or hung.") from error
        if answer["vowels"] is None:
            return None
        likeness = tuple(np.array(values) for values in answer["likeness"])
        return HeardVowels(tuple(answer["vowels"]), tuple(answer["words"]), likeness)

    def _ask(self, message: dict[str, object]) -> JsonObject:
        if self._child is None:
            self._child = JsonLineProcess(module_command("extras.accent.child"))
            self._end_child = weakref.finalize(self, self._child.end)
        self._child.send(message)
        return self._child.receive(_MAX_ANSWER_SECONDS)


def main() -> None:
    """Answers until stdin is closed."""
    answers, listener = reserve_stdout(), Listener()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        heard = listener.hear(np.fromfile(request["sound"], "<f4"), request["text"])
        write_json_line(answers, _as_json(heard) if heard else {"vowels": None})


def _as_json(heard: HeardVowels) -> dict[str, object]:
    return asdict(heard) | {"likeness": [np.round(values, 5).tolist() for values in heard.likeness]}


if __name__ == "__main__":
    main()
