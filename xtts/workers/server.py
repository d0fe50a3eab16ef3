"""SpeechServer: opens voices, batches requests, and pauses or cancels them.

One thread steps the batchers. Another opens voices and reads recordings, one at a time, so that
active requests do not wait for a file of 2 GB. A third calls the process that reads texts
(`xtts.workers.text_worker`). `xtts.workers.server_main` describes the messages and answers.
"""

import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from machine.devices import recovery
from machine.devices.current_gpu import make_current
from machine.devices.health import Outcome
from machine.memory import trim_heap
from machine.storage.files import JsonObject
from machine.threads import PassingThreads
from xtts.encoding import pcm16
from xtts.inference.alignment.guarded_piece import SpokenWords
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.speech import NO_OTHER_VOICES, ContinuousBatcher, StepOutput, Voice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.shapes import VOCODER_RATE
from xtts.voices import loading as voice_loading
from xtts.voices.voice_files import VoiceSpec
from xtts.workers.failures import answer_to_error, type_and_place
from xtts.workers.text_worker import TextWorker

_MAX_CACHED_VOICES = 64
# A header and its bytes.
Frame = tuple[JsonObject, bytes]
# Handles a message: yields frames and futures of other threads, and receives their results.
Handling = Generator["Frame | Future[Any]", Any, None]


class SpeechServer:
    """The open voices, and the requests that use them."""

    def __init__(self, compute: ComputeConfig, slots: int, text_worker: TextWorker | None = None) -> None:
        self.device = compute.device
        self._compute = compute
        self._slots = slots
        self._open_voices: dict[str, LoadedVoice] = {}
        self._batchers: dict[str, ContinuousBatcher] = {}
        self._closing: set[str] = set()
        # The voices of recordings and adapters, by the key of the open voice and the path.
        self._cached_voices: OrderedDict[tuple[str, str], Voice] = OrderedDict()
        # What other threads compute, with its message and the generator that continues.
        self._pending: dict[Future[Any], tuple[JsonObject, Handling]] = {}
        # The start of each request plus its pauses, so that `seconds` is the time spent speaking.
        self._started_at: dict[str, float] = {}
        self._paused_at: dict[str, float] = {}
        make_current(compute.device)
        self._opening_thread = PassingThreads("opening", partial(make_current, compute.device))
        self._words: dict[str, SpokenWords] = {}
        self._reading_thread = ThreadPoolExecutor(1, thread_name_prefix="reading")
        self._text_worker = text_worker or TextWorker()
        # Started early: its imports take as long as loading a model.
        self._reading_thread.submit(self._text_worker.start)

    @property
    def busy(self) -> bool:
        """Whether there is work without another message."""
        return any(batcher.busy for batcher in self._batchers.values())

    @property
    def waiting(self) -> bool:
        """Whether another thread is working."""
        return bool(self._pending)

    def take(self, message: JsonObject) -> Iterator[Frame]:
        """Handles a message as far as possible without waiting."""
        handlers = {
            "open": self._open,
            "close": self._close,
            "speak": self._speak,
            "go_on": self._go_on,
            "cancel": self._cancel,
            "forget": self._forget_voice,
        }
        yield from self._advance(message, handlers[message["do"]](message))

    def _advance(self, message: JsonObject, handling: Handling, result: object = None) -> Iterator[Frame]:
        """Continues a handling to its end, or until it must wait for another thread."""
        with contextlib.suppress(StopIteration):
            while not isinstance(frame := handling.send(result), Future):
                result = None
                yield frame
            self._pending[frame] = message, handling

    def step(self) -> Iterator[Frame]:
        """Takes results of other threads, and steps every batcher once."""
        yield from self._take_results()
        for batcher in list(self._batchers.values()):
            if batcher.busy:
                for output in batcher.step():
                    yield from self._output_frames(output)
        for key in list(self._closing):
            self._close_unused(key)

    def _open(self, message: JsonObject) -> Handling:
        fields, key = message["voice"], message["key"]  # a path in JSON is a text
        reference = Path(fields["reference"]) if fields.get("reference") else None
        spec = VoiceSpec(**{**fields, "reference": reference}, allow_base_reference=True)
        voice, batcher = yield self._opening_thread.submit(self._load, spec, dict(self._open_voices))
        self._open_voices[key], self._batchers[key] = voice, batcher
        summary = {**voice.summary(), "slots": batcher.num_slots}
        yield _frame("opened", message.get("id", ""), key=key, **summary)

    def _load(
        self, spec: VoiceSpec, open_voices: dict[str, LoadedVoice]
    ) -> tuple[LoadedVoice, ContinuousBatcher]:
        voice = voice_loading.load_voice(spec, self._compute, open_voices)
        voice.prepare()
        backend = voice.backend(self._slots, beside_another=bool(open_voices))
        batcher = ContinuousBatcher(backend, voice.guard)
        batcher.prepare()
        self._reading_thread.submit(self._text_worker.open, voice.texts).result()
        trim_heap()  # returns the memory that reading the file took
        return voice, batcher

    def _close(self, message: JsonObject) -> Handling:
        self._close_unused(message["key"])
        yield from ()

    def _close_unused(self, key: str) -> None:
        is_needed = any(message.get("key") == key for message, _ in self._pending.values())
        if key in self._batchers and (is_needed or not self._batchers[key].empty):
            self._closing.add(key)
        else:
            self._closing.discard(key)
            self._batchers.pop(key, None)
            self._open_voices.pop(key, None)
            self._drop_cached(lambda cache_key: cache_key[0] == key)
            recovery.free_after_fault(self.device)

    def _speak(self, message: JsonObject) -> Handling:
        key = message["key"]
        open_voice = self._open_voices[key]
        ask = message["ask"]
        ask = {**ask, "language": ask["language"] or open_voice.languages[0]}
        text, language, plain = ask["text"], ask["language"], ask.get("plain", False)
        pieces = yield self._reading_thread.submit(
            self._text_worker.read, open_voice.texts, text, language, plain=plain
        )
        placeholder = open_voice.placeholder_voice() if message.get("micro") else None
        voice = (yield from self._voice_of(key, message.get("recording"))) or placeholder
        cast, recordings = dict[str, Voice](), message.get("cast", {})
        # A name missing from the message is refused later, with the text.
        for name in {piece.voice for piece in pieces} & set(recordings):
            if (cast_voice := (yield from self._voice_of(key, recordings[name]))) is not None:
                cast[name] = cast_voice
        yield from self._enter({**message, "ask": {**ask, "pieces": pieces}}, voice, cast)

    def _voice_of(self, key: str, recording: str | None) -> "Generator[Future[Voice], Voice, Voice | None]":
        """The voice of a recording; without a recording, the open voice's own, if any."""
        if recording is None:
            return self._open_voices[key].own_voice
        if (voice := self._cached_voices.get((key, recording))) is not None:
            self._cached_voices.move_to_end((key, recording))
            return voice
        open_voice, folder = self._open_voices[key], self._compute.latents_folder
        voice = yield self._opening_thread.submit(open_voice.voice_of, Path(recording), folder)
        self._cache((key, recording), voice)
        return voice

    def _forget_voice(self, message: JsonObject) -> Handling:
        self._drop_cached(lambda cache_key: cache_key[1] == message["recording"])
        yield from ()

    def _drop_cached(self, is_dropped: Callable[[tuple[str, str]], bool]) -> None:
        for cache_key in list(filter(is_dropped, self._cached_voices)):
            del self._cached_voices[cache_key]

    def _go_on(self, message: JsonObject) -> Handling:
        name = message["id"]
        try:
            for batcher in self._batchers.values():
                if batcher.begin_next_piece(name):
                    self._started_at[name] += time.perf_counter() - self._paused_at.pop(name)
                    return
        except Exception as error:  # as in `_enter`
            for batcher in self._batchers.values():
                batcher.leave(name)
            self._forget_request(name)
            yield from self._refusal(name, error)

    def _cancel(self, message: JsonObject) -> Handling:
        name = message["id"]
        futures = [future for future, (sender, _) in self._pending.items() if sender.get("id") == name]
        for future in futures:
            del self._pending[future]
            future.cancel()
        was_speaking = [batcher.leave(name) for batcher in self._batchers.values()]
        self._forget_request(name)
        if futures or any(was_speaking):
            yield _frame("cancelled", name)

    def _enter(
        self, message: JsonObject, voice: Voice | None, cast: Mapping[str, Voice] = NO_OTHER_VOICES
    ) -> Iterator[Frame]:
        name, started_at = message["id"], time.perf_counter()
        if voice is None:
            reason = "This voice comes without a recording. Choose an uploaded voice."
            yield _failure(name, "no_reference", reason)
            return
        try:
            request = SynthesisRequest(**message["ask"])
            self._batchers[message["key"]].enter(name, voice, request, cast)
        except Exception as error:  # an error must end only this request
            yield from self._refusal(name, error)
        else:
            self._started_at[name] = started_at
            self._words[name] = SpokenWords(request.pieces or (), request.speed)

    def _refusal(self, name: str, error: Exception) -> Iterator[Frame]:
        """Answers one request with a refusal or an unexpected error. Raises a device fault, which
        ends the child."""
        answer = answer_to_error(error, self.device)
        if answer is not None and "fault" in answer:
            raise error
        if answer is None:
            reason = f"This request caused an internal error ({type_and_place(error)})."
            answer = {"reason_code": "internal", "reason": reason}
        yield _failure(name, answer["reason_code"], answer["reason"])

    def _output_frames(self, output: StepOutput) -> Iterator[Frame]:
        name, speech, words = output.name, output.speech, self._words[output.name]
        if output.error is not None:
            self._forget_request(name)
            yield from self._refusal(name, output.error)
            return
        words.add_sound(sum(map(len, output.chunks)) / VOCODER_RATE)
        ended_pieces = speech.pieces if speech.done or speech.paused else ()
        # Words precede the sound of the step, so that they are known when it is sent.
        if ended_pieces and (timed_words := words.end_piece(ended_pieces[-1])):
            rows = [[word.word, word.start_time, word.end_time] for word in timed_words]
            yield _frame("words", name, words=rows)
        for chunk in output.chunks:
            yield {"say": "sound", "id": name}, pcm16(np.asarray(chunk))
        if speech.paused:
            self._paused_at[name] = time.perf_counter()
            yield _frame("paused", name)
        elif speech.done:
            seconds = time.perf_counter() - self._started_at[name]
            self._forget_request(name)
            yield _frame(
                "done",
                name,
                codes=speech.codes,
                seconds=seconds,
                cut_pieces=speech.cut_pieces,
                timed=words.has_times and bool(ended_pieces),
                pieces=[piece.as_dict() for piece in speech.pieces],
            )

    def _forget_request(self, name: str) -> None:
        self._started_at.pop(name, None)
        self._paused_at.pop(name, None)
        self._words.pop(name, None)

    def _take_results(self) -> Iterator[Frame]:
        """Continues the messages whose results other threads have computed."""
        done = [future for future in self._pending if future.done()]
        while done:
            message, handling = self._pending.pop(done[0])
            # Without a further reference to the future, whose error holds tensors that must be freed.
            result, refusal = self._result_of(done.pop(0))
            if refusal is None:
                yield from self._advance(message, handling, result)
                continue
            if refusal["reason_code"] == "out_of_memory":
                recovery.free_after_fault(self.device)
            yield _failure(
                message.get("id", ""), refusal["reason_code"], refusal["reason"], key=message["key"]
            )

    def _result_of(self, future: "Future[Any]") -> tuple[object, JsonObject | None]:
        """The result of another thread, or the answer to its error. Raises errors that affect more
        than one voice. Lack of memory for another voice does not affect the active ones."""
        try:
            return future.result(), None
        except Exception as error:
            answer = answer_to_error(error, self.device)
            if answer is None and isinstance(error, OSError):
                # A file that was deleted meanwhile (a pruned epoch) ends that voice, not every
                # active request.
                file_name = Path(str(error.filename)).name if error.filename else "A file of the voice"
                reason = f"{file_name} cannot be read ({error.strerror})."
                answer = {"reason_code": "refused", "reason": reason}
            fault = answer and answer.get("fault")
            lacks_memory = fault and (fault["part"], fault["outcome"]) == ("memory", Outcome.TRANSIENT)
            if answer is None or (fault and not lacks_memory):
                raise
            return None, answer
        finally:
            del future  # the error holds this frame

    def _cache(self, cache_key: tuple[str, str], voice: Voice) -> None:
        """Caches the voice of an uploaded recording or of an adapter, unless it was deleted
        meanwhile. Drops the least recently used voices."""
        if not Path(cache_key[1]).exists():
            return
        self._cached_voices[cache_key] = voice
        self._cached_voices.move_to_end(cache_key)
        while len(self._cached_voices) > _MAX_CACHED_VOICES:
            self._cached_voices.popitem(last=False)


def _frame(say: str, name: str, **fields: object) -> Frame:
    return {"say": say, "id": name, **fields}, b""


def _failure(name: str, code: str, reason: str, **fields: str) -> Frame:
    return _frame("failed", name, reason_code=code, reason=reason, **fields)
