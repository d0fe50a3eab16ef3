"""FileSpeaker: answers `xtts.workers.requests` in this process and speaks texts into files.

`xtts.workers.file_worker` uses it in a separate process, `train.sampling.sampler` in the trainer's
process on a GPU that passed its check. Importing this module does not import torch.
"""

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from xtts.workers import decoder_learning, file_evaluation
from xtts.workers.requests import (
    Answer,
    EvaluateRequest,
    LearnDecoderRequest,
    ListenRequest,
    ReportProgress,
    Request,
    SpeakRequest,
    SpokenFile,
    no_progress,
)
from xtts.workers.tuned_model import TunedModel

if TYPE_CHECKING:
    from xtts.inference.alignment.guarded_piece import Guard
    from xtts.text.tokenizer import Piece


class FileSpeaker(TunedModel):
    """A model that answers one request after another."""

    def ask(self, request: Request[Answer], progress: ReportProgress = no_progress) -> Answer:
        """Does what a request asks; draws from no global random state.

        progress: hears it of a set of sentences and of a decoder that learns.

        Raises the errors of audio, voice, text, decoding, runs, model and recogniser.
        """
        doing: dict[type[Request[Any]], Any] = {
            SpeakRequest: speak,
            EvaluateRequest: partial(file_evaluation.evaluate, progress=progress),
            ListenRequest: file_evaluation.listen,
            LearnDecoderRequest: partial(decoder_learning.learn, progress=progress),
        }
        answer: Answer = doing[type(request)](self, request)
        self.let_go()
        return answer


def speak(tuned: TunedModel, request: SpeakRequest) -> SpokenFile:
    """Speaks a text into its file. What is wrong with text or recording is reported before weights
    are read or anything is computed."""
    from xtts import audio
    from xtts.inference import speech, voice
    from xtts.inference.torch_backend import TorchBackend

    started = time.perf_counter()
    reading = tuned.reading(request.weights)
    pieces = request.request.read(reading.tokenizer)
    reference = voice.read_reference(reading.config, request.reference)
    model, whose = tuned.speaking(reading, reference, request.weights, decoder=request.decoder)
    guard = tuned.guard(whose, request.request.seed)
    synthesis = replace(request.request, pieces=pieces)
    waveform = speech.synthesize(TorchBackend(model), whose, synthesis, guard)
    audio.write_wav(request.out, waveform)
    likeness = voice.similarity(tuned.model, waveform, audio.VOCODER_RATE, whose)
    return SpokenFile(
        time.perf_counter() - started, len(waveform) / audio.VOCODER_RATE, tuned.compute.device,
        likeness, *_ending(guard), words=_words(pieces, guard),
    )  # fmt: skip


def _ending(guard: "Guard | None") -> tuple[str | None, str, int]:
    """As in `SpokenFile`: ending, its reason, attempts."""
    if guard is None or not guard.pieces:
        return None, "", 1
    attempts = max(piece.attempts for piece in guard.pieces)
    worst = next((piece for piece in guard.pieces if piece.faulty), guard.pieces[0])
    return worst.ending.value, worst.reason, attempts


def _words(pieces: "list[Piece]", guard: "Guard | None") -> list[tuple[str, float, float]] | None:
    from xtts.inference.alignment.words import words_of_speech

    words = words_of_speech(pieces, guard.pieces) if guard is not None and guard.pieces else None
    if words is None:
        return None
    return [(one.word, one.start_time, one.end_time) for one in words]
