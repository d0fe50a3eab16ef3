"""BookVoice: speaks the sentences of a book with a loaded voice, one by one or several at once.

One by one, the result equals `python -m xtts speak --text SENTENCE` with the same seed. Several at
once are decoded together, which is faster and differs in the last bits; the result of a sentence
does not depend on the others. With takes, each sentence is spoken several times, and its best take
is kept (`xtts.inference.takes`).
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from extras.books.book import BookError
from xtts.inference.alignment.guarded_piece import SpokenPiece
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.speech import ContinuousBatcher, Voice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.takes import Take, TakeJudge, request_of
from xtts.text.markup import of_request


@dataclass(frozen=True)
class Ask:
    """A sentence to speak. key: of its take; speaker: as in `LoadedVoice.speaker`, "" for the
    default."""

    key: str
    request: SynthesisRequest
    speaker: str = ""


@dataclass(frozen=True)
class Said:
    """A spoken sentence: its waveform `[samples]`, float32, and the result of each piece."""

    ask: Ask
    waveform: np.ndarray
    pieces: Sequence[SpokenPiece]


@dataclass
class BookVoice:
    """Speaks sentences. at_once: the number of sentences at a time, counting each take; takes: of
    each sentence, of which the best is kept; recogniser: checks their words; steps, rows: the
    number of decode steps, and the sum of the sentences in them."""

    voice: LoadedVoice
    at_once: int
    takes: int = field(default=1, kw_only=True)
    recogniser: str = field(default="auto", kw_only=True)
    steps: int = field(default=0, init=False)
    rows: int = field(default=0, init=False)

    @cached_property
    def _batcher(self) -> ContinuousBatcher:
        count = max(self.at_once, self.takes)
        return ContinuousBatcher(self.voice.backend(count), self.voice.guard)

    @cached_property
    def _judge(self) -> TakeJudge:
        return TakeJudge(self.voice, self.recogniser)

    @property
    def used(self) -> float:
        """The mean share of the batch that was in use; 1 if sentences are spoken one by one."""
        return self.rows / (self.steps * self._batcher.count) if self.steps else 1.0

    @cached_property
    def model_identity(self) -> dict[str, object]:
        """Everything that the sound depends on, except for text and speaker."""
        alone = self.at_once == self.takes == 1
        return {
            **({"takes": [self.takes, *self._judge.identity]} if self.takes > 1 else {}),
            "weights": self.voice.weights,
            **({"graphs": graphs} if (graphs := self.voice.graphs) else {}),
            "precision": self.voice.model.kind,
            "device": str(getattr(self.voice.model, "device", "cpu")).split(":")[0],
            "at_once": 1 if alone else self._batcher.count,
            "guarded": self.voice.guarded,
            "heads": [list(head) for head in self.voice.heads] if self.voice.guarded else [],
        }

    def speaker(self, name: str) -> Voice:
        """The latents of a speaker. Raises TextError, and BookError for a voice without latents."""
        if not name:
            if self.voice.own_voice is None:
                raise BookError(
                    "This voice does not include a speaker. Add --reference FILE.wav, 3 to 30 s of "
                    "clear speech, or --latents FILE.safetensors for an ONNX voice."
                )
            return self.voice.own_voice
        return self.voice.speaker(name)

    def speaker_identity(self, name: str) -> str:
        """The SHA-256 of a speaker's latents, embedding, vocoder and adapter."""
        if name not in self._identities:
            self._identities[name] = _identity(self.speaker(name), self.voice)
        return self._identities[name]

    @cached_property
    def _identities(self) -> dict[str, str]:
        return {}

    def cast(self, ask: Ask) -> dict[str, Voice]:
        """The further speakers of a sentence, by their names in its pieces."""
        named = {piece.voice for piece in ask.request.pieces or ()} - {""}
        return {name: self.speaker(of_request(name, ask.speaker)) for name in named}

    def say(self, next_ask: Callable[[], Ask | None]) -> Iterator[Said]:
        """Speaks the sentences from `next_ask`, until it returns None and all are spoken.

        Raises NotFinite, and TextError for an unknown speaker.
        """
        if self.at_once == self.takes == 1:
            while (ask := next_ask()) is not None:
                yield self._alone(ask)
            return
        yield from self._together(next_ask)

    def _alone(self, ask: Ask) -> Said:
        from xtts.inference import speech

        guard = self.voice.guard(ask.request)
        spoken = speech.synthesize(
            self.voice.backend(), self.speaker(ask.speaker), ask.request, guard, self.cast(ask)
        )
        return Said(ask, np.asarray(spoken), tuple(guard.pieces) if guard else ())

    def _together(self, next_ask: Callable[[], Ask | None]) -> Iterator[Said]:
        batcher = self._batcher
        waiting = deque[tuple[Ask, int]]()
        active: dict[str, tuple[Ask, int, list[list[np.ndarray]]]] = {}
        spoken: dict[str, dict[int, Take]] = {}
        while True:
            while batcher.free and (waiting or (ask := next_ask()) is not None):
                if not waiting:
                    assert ask is not None
                    waiting.extend((ask, number) for number in range(self.takes))
                    spoken[ask.key] = {}
                ask, number = waiting.popleft()
                name, request = f"{ask.key} {number}", request_of(ask.request, number)
                batcher.enter(name, self.speaker(ask.speaker), request, self.cast(ask))
                active[name] = ask, number, [[]]
            if not active:
                return
            self.steps += 1
            self.rows += len(active)
            for output in batcher.step():
                ask, number, sounds = active[output.name]
                sounds[-1] += map(np.asarray, output.chunks)
                if output.error is not None:
                    raise output.error
                if output.speech.paused:
                    sounds.append([])
                    batcher.go_on(output.name)
                elif output.speech.done:
                    del active[output.name]
                    parts = [np.concatenate(chunks) for chunks in sounds if chunks]
                    spoken[ask.key][number] = Take(parts, output.speech.pieces)
                    if len(spoken[ask.key]) == self.takes:
                        yield self._best(ask, spoken.pop(ask.key))

    def _best(self, ask: Ask, takes: Mapping[int, Take]) -> Said:
        best = takes[0]
        if self.takes > 1:
            ordered = [takes[number] for number in range(self.takes)]
            best = ordered[self._judge.choose(ask.request, ordered, ask.speaker).number]
        return Said(ask, best.waveform, best.pieces)


def _identity(whose: Voice, voice: LoadedVoice) -> str:
    digest = hashlib.sha256()
    for part in (whose.latents, whose.speaker):
        digest.update(_bytes(part))
    vocoder: object = whose.vocoder or getattr(voice.model, "vocoder", None)
    if hasattr(vocoder, "state_dict"):
        _add_tensors(digest, vocoder.state_dict())
    for layer in whose.adapter.matrices if whose.adapter is not None else ():
        for name in sorted(layer):
            digest.update(name.encode() + b"".join(map(_bytes, layer[name])))
    return digest.hexdigest()


def _add_tensors(digest: "hashlib._Hash", tensors: Mapping[str, object]) -> None:
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(_bytes(tensors[name]))


def _bytes(part: object) -> bytes:
    array = part.detach().float().cpu().numpy() if hasattr(part, "detach") else np.asarray(part)
    return bytes(np.ascontiguousarray(array, np.float32).tobytes())
