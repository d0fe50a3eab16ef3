"""RayBookVoice: speaks the sentences of a book on Ray workers, one task per sentence.

On machines of one kind, the result does not depend on the number of workers. A worker opens the
voice once, and refuses to speak if its files differ from those of this process.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from extras.books.speaking.book_voice import Ask, BookVoice, Said
from extras.common.steps import Steps
from machine.errors import SotaqueError
from xtts.inference.loaded_voice import LoadedVoice


@dataclass
class RayBookVoice(BookVoice):
    """A `BookVoice` on Ray. workers: the steps that run tasks; opened: opens the voice in any
    process."""

    workers: Steps
    opened: Callable[[], LoadedVoice]

    def say(self, next_ask: Callable[[], Ask | None]) -> Iterator[Said]:
        """As `BookVoice.say`. Also raises SotaqueError if the workers fail to speak a sentence."""
        speeches: deque[Callable[[], Said]] = deque()
        while True:
            while len(speeches) <= self.workers.ahead and (ask := next_ask()) is not None:
                identities = (self.model_identity, self.speaker_identity(ask.speaker))
                speeches.append(
                    self.workers.begin(
                        say_one, self.opened, self.at_once, identities, ask, self.takes, self.recogniser
                    )
                )
            if not speeches:
                return
            yield speeches.popleft()()


# The voice that this worker has opened, at most one, by the identity of its model.
_held: dict[str, BookVoice] = {}


def say_one(
    opened: Callable[[], LoadedVoice],
    at_once: int,
    identities: tuple[dict[str, object], str],
    ask: Ask,
    takes: int = 1,
    recogniser: str = "auto",
) -> Said:
    """Speaks a sentence in a worker. identities: the identities of the model and of the speaker; takes,
    recogniser: as in `BookVoice`.

    Raises SotaqueError if the files of this machine differ.
    """
    name = repr(identities[0])
    if name not in _held:
        _held.clear()
        _held[name] = BookVoice(opened(), at_once, takes=takes, recogniser=recogniser)
    voice = _held[name]
    if (voice.model_identity, voice.speaker_identity(ask.speaker)) != identities:
        raise SotaqueError(
            "A Ray worker has other files of this voice than the machine that started the run. "
            "Copy the voice to the same path on every machine."
        )
    asks = iter([ask])
    (speech,) = voice.say(lambda: next(asks, None))
    return speech
