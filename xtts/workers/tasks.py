"""FileSpeaker: answers `xtts.workers.requests` in this process.

It speaks texts into files, and measures recordings and spoken sentences for
`train.evaluation.judges`. `xtts.workers.file_worker` uses it in a separate process;
`train.sampling.sampler` uses it in the trainer's process, on a GPU that passed its check. Importing
this module does not import torch.
"""

import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from machine.text import load_error
from xtts.marks import Mark
from xtts.workers import decoder_learning
from xtts.workers.requests import (
    SLOTS,
    Answer,
    EvaluateRequest,
    HeardRecordings,
    LearnDecoderRequest,
    ListenRequest,
    RecordingFacts,
    ReportProgress,
    Request,
    SentenceTask,
    SpeakingRate,
    SpeakRequest,
    SpokenFacts,
    SpokenFile,
    SpokenSet,
    TunedVoice,
    no_progress,
)
from xtts.workers.tuned_model import TunedModel

if TYPE_CHECKING:
    from torch import Tensor

    from xtts.evaluation.naturalness import NaturalnessJudge
    from xtts.evaluation.recogniser import Recogniser
    from xtts.evaluation.speaker_judge import SpeakerJudge
    from xtts.inference.torch_backend import TorchUtterance
    from xtts.inference.voice import Voice
    from xtts.model.loading import Model
    from xtts.text.tokenizer import Piece, Tokenizer

# A sentence longer than this multiple of its expected length counts as endless.
RUNAWAY = 2.5
RUNAWAY_CODES = 20


@dataclass(frozen=True)
class DecodedSentence:
    """A sentence with its pieces and their decoded codes."""

    task: SentenceTask
    pieces: "list[Piece]"
    utterances: "list[TorchUtterance]"


class BackgroundHearing:
    """Transcribes sentences while further ones are spoken.

    A context manager that drops what is not transcribed on exit. Does nothing without a recogniser.
    """

    def __init__(self, recogniser: "Recogniser | None", tokenizer: "Tokenizer") -> None:
        self._recogniser = recogniser
        self._tokenizer = tokenizer
        at_once = recogniser.at_once if recogniser else 1
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="hearing")
        self._heard: dict[int, Future[str]] = {}

    def __enter__(self) -> "BackgroundHearing":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def begin(self, number: int, sound: "Tensor | None", facts: SpokenFacts) -> None:
        """Starts to transcribe a sentence, unless it is endless: these are the longest, and are
        counted separately."""
        if self._recogniser and sound is not None and facts.finished:
            self._heard[number] = self._pool.submit(self._recogniser.hear, _for_recogniser(sound))

    def with_heard(self, tasks: Sequence[SentenceTask], facts: Sequence[SpokenFacts]) -> list[SpokenFacts]:
        """The measurements of all sentences, with their transcripts."""
        results = list(facts)
        for number, transcribed in self._heard.items():
            request, heard = tasks[number].request, transcribed.result()
            share = word_errors(self._tokenizer, request.text, heard, request.language)
            results[number] = replace(results[number], heard=heard, word_errors=share)
        return results


def word_errors(tokenizer: "Tokenizer", text: str, transcript: str, language: str) -> float:
    """The errors of a transcript for each word of the text."""
    from xtts.evaluation.recogniser import heard_words, num_errors, words_of

    words = words_of(tokenizer, text, language)
    errors = num_errors(words, heard_words(tokenizer, transcript, language))
    return round(errors / max(1, len(words)), 5)


class FileSpeaker(TunedModel):
    """A model that answers one request after another."""

    def ask(self, request: Request[Answer], progress: ReportProgress = no_progress) -> Answer:
        """Answers a request without using the global random state.

        progress: called for a set of sentences and while a decoder trains.

        Raises the errors of audio, voice, text, decoding, runs, model and recogniser.
        """
        doing: dict[type[Request[Any]], Any] = {
            SpeakRequest: speak,
            EvaluateRequest: partial(evaluate, progress=progress),
            ListenRequest: listen,
            LearnDecoderRequest: partial(decoder_learning.learn, progress=progress),
        }
        answer: Answer = doing[type(request)](self, request)
        self.let_go()
        return answer


def speak(tuned: TunedModel, request: SpeakRequest) -> SpokenFile:
    """Speaks a text into its file. Reports faults of the text or the recording before it loads
    weights or computes."""
    from xtts import audio, encoding
    from xtts.inference import speech, voice
    from xtts.inference.alignment.guarded_piece import words_of_speech
    from xtts.inference.torch_backend import TorchBackend

    started = time.perf_counter()
    reading = tuned.reading(request.voice)
    pieces = request.request.read(reading[0].tokenizer)
    model, whose = tuned.speaking(reading, request.voice)
    guard = tuned.guard(whose, request.request.seed)
    synthesis = replace(request.request, pieces=pieces)
    waveform = speech.synthesize(TorchBackend(model), whose, synthesis, guard)
    encoding.write_wav(request.out, waveform.cpu().float(), mark=tuned.mark(request.voice))
    likeness = voice.similarity(tuned.model, waveform, audio.VOCODER_RATE, whose)
    audio_seconds = len(waveform) / audio.VOCODER_RATE
    spoken = SpokenFile(time.perf_counter() - started, audio_seconds, tuned.compute.device, likeness)
    if guard is None or not guard.pieces:
        return spoken
    worst = next((piece for piece in guard.pieces if piece.faulty), guard.pieces[0])
    words = words_of_speech(pieces, guard.pieces)
    return replace(
        spoken,
        ending=worst.ending.value,
        ending_reason=worst.reason,
        attempts=max(piece.attempts for piece in guard.pieces),
        words=None if words is None else [(word.word, word.start_time, word.end_time) for word in words],
    )


def evaluate(
    tuned: TunedModel,
    request: EvaluateRequest,
    progress: ReportProgress = no_progress,
    words_by: tuple[TunedModel, TunedVoice] | None = None,
) -> SpokenSet:
    """Speaks the sentences in groups with the requested weights, and measures them. Words are
    measured by the base's likelihood and, if requested, by a recogniser.

    words_by: a model with the same codes that replaces the base for that likelihood.
    """
    import torch

    tasks, facts, spoken = request.sentences, list[SpokenFacts](), list[DecodedSentence]()
    reading = tuned.reading(request.voice)
    recogniser = tuned.recogniser(request.recogniser, tasks[0].request.language if tasks else "")
    natural = tuned.naturalness if any(task.natural for task in tasks) else None
    speaker = tuned.speaker_judge if request.speaker_judge else None
    with torch.inference_mode(), BackgroundHearing(recogniser, reading[0].tokenizer) as hearing:
        model, whose = tuned.speaking(reading, request.voice)
        for first in range(0, len(tasks), SLOTS):
            for sentence in _decode(model, whose, request.rate, tasks[first : first + SLOTS]):
                sound = _vocode(model, whose, sentence) if sentence.task.sounded else None
                measured = _measure(model, sentence, sound, natural, speaker, tuned.mark(request.voice))
                if sentence.task.measured:
                    hearing.begin(len(facts), sound, measured)
                facts.append(measured)
                spoken.append(sentence)
            progress(len(facts) / len(tasks))
        if not request.voice.of_base or words_by is not None:
            listener, asked = words_by or (tuned, replace(request.voice, share=0.0, decoder=None))
            model, whose = listener.speaking(listener.reading(asked), asked)
        facts = [
            replace(measured, words=evidence(model, whose.latents, sentence))
            if sentence.task.measured
            else measured
            for measured, sentence in zip(facts, spoken, strict=True)
        ]
        return SpokenSet(hearing.with_heard(tasks, facts))


def listen(tuned: TunedModel, request: ListenRequest) -> HeardRecordings:
    """Measures recordings, and returns the base's voices. Raises AudioError."""
    from xtts import audio

    recordings, natural = [], tuned.naturalness if request.natural else None
    speaker = tuned.speaker_judge if request.speaker_judge else None
    recogniser = tuned.recogniser(request.recogniser, request.language) if request.texts else None
    for number, path in enumerate(request.recordings):
        waveform = audio.read(path, audio.VOCODER_RATE)
        embedding, hertz, spread = _hear(tuned.model, waveform, speaker)
        score = _natural(natural if number < request.natural else None, waveform)
        errors = None
        if recogniser is not None and number < len(request.texts):
            transcript = recogniser.hear(_for_recogniser(waveform))
            errors = word_errors(tuned.model.tokenizer, request.texts[number], transcript, request.language)
        seconds = len(waveform) / audio.VOCODER_RATE
        recordings.append(RecordingFacts(seconds, embedding, hertz, spread, score, errors))
    # Coqui's `speakers_xtts.pth`: {name: {speaker_embedding: [1, 512, 1], …}}.
    voices = [_round(embedding) for embedding in read_speakers(tuned.base).values()]
    return HeardRecordings(recordings, voices)


def read_speakers(folder: Path) -> "dict[str, Tensor]":
    """The speaker embeddings `[1, 512, 1]`, by name, of the voices published with a base; empty if
    it has no `speakers_xtts.pth`. Raises ConfigError if the file cannot be read."""
    import torch

    from xtts.model.config import ConfigError

    path = folder / "speakers_xtts.pth"
    if not path.is_file():
        return {}
    try:
        speakers = torch.load(path, map_location="cpu", weights_only=True)
        return {name: tensors["speaker_embedding"] for name, tensors in speakers.items()}
    except Exception as error:
        raise ConfigError(f"{path} cannot be read as XTTS-v2's speakers ({load_error(error)}).") from error


def _measure(
    model: "Model",
    sentence: DecodedSentence,
    waveform: "Tensor | None",
    natural: "NaturalnessJudge | None",
    speaker: "SpeakerJudge | None",
    mark: Mark,
) -> SpokenFacts:
    from xtts import audio, encoding, marks

    codes = sum(len(utterance.codes) for utterance in sentence.utterances)
    finished = all(utterance.stopped for utterance in sentence.utterances)
    embedding, hertz, spread, score = list[float](), None, None, None
    if waveform is not None:
        if (out := sentence.task.out) is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            encoding.write_wav(out, marks.watermarked(waveform.cpu().float()), mark=mark)
        if sentence.task.measured:
            embedding, hertz, spread = _hear(model, waveform, speaker)
        score = _natural(natural if sentence.task.natural and finished else None, waveform)
    return SpokenFacts(
        codes=codes,
        text_tokens=sum(len(piece.ids) for piece in sentence.pieces),
        finished=finished,
        seconds=round(codes * audio.SAMPLES_PER_CODE / audio.CODE_RATE, 3),
        embedding=embedding,
        pitch_hz=hertz,
        pitch_spread=spread,
        naturalness=score,
    )


def evidence(model: "Model", latents: "Tensor", sentence: DecodedSentence) -> list[float]:
    """`SpokenFacts.words` from the loaded model, for the pieces that ended."""
    import torch

    from xtts.evaluation.word_evidence import word_evidence

    return [
        round(nats, 3)
        for piece, utterance in zip(sentence.pieces, sentence.utterances, strict=True)
        if utterance.stopped
        for nats in word_evidence(
            model.gpt,
            model.tokenizer,
            latents,
            piece,
            sentence.task.request.language,
            torch.tensor(utterance.codes, device=latents.device),
            stopped=True,
        )
    ]


def _decode(
    model: "Model", whose: "Voice", rate: SpeakingRate, tasks: Sequence[SentenceTask]
) -> list[DecodedSentence]:
    import torch

    from xtts.inference.torch_backend import TorchUtterance, decode

    sentences = [DecodedSentence(task, task.request.read(model.tokenizer), []) for task in tasks]
    batch = []
    for sentence in sentences:
        for number, piece in enumerate(sentence.pieces):
            random = torch.Generator(model.device).manual_seed(sentence.task.request.seed + number)
            most = _most_codes(rate, len(piece.ids))
            sentence.utterances.append(TorchUtterance(model.gpt, model.config.decoding, random, most))
            batch.append((torch.tensor(piece.ids, device=model.device), sentence.utterances[-1]))
    decode(model.gpt, whose.latents, batch, SLOTS)
    return sentences


def _vocode(model: "Model", whose: "Voice", sentence: DecodedSentence) -> "Tensor":
    """The sound `[samples]` of all pieces, float32 on the CPU, without speed, guard or fades."""
    import torch

    from xtts.inference.torch_backend import TorchBackend

    backend = TorchBackend(model)
    parts: list[Tensor] = []
    for piece in sentence.utterances:
        chunks = backend.chunks(whose)
        chunks.add(piece.latents)
        parts += chunks.rest()
    return backend.check(torch.cat(parts))


def _most_codes(rate: SpeakingRate, tokens: int) -> int:
    return math.ceil(RUNAWAY * rate.codes(tokens)) + RUNAWAY_CODES


def _hear(
    model: "Model", waveform: "Tensor", judge: "SpeakerJudge | None"
) -> tuple[list[float], float | None, float | None]:
    """The speaker embedding, by the judge or else the base, the median F0 and its spread."""
    from xtts import audio
    from xtts.evaluation.pitch import pitch
    from xtts.evaluation.speaker_judge import RATE
    from xtts.inference import voice

    rate = audio.VOCODER_RATE
    if len(waveform) < voice.MIN_CHUNK_SECONDS * rate:
        return [], None, None
    if judge is None:
        embedding = voice.speaker_embedding(model, waveform, rate)
    else:
        embedding = judge.embedding(audio.resample(waveform.float(), rate, RATE))
    pitches = pitch(waveform, rate)
    if pitches is None:
        return _round(embedding), None, None
    return _round(embedding), round(pitches.median_hz, 1), round(pitches.spread_semitones, 3)


def _natural(judge: "NaturalnessJudge | None", waveform: "Tensor") -> float | None:
    """The naturalness of a sound; None without a judge, or if the sound is too short."""
    from xtts import audio
    from xtts.evaluation.naturalness import RATE
    from xtts.inference import voice

    if judge is None or len(waveform) < voice.MIN_CHUNK_SECONDS * audio.VOCODER_RATE:
        return None
    return round(judge.mos(audio.resample(waveform.float(), audio.VOCODER_RATE, RATE)), 4)


def _round(embedding: "Tensor") -> list[float]:
    return [round(float(value), 5) for value in embedding.flatten()]


def _for_recogniser(sound: "Tensor") -> "np.ndarray[Any, Any]":
    from xtts import audio
    from xtts.evaluation.recogniser import RATE

    return audio.resample(sound.cpu().float(), audio.VOCODER_RATE, RATE).numpy()
