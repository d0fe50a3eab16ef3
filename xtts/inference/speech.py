"""Speech: one request being spoken, alone or together with others, with any backend.

A backend decodes codes and computes their sound (`xtts.inference.torch_backend`,
`extras.onnx.speech.backend`). This module contains the common part: pieces, attempts, guard, speed,
chunks, fades and pauses. Whole speech, streams and batches differ in the caller of the steps and in
when sound may be sent. Importing this module does not import torch.

Speeches may enter and leave a batch between two steps. The result of a speech does not depend on
the others (`xtts.inference.torch_backend`) or on when it entered, because the ends of its chunks
follow from its codes alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from machine.devices.cuda_errors import NotFinite
from machine.errors import SotaqueError
from xtts import marks
from xtts.inference.alignment.guarded_piece import Guard, GuardedPiece, Random, SpokenPiece, Utterance, fade
from xtts.inference.alignment.heads import Head
from xtts.inference.defaults import FADE_SECONDS, SamplingParams
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.config import ModelConfig
from xtts.model.shapes import VOCODER_RATE
from xtts.model.streaming_vocoder import (
    BackendArray,
    ChunkedVocoder,
    Latents,
    Samples,
    StepVocoder,
    chunk_codes,
)
from xtts.text.errors import TextError, excerpt
from xtts.text.tokenizer import Piece, Tokenizer

if TYPE_CHECKING:
    from xtts.model.adapter import Adapter


@dataclass(frozen=True)
class Voice:
    """The voice of one speaker, as tensors or arrays.

    Attributes:
        latents: Conditioning latents `[1, 32, width]` for the GPT.
        speaker: Speaker embedding `[1, 512, 1]` for the vocoder.
        vocoder: A vocoder trained for this speaker (`xtts.voices.learned_decoder`); None is the
            model's.
        adapter: A LoRA adapter trained for this speaker (`xtts.model.adapter`), or None. Only with
            PyTorch.
    """

    latents: BackendArray
    speaker: BackendArray
    vocoder: StepVocoder | None = None
    adapter: "Adapter | None" = None


# A word with its signs. Languages without spaces write a whole sentence as one word.
_MAX_WORD_IDS = 16
# The cast of a text with a single voice.
NO_OTHER_VOICES: Mapping[str, Voice] = {}


def unknown_voice(name: str, voices: Iterable[str]) -> TextError:
    """The error for a text that changes to an unknown voice."""
    names = ", ".join(sorted(filter(None, voices))) or "no other voice"
    return TextError(f"The text asks for the voice {excerpt(name)}; there is {names}.")


class SpokenModel(Protocol):
    """What `Speech` needs of the model of a backend."""

    @property
    def config(self) -> ModelConfig: ...
    @property
    def tokenizer(self) -> Tokenizer: ...


class Backend(Protocol):
    """Computes speech, at most `num_slots` utterances at once. arrays: torch or numpy."""

    num_slots: int
    arrays: ModuleType

    @property
    def model(self) -> SpokenModel: ...

    def prepare(self) -> None:
        """Warms up, so that the first utterance is not delayed."""

    @property
    def num_free(self) -> int:
        """The number of further utterances that may begin."""

    def random(self, seed: int) -> Random:
        """The random state for sampling."""

    def begin(
        self,
        voice: Voice,
        ids: Sequence[int],
        rules: SamplingParams,
        random: Random,
        max_codes: int | None,
        heads: Sequence[Head],
    ) -> Utterance:
        """Begins the `Utterance` of a piece: prefills its text and samples the first code.

        Raises NotFinite.
        """

    def step(self, utterances: Sequence[Any]) -> None:
        """Decodes one more code for each utterance that is not done; a failure sets `error`."""

    def end(self, utterance: Any) -> None:
        """Frees the resources of an utterance."""

    def chunks(self, voice: Voice, speed: float = 1.0) -> ChunkedVocoder:
        """The vocoder of one utterance."""

    def check(self, chunk: Samples) -> Samples:
        """A chunk as float32 on the CPU. Raises NotFinite."""


class Speech:
    """One request being spoken.

    Args:
        backend: Computes the speech.
        voice: The speaker.
        request: The text and its parameters.
        guard: Judges each piece; None judges nothing.
        cast: The other voices that the text changes to, by name (`xtts.text.markup`).
        chunked: Whether to vocode while codes are decoded. Otherwise each piece is vocoded after
            decoding, which is slightly less work, and all of its sound waits for the verdict.

    Raises:
        TextError: The text cannot be spoken.
    """

    def __init__(
        self,
        backend: Backend,
        voice: Voice,
        request: SynthesisRequest,
        guard: Guard | None = None,
        cast: Mapping[str, Voice] = NO_OTHER_VOICES,
        *,
        chunked: bool = True,
    ) -> None:
        self._backend, self._voice, self._request = backend, voice, request
        self._guard, self._chunked = guard, chunked
        self._rules = request.rules(backend.model.config.decoding)
        self._random_state = backend.random(request.seed)
        self._waiting = request.read(backend.model.tokenizer)
        self._cast = {**cast, "": voice}
        if missing := {piece.voice for piece in self._waiting} - set(self._cast):
            raise unknown_voice(sorted(missing)[0], cast)
        # Sound next to other sound or a pause is faded.
        has_pauses = any(piece.before or piece.after for piece in self._waiting)
        self._fades = len(self._waiting) > 1 or has_pauses
        self._num_begun = 0
        self._num_vocoded = 0
        self.utterance: Utterance | None = None
        self.codes = 0
        self.cut_pieces = 0

    @property
    def done(self) -> bool:
        """Whether every piece was spoken."""
        return self.utterance is None and not self._waiting

    @property
    def paused(self) -> bool:
        """Whether it is between two pieces; `begin` starts the next."""
        return self.utterance is None and bool(self._waiting)

    @property
    def pieces(self) -> tuple[SpokenPiece, ...]:
        """The results of the finished pieces; () without a guard."""
        return tuple(self._guard.pieces) if self._guard else ()

    def chunks(self) -> Iterator[Samples]:
        """Yields all sound as it becomes final; nothing else may use the backend meanwhile."""
        while not self.done:
            yield from self.next_piece()

    def next_piece(self) -> Iterator[Samples]:
        """As `chunks`, to the end of the next piece."""
        self.begin()
        try:
            yield from self.take_sound()
            while self.utterance is not None:
                self._backend.step([self.utterance])
                yield from self.take_sound()
        finally:  # also if the caller stops early
            self.leave()

    def begin(self) -> None:
        """Begins the next piece: prefills its text and samples the first code."""
        piece = self._waiting.pop(0)
        self._voice = self._cast[piece.voice]
        self._before, self._after = piece.before, piece.after
        # A word alone is often said twice, and its verdict is there as soon as its sound.
        is_only_word = not self._num_begun and not self._waiting and _is_single_word(piece)
        self._guarded = GuardedPiece(
            self._guard,
            piece.ids,
            self._backend.arrays,
            speed=self._request.speed,
            waits=self._request.whole or not self._chunked or is_only_word,
            is_first=not self._num_begun,
        )
        self._num_begun += 1
        self._fade = StreamFade(self._backend.arrays, active=self._fades)
        self._begin_attempt(self._random_state)

    def take_sound(self) -> list[Samples]:
        """The sound `[samples]` that is final after a step, float32 on the CPU. Raises
        NotFinite."""
        utterance = self.utterance
        assert utterance is not None
        if utterance.error is not None:
            raise utterance.error
        sound, self._before = [self._pause(self._before)], 0.0
        sound += self._vocode(utterance.latents[self._num_vocoded :])
        self._num_vocoded = len(utterance.latents)
        if utterance.done:
            sound += self._end_piece(utterance)
        return [marks.watermarked(chunk) for chunk in sound if len(chunk)]

    def leave(self) -> None:
        """Ends the current utterance, if there is one."""
        if self.utterance is not None:
            self._backend.end(self.utterance)
            self.utterance = None

    def _begin_attempt(self, random: Random) -> None:
        """Begins an attempt at the piece."""
        self._reset_vocoder()
        self.utterance = self._backend.begin(
            self._voice, self._guarded.ids, self._rules, random, self._request.max_codes, self._guarded.heads
        )

    def _reset_vocoder(self) -> None:
        self._num_vocoded = 0
        self._vocoder = self._backend.chunks(self._voice, self._request.speed)
        self._chunk_sizes = chunk_codes() if self._chunked else iter(lambda: float("inf"), None)
        self._chunk_size = next(self._chunk_sizes)

    def _vocode(self, latents: Sequence[Latents]) -> list[Samples]:
        sound: list[Samples] = []
        for latent in latents:
            self._vocoder.add([latent])
            if self._vocoder.ready_codes() >= self._chunk_size:
                sound += map(self._push, self._vocoder.speak())
                self._chunk_size = next(self._chunk_sizes)
        return sound

    def _end_piece(self, utterance: Utterance) -> list[Samples]:
        """The end of a piece's sound; nothing if the piece is spoken again."""
        self.leave()
        self.codes += len(utterance.codes)
        sound, stopped = self._vocode_rest(), utterance.stopped
        if self._guarded.judge(utterance):
            # The next piece continues with the first attempt's random state, so that it is the same
            # as if this attempt had been good.
            self._begin_attempt(self._backend.random(self._guarded.next_seed))
            return []
        if self._guarded.has_earlier_best:
            best = self._guarded.best
            stopped = best.stopped
            self._guarded.drop_sound()
            self._reset_vocoder()
            sound = [*self._vocode(best.spoken_latents), *self._vocode_rest()]
        self.cut_pieces += not stopped and not self._guarded.cut_off
        if (held := self._guarded.end()) is not None:
            sound.append(self._fade.push(held))
        return [*sound, self._fade.end(), self._pause(self._after)]

    def _vocode_rest(self) -> list[Samples]:
        """The remaining sound of a finished utterance."""
        return [self._push(chunk) for chunk in self._vocoder.rest()]

    def _push(self, chunk: Samples) -> Samples:
        return self._fade.push(self._guarded.push(self._backend.check(chunk)))

    def _pause(self, seconds: float) -> Samples:
        """Silence of this length, which does not depend on the speed."""
        arrays = self._backend.arrays
        return arrays.zeros(round(seconds * VOCODER_RATE), dtype=arrays.float32)


def _is_single_word(piece: Piece) -> bool:
    return len(piece.words) == 1 and len(piece.ids) <= _MAX_WORD_IDS


class StreamFade:
    """Fades the first and last 5 ms of a waveform that arrives in chunks. Holds the last 5 ms back
    until the end. active: False passes chunks on unchanged."""

    def __init__(self, arrays: ModuleType, *, active: bool = True) -> None:
        self._arrays, self._active = arrays, active
        self._length = int(FADE_SECONDS * VOCODER_RATE)
        self._held_samples = arrays.zeros(0, dtype=arrays.float32)
        self._faded_in = False

    def push(self, chunk: Samples) -> Samples:
        """Adds a chunk and returns the samples that are final."""
        if not self._active:
            return chunk
        self._held_samples = self._arrays.concatenate((self._held_samples, chunk))
        # The fade in needs 5 ms too; in a short piece both fades are shorter.
        if len(self._held_samples) <= 2 * self._length:
            return self._held_samples[:0]
        ready, self._held_samples = self._held_samples[: -self._length], self._held_samples[-self._length :]
        if not self._faded_in:
            ready = fade(ready, self._length, 0, self._arrays)
            self._faded_in = True
        return ready

    def end(self) -> Samples:
        """The held end of the piece, faded out."""
        if self._faded_in:
            return fade(self._held_samples, 0, self._length, self._arrays)
        length = min(self._length, len(self._held_samples) // 2)
        return fade(self._held_samples, length, length, self._arrays)


def synthesize(
    backend: Backend,
    voice: Voice,
    request: SynthesisRequest,
    guard: Guard | None = None,
    cast: Mapping[str, Voice] = NO_OTHER_VOICES,
) -> Samples:
    """All sound of a `Speech`, `[samples]`."""
    speech = Speech(backend, voice, request, guard, cast, chunked=False)
    return backend.arrays.concatenate(list(speech.chunks()))


class StepOutput(NamedTuple):
    """The result of a step for one speech: sound that is final, and the failure that ended it."""

    name: str
    speech: Speech
    chunks: Sequence[Samples] = ()
    error: NotFinite | None = None


class ContinuousBatcher:
    """Decodes many requests together: runs the speeches of one model, one per slot of its backend.

    A speech of several pieces gives up its slot after each piece, and the caller decides which
    speech is next, so that a long text does not block a slot.

    Args:
        backend: The backend that computes the speech.
        guard: Creates the guard of a speech.
    """

    def __init__(
        self, backend: Backend, guard: Callable[[SynthesisRequest], Guard | None] = lambda _: None
    ) -> None:
        self._backend = backend
        self._guard = guard
        self._speeches: dict[str, Speech] = {}

    @property
    def num_slots(self) -> int:
        """The number of speeches that can run at once."""
        return self._backend.num_slots

    def prepare(self) -> None:
        """Warms up the backend, so that the first request is not delayed."""
        self._backend.prepare()

    @property
    def busy(self) -> bool:
        """Whether a speech is active."""
        return any(not speech.paused for speech in self._speeches.values())

    @property
    def empty(self) -> bool:
        """Whether no request is active or paused."""
        return not self._speeches

    @property
    def num_free(self) -> int:
        """The number of further speeches that can enter now."""
        return self._backend.num_free

    def enter(
        self, name: str, voice: Voice, request: SynthesisRequest, cast: Mapping[str, Voice] = NO_OTHER_VOICES
    ) -> None:
        """Begins a speech; `step` returns its sound. cast: as in `Speech`.

        Raises SotaqueError if all slots are in use, TextError, and NotFinite.
        """
        speech = Speech(self._backend, voice, request, self._guard(request), cast)
        self._begin_piece(speech)
        self._speeches[name] = speech

    def begin_next_piece(self, name: str) -> bool:
        """Begins the next piece of a speech; returns False if no such speech is paused.

        Raises SotaqueError, and NotFinite, which ends the speech.
        """
        speech = self._speeches.get(name)
        if speech is None or not speech.paused:
            return False
        try:
            self._begin_piece(speech)
        except NotFinite:
            self.leave(name)
            raise
        return True

    def _begin_piece(self, speech: Speech) -> None:
        if not self.num_free:
            raise SotaqueError(f"All {self.num_slots} slots are in use. Try again later.")
        speech.begin()

    def leave(self, name: str) -> bool:
        """Ends a speech early; returns whether there was such a speech."""
        speech = self._speeches.pop(name, None)
        if speech is not None:
            speech.leave()
        return speech is not None

    def step(self) -> list[StepOutput]:
        """Decodes one more code for every active speech and returns the sound that is final."""
        active = {
            name: speech.utterance for name, speech in self._speeches.items() if speech.utterance is not None
        }
        self._backend.step(list(active.values()))
        return [self._take_output(name) for name in active]

    def _take_output(self, name: str) -> StepOutput:
        speech = self._speeches[name]
        try:
            output = StepOutput(name, speech, speech.take_sound())
        except NotFinite as error:
            self.leave(name)
            return StepOutput(name, speech, error=error)
        if speech.done:
            del self._speeches[name]
        return output
