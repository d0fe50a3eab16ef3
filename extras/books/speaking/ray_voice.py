"""RayBookVoice: speaks the sentences of a book on Ray workers, one task per sentence.

On machines of one kind, the result does not depend on the number of workers. A worker opens the
voice once, and refuses to speak if its files differ from those of this process.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from extras.books.speaking.book_voice import BookVoice, SentenceRequest, SpokenSentence
from extras.common.steps import Steps
from machine.errors import SotaqueError
from xtts.inference.loaded_voice import LoadedVoice


@dataclass
class RayBookVoice(BookVoice):
    """A `BookVoice` on Ray.

    Attributes:
        workers: The steps that run tasks.
        open_voice: Opens the voice in any process.
    """

    workers: Steps
    open_voice: Callable[[], LoadedVoice]

    def speak(self, next_request: Callable[[], SentenceRequest | None]) -> Iterator[SpokenSentence]:
        """As `BookVoice.speak`. Also raises SotaqueError if the workers fail to speak a sentence."""
        results: deque[Callable[[], SpokenSentence]] = deque()
        while True:
            while len(results) <= self.workers.ahead and (request := next_request()) is not None:
                identities = (self.model_identity, self.speaker_identity(request.speaker))
                results.append(
                    self.workers.begin(
                        speak_sentence,
                        self.open_voice,
                        self.at_once,
                        identities,
                        request,
                        self.takes,
                        self.recogniser,
                    )
                )
            if not results:
                return
            yield results.popleft()()


# The voice that this worker has opened, at most one, by the identity of its model.
_opened_voices: dict[str, BookVoice] = {}


def speak_sentence(
    open_voice: Callable[[], LoadedVoice],
    at_once: int,
    identities: tuple[dict[str, object], str],
    request: SentenceRequest,
    takes: int = 1,
    recogniser: str = "auto",
) -> SpokenSentence:
    """Speaks a sentence in a worker.

    Args:
        identities: The identities of the model and of the speaker.
        takes, recogniser: As in `BookVoice`.

    Raises SotaqueError if the files of this machine differ.
    """
    name = repr(identities[0])
    if name not in _opened_voices:
        _opened_voices.clear()
        _opened_voices[name] = BookVoice(open_voice(), at_once, takes=takes, recogniser=recogniser)
    voice = _opened_voices[name]
    if (voice.model_identity, voice.speaker_identity(request.speaker)) != identities:
        raise SotaqueError(
            "A Ray worker has other files of this voice than the machine that started the run. "
            "Copy the voice to the same path on every machine."
        )
    requests = iter([request])
    (sentence,) = voice.speak(lambda: next(requests, None))
    return sentence
