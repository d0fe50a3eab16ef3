"""A recogniser that listens behind whoever speaks: a group of sentences is heard while the next one
is spoken, and the last one while words are judged.

Importing this module imports no torch.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from xtts.evaluation.recogniser import Recogniser
    from xtts.text.tokenizer import Tokenizer
    from xtts.workers.file_evaluation import SentenceTask, SpokenFacts


class BackgroundHearing:
    """What a recogniser heard of the sentences of a request.

    A context: leaving it waits for what is being heard. Without a recogniser it hears nothing.
    """

    def __init__(self, recogniser: "Recogniser | None", tokenizer: "Tokenizer") -> None:
        self._recogniser = recogniser
        self._tokenizer = tokenizer
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="hearing")
        # Of each group: which sentences are listened to, and what is heard of them.
        self._groups: list[tuple[list[int], Future[list[str]]]] = []
        self._tasks: list[SentenceTask] = []

    def __enter__(self) -> "BackgroundHearing":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def begin(
        self,
        tasks: Sequence["SentenceTask"],
        sounds: Sequence["Tensor | None"],
        facts: Sequence["SpokenFacts"],
    ) -> None:
        """Listens to the next group, where it has a sound, and ended: what did not end is counted
        apart, and is the longest."""
        first, self._tasks = len(self._tasks), [*self._tasks, *tasks]
        if self._recogniser is None:
            return
        from xtts import audio
        from xtts.evaluation.recogniser import RATE

        asked = {
            first + number: audio.resample(sound.cpu().float(), audio.VOCODER_RATE, RATE).numpy()
            for number, (sound, one) in enumerate(zip(sounds, facts, strict=True))
            if sound is not None and one.finished
        }
        heard = self._pool.submit(self._recogniser.hear, list(asked.values()))
        self._groups.append((list(asked), heard))

    def catch_up(self) -> None:
        """Waits until at most the last group is still being heard: time counts that is behind."""
        for _, heard in self._groups[:-1]:
            heard.result()

    def told(self, facts: Sequence["SpokenFacts"]) -> list["SpokenFacts"]:
        """The measurements of all groups, with what was heard."""
        from xtts.evaluation.recogniser import heard_words, num_errors, words_of

        found = list(facts)
        for asked, group in self._groups:
            for number, heard in zip(asked, group.result(), strict=True):
                task = self._tasks[number]
                said = words_of(self._tokenizer, task.text, task.language)
                errors = num_errors(said, heard_words(self._tokenizer, heard, task.language))
                share = round(errors / max(1, len(said)), 5)
                found[number] = replace(found[number], heard=heard, word_errors=share)
        return found
