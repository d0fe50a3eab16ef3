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
from xtts.inference.takes import Take, TakeJudge, request_of_take
from xtts.text.markup import full_voice_name


@dataclass(frozen=True)
class SentenceRequest:
    """A sentence to speak.

    Attributes:
        key: The key of its take.
        speaker: As in `LoadedVoice.speaker`; "" for the default.
    """

    key: str
    synthesis: SynthesisRequest
    speaker: str = ""


@dataclass(frozen=True)
class SpokenSentence:
    """A spoken sentence: its waveform `[samples]`, float32, and the result of each piece."""

    request: SentenceRequest
    waveform: np.ndarray
    pieces: Sequence[SpokenPiece]


@dataclass
class _ActiveTake:
    """A take in the batch. sounds: the chunks of its waveform, in a list for each part."""

    request: SentenceRequest
    number: int
    sounds: list[list[np.ndarray]] = field(default_factory=lambda: [[]])


@dataclass
class BookVoice:
    """Speaks sentences.

    Attributes:
        at_once: The number of sentences at a time, counting each take.
        takes: The number of takes of each sentence, of which the best is kept.
        recogniser: The recogniser that checks the words of the takes.
        num_steps: The number of decode steps.
        num_rows: The sum of the sentences in the decode steps.
    """

    voice: LoadedVoice
    at_once: int
    takes: int = field(default=1, kw_only=True)
    recogniser: str = field(default="auto", kw_only=True)
    num_steps: int = field(default=0, init=False)
    num_rows: int = field(default=0, init=False)

    @cached_property
    def _batcher(self) -> ContinuousBatcher:
        count = max(self.at_once, self.takes)
        return ContinuousBatcher(self.voice.backend(count), self.voice.guard)

    @cached_property
    def _judge(self) -> TakeJudge:
        return TakeJudge(self.voice, self.recogniser)

    @property
    def _speaks_one_by_one(self) -> bool:
        return self.at_once == self.takes == 1

    @property
    def batch_usage(self) -> float:
        """The mean share of the batch that was in use; 1 if sentences are spoken one by one."""
        return self.num_rows / (self.num_steps * self._batcher.num_slots) if self.num_steps else 1.0

    @cached_property
    def model_identity(self) -> dict[str, object]:
        """Everything that the sound depends on, except for text and speaker."""
        return {
            **({"takes": [self.takes, *self._judge.identity]} if self.takes > 1 else {}),
            "weights": self.voice.weights,
            **({"graphs": graphs} if (graphs := self.voice.graphs) else {}),
            "precision": self.voice.model.kind,
            "device": str(getattr(self.voice.model, "device", "cpu")).split(":")[0],
            "at_once": 1 if self._speaks_one_by_one else self._batcher.num_slots,
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

    def further_speakers(self, request: SentenceRequest) -> dict[str, Voice]:
        """The further speakers of a sentence, by their names in its pieces."""
        names = {piece.voice for piece in request.synthesis.pieces or ()} - {""}
        return {name: self.speaker(full_voice_name(name, request.speaker)) for name in names}

    def speak(self, next_request: Callable[[], SentenceRequest | None]) -> Iterator[SpokenSentence]:
        """Speaks the sentences from `next_request`, until it returns None and all are spoken.

        Raises NotFinite, and TextError for an unknown speaker.
        """
        if self._speaks_one_by_one:
            while (request := next_request()) is not None:
                yield self._speak_alone(request)
            return
        yield from self._speak_together(next_request)

    def _speak_alone(self, request: SentenceRequest) -> SpokenSentence:
        from xtts.inference import speech

        guard = self.voice.guard(request.synthesis)
        waveform = speech.synthesize(
            self.voice.backend(),
            self.speaker(request.speaker),
            request.synthesis,
            guard,
            self.further_speakers(request),
        )
        return SpokenSentence(request, np.asarray(waveform), tuple(guard.pieces) if guard else ())

    def _speak_together(self, next_request: Callable[[], SentenceRequest | None]) -> Iterator[SpokenSentence]:
        batcher = self._batcher
        pending = deque[tuple[SentenceRequest, int]]()
        active: dict[str, _ActiveTake] = {}
        finished_takes: dict[str, dict[int, Take]] = {}
        while True:
            while batcher.num_free and (pending or (request := next_request()) is not None):
                if not pending:
                    assert request is not None
                    pending.extend((request, number) for number in range(self.takes))
                    finished_takes[request.key] = {}
                request, number = pending.popleft()
                name, synthesis = f"{request.key} {number}", request_of_take(request.synthesis, number)
                batcher.enter(name, self.speaker(request.speaker), synthesis, self.further_speakers(request))
                active[name] = _ActiveTake(request, number)
            if not active:
                return
            self.num_steps += 1
            self.num_rows += len(active)
            for output in batcher.step():
                take = active[output.name]
                take.sounds[-1] += map(np.asarray, output.chunks)
                if output.error is not None:
                    raise output.error
                if output.speech.paused:
                    take.sounds.append([])
                    batcher.begin_next_piece(output.name)
                elif output.speech.done:
                    del active[output.name]
                    parts = [np.concatenate(chunks) for chunks in take.sounds if chunks]
                    takes = finished_takes[take.request.key]
                    takes[take.number] = Take(parts, output.speech.pieces)
                    if len(takes) == self.takes:
                        del finished_takes[take.request.key]
                        yield self._best_take(take.request, takes)

    def _best_take(self, request: SentenceRequest, takes: Mapping[int, Take]) -> SpokenSentence:
        best = takes[0]
        if self.takes > 1:
            ordered = [takes[number] for number in range(self.takes)]
            best = ordered[self._judge.choose(request.synthesis, ordered, request.speaker).number]
        return SpokenSentence(request, best.waveform, best.pieces)


def _identity(speaker: Voice, voice: LoadedVoice) -> str:
    digest = hashlib.sha256()
    for part in (speaker.latents, speaker.speaker):
        digest.update(_float32_bytes(part))
    vocoder: object = speaker.vocoder or getattr(voice.model, "vocoder", None)
    if hasattr(vocoder, "state_dict"):
        _add_tensors(digest, vocoder.state_dict())
    for layer in speaker.adapter.matrices if speaker.adapter is not None else ():
        for name in sorted(layer):
            digest.update(name.encode() + b"".join(map(_float32_bytes, layer[name])))
    return digest.hexdigest()


def _add_tensors(digest: "hashlib._Hash", tensors: Mapping[str, object]) -> None:
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(_float32_bytes(tensors[name]))


def _float32_bytes(part: object) -> bytes:
    array = part.detach().float().cpu().numpy() if hasattr(part, "detach") else np.asarray(part)
    return bytes(np.ascontiguousarray(array, np.float32).tobytes())
