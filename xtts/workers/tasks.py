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
from typing import TYPE_CHECKING, Any, NamedTuple

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

# A sentence counts as endless at this multiple of its expected codes plus MAX_EXTRA_CODES.
MAX_CODES_RATIO = 2.5
MAX_EXTRA_CODES = 20


@dataclass(frozen=True)
class DecodedSentence:
    """A sentence with its pieces and their decoded codes."""

    task: SentenceTask
    pieces: "list[Piece]"
    utterances: "list[TorchUtterance]"


class VoiceFigures(NamedTuple):
    """The figures of a voice, as in `SpokenFacts`."""

    embedding: list[float]
    pitch_hz: float | None = None
    pitch_spread: float | None = None


class BackgroundHearing:
    """Transcribes sentences while further ones are spoken. Does nothing without a recogniser.

    A context manager, whose exit drops the sentences that are not yet transcribed.
    """

    def __init__(self, recogniser: "Recogniser | None", tokenizer: "Tokenizer") -> None:
        self._recogniser = recogniser
        self._tokenizer = tokenizer
        num_threads = recogniser.at_once if recogniser else 1
        self._pool = ThreadPoolExecutor(num_threads, thread_name_prefix="hearing")
        self._transcripts: dict[int, Future[str]] = {}

    def __enter__(self) -> "BackgroundHearing":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def begin(self, number: int, sound: "Tensor | None", facts: SpokenFacts) -> None:
        """Starts to transcribe a sentence, unless it is endless: these are the longest, and are
        counted separately."""
        if self._recogniser and sound is not None and facts.finished:
            self._transcripts[number] = self._pool.submit(self._recogniser.hear, _for_recogniser(sound))

    def add_transcripts(
        self, tasks: Sequence[SentenceTask], facts: Sequence[SpokenFacts]
    ) -> list[SpokenFacts]:
        """The measurements of all sentences, with their transcripts."""
        results = list(facts)
        for number, future in self._transcripts.items():
            request, transcript = tasks[number].request, future.result()
            error_rate = word_error_rate(self._tokenizer, request.text, transcript, request.language)
            results[number] = replace(results[number], heard=transcript, word_errors=error_rate)
        return results


def word_error_rate(tokenizer: "Tokenizer", text: str, transcript: str, language: str) -> float:
    """The errors of a transcript per word of the text."""
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
        handlers: dict[type[Request[Any]], Any] = {
            SpeakRequest: speak,
            EvaluateRequest: partial(evaluate, progress=progress),
            ListenRequest: listen,
            LearnDecoderRequest: partial(decoder_learning.learn, progress=progress),
        }
        answer: Answer = handlers[type(request)](self, request)
        self.free_gpt()
        return answer


def speak(tuned: TunedModel, request: SpeakRequest) -> SpokenFile:
    """Speaks a text into its file. Reports faults of the text or the recording before it loads
    weights or computes."""
    from xtts import audio, encoding
    from xtts.inference.alignment.guarded_piece import words_of_speech
    from xtts.inference.speech import synthesize
    from xtts.inference.torch_backend import TorchBackend
    from xtts.inference.voice import similarity

    started = time.perf_counter()
    model, reference = tuned.read_reference(request.voice)
    pieces = request.request.read(model.tokenizer)
    model, voice = tuned.load_voice(model, reference, request.voice)
    guard = tuned.new_guard(voice, request.request.seed)
    synthesis = replace(request.request, pieces=pieces)
    waveform = synthesize(TorchBackend(model), voice, synthesis, guard)
    encoding.write_wav(request.out, waveform.cpu().float(), mark=tuned.mark_of(request.voice))
    cosine = similarity(tuned.model, waveform, audio.VOCODER_RATE, voice)
    audio_seconds = len(waveform) / audio.VOCODER_RATE
    spoken = SpokenFile(time.perf_counter() - started, audio_seconds, tuned.compute.device, cosine)
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

    words_by: a model with the same codes, and a voice, that replace the base for that likelihood.
    """
    import torch

    tasks, facts, sentences = request.sentences, list[SpokenFacts](), list[DecodedSentence]()
    model, reference = tuned.read_reference(request.voice)
    recogniser = tuned.open_recogniser(request.recogniser, tasks[0].request.language if tasks else "")
    naturalness_judge = tuned.naturalness_judge if any(task.natural for task in tasks) else None
    speaker_judge = tuned.speaker_judge if request.speaker_judge else None
    mark = tuned.mark_of(request.voice)
    with torch.inference_mode(), BackgroundHearing(recogniser, model.tokenizer) as hearing:
        model, voice = tuned.load_voice(model, reference, request.voice)
        for first in range(0, len(tasks), SLOTS):
            for sentence in _decode(model, voice, request.rate, tasks[first : first + SLOTS]):
                sound = _vocode(model, voice, sentence) if sentence.task.sounded else None
                measured = _measure(model, sentence, sound, naturalness_judge, speaker_judge, mark)
                if sentence.task.measured:
                    hearing.begin(len(facts), sound, measured)
                facts.append(measured)
                sentences.append(sentence)
            progress(len(facts) / len(tasks))
        if not request.voice.of_base or words_by is not None:
            scorer, scorer_voice = words_by or (tuned, replace(request.voice, share=0.0, decoder=None))
            model, voice = scorer.load_voice(*scorer.read_reference(scorer_voice), scorer_voice)
        facts = [
            replace(measured, words=score_words(model, voice.latents, sentence))
            if sentence.task.measured
            else measured
            for measured, sentence in zip(facts, sentences, strict=True)
        ]
        return SpokenSet(hearing.add_transcripts(tasks, facts))


def listen(tuned: TunedModel, request: ListenRequest) -> HeardRecordings:
    """Measures recordings, and returns the base's voices. Raises AudioError."""
    from xtts import audio

    recordings, naturalness_judge = [], tuned.naturalness_judge if request.natural else None
    speaker_judge = tuned.speaker_judge if request.speaker_judge else None
    recogniser = tuned.open_recogniser(request.recogniser, request.language) if request.texts else None
    for number, path in enumerate(request.recordings):
        waveform = audio.read(path, audio.VOCODER_RATE)
        figures = _measure_voice(tuned.model, waveform, speaker_judge)
        naturalness = _score_naturalness(naturalness_judge if number < request.natural else None, waveform)
        error_rate = None
        if recogniser is not None and number < len(request.texts):
            transcript = recogniser.hear(_for_recogniser(waveform))
            error_rate = word_error_rate(
                tuned.model.tokenizer, request.texts[number], transcript, request.language
            )
        seconds = len(waveform) / audio.VOCODER_RATE
        recordings.append(RecordingFacts(seconds, *figures, naturalness, error_rate))
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
    naturalness_judge: "NaturalnessJudge | None",
    speaker_judge: "SpeakerJudge | None",
    mark: Mark,
) -> SpokenFacts:
    from xtts import audio, encoding, marks

    num_codes = sum(len(utterance.codes) for utterance in sentence.utterances)
    finished = all(utterance.stopped for utterance in sentence.utterances)
    figures, naturalness = VoiceFigures([]), None
    if waveform is not None:
        if (out := sentence.task.out) is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            encoding.write_wav(out, marks.watermarked(waveform.cpu().float()), mark=mark)
        if sentence.task.measured:
            figures = _measure_voice(model, waveform, speaker_judge)
        is_judged = sentence.task.natural and finished
        naturalness = _score_naturalness(naturalness_judge if is_judged else None, waveform)
    return SpokenFacts(
        codes=num_codes,
        text_tokens=sum(len(piece.ids) for piece in sentence.pieces),
        finished=finished,
        seconds=round(num_codes * audio.SAMPLES_PER_CODE / audio.CODE_RATE, 3),
        embedding=figures.embedding,
        pitch_hz=figures.pitch_hz,
        pitch_spread=figures.pitch_spread,
        naturalness=naturalness,
    )


def score_words(model: "Model", latents: "Tensor", sentence: DecodedSentence) -> list[float]:
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
    model: "Model", voice: "Voice", rate: SpeakingRate, tasks: Sequence[SentenceTask]
) -> list[DecodedSentence]:
    import torch

    from xtts.inference.torch_backend import TorchUtterance, decode

    sentences = [DecodedSentence(task, task.request.read(model.tokenizer), []) for task in tasks]
    batch = []
    for sentence in sentences:
        for number, piece in enumerate(sentence.pieces):
            generator = torch.Generator(model.device).manual_seed(sentence.task.request.seed + number)
            max_codes = _max_codes(rate, len(piece.ids))
            utterance = TorchUtterance(model.gpt, model.config.decoding, generator, max_codes)
            sentence.utterances.append(utterance)
            batch.append((torch.tensor(piece.ids, device=model.device), utterance))
    decode(model.gpt, voice.latents, batch, SLOTS)
    return sentences


def _vocode(model: "Model", voice: "Voice", sentence: DecodedSentence) -> "Tensor":
    """The sound `[samples]` of all pieces, float32 on the CPU, without speed, guard or fades."""
    import torch

    from xtts.inference.torch_backend import TorchBackend

    backend = TorchBackend(model)
    waveforms: list[Tensor] = []
    for utterance in sentence.utterances:
        chunks = backend.chunks(voice)
        chunks.add(utterance.latents)
        waveforms += chunks.rest()
    return backend.check(torch.cat(waveforms))


def _max_codes(rate: SpeakingRate, num_tokens: int) -> int:
    return math.ceil(MAX_CODES_RATIO * rate.codes(num_tokens)) + MAX_EXTRA_CODES


def _measure_voice(model: "Model", waveform: "Tensor", judge: "SpeakerJudge | None") -> VoiceFigures:
    """Measures a sound; the judge computes the speaker embedding, or else the base."""
    from xtts import audio
    from xtts.evaluation.pitch import measure_pitch
    from xtts.evaluation.speaker_judge import RATE
    from xtts.inference import voice

    rate = audio.VOCODER_RATE
    if len(waveform) < voice.MIN_CHUNK_SECONDS * rate:
        return VoiceFigures([])
    if judge is None:
        embedding = voice.speaker_embedding(model, waveform, rate)
    else:
        embedding = judge.embedding(audio.resample(waveform.float(), rate, RATE))
    pitches = measure_pitch(waveform, rate)
    if pitches is None:
        return VoiceFigures(_round(embedding))
    return VoiceFigures(_round(embedding), round(pitches.median_hz, 1), round(pitches.spread_semitones, 3))


def _score_naturalness(judge: "NaturalnessJudge | None", waveform: "Tensor") -> float | None:
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
