"""Takes: speaks a text several times in one batch, with different seeds, and keeps the best take.

Best-of-n sampling with a gate: of the takes within three quarters of the best similarity to the
recording, the one with the fewest word errors is kept, and of several such takes the one with the
best endings. So a take that sounds like another person is not kept for its words.

Importing this module does not import torch. The judges are opened when they are first needed.
"""

import functools
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xtts.inference.alignment.guarded_piece import SpokenPiece
from xtts.inference.alignment.heads import Array
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.speech import ContinuousBatcher, Voice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.shapes import VOCODER_RATE
from xtts.voices import speakers

if TYPE_CHECKING:
    from torch import Tensor

    from xtts.evaluation.recogniser import Recogniser
    from xtts.evaluation.speaker_judge import SpeakerJudge
    from xtts.joined_reference import Reference
    from xtts.model.loading import Model

log = logging.getLogger(__name__)

# Far from the seeds of users, of the guard and of a book's retakes, and below 2**32, because
# torch's generator on a CPU uses only 32 bits.
TAKE_SEED_STRIDE = 10_000_019
_NUM_SEEDS = 2**63
# A share of the best similarity.
_MAX_SIMILARITY_LOSS = 0.25
# The mean cosine, by the speaker judge, of the clips of ten LibriSpeech readers to another reader.
# A similarity of 0, because otherwise a stranger is within three quarters of the best.
STRANGER_COSINE = 0.54


@dataclass(frozen=True)
class TakeFigures:
    """The figures by which takes are compared.

    Attributes:
        similarity: To the speaker's recording: 1 is equal, 0 a stranger. None if not compared.
        word_errors: Substituted, missing and inserted words. None without a recogniser.
        faulty: The number of pieces that ended badly.
        attempts: The number of attempts at all pieces.
    """

    similarity: float | None = None
    word_errors: int | None = None
    faulty: int = 0
    attempts: int = 0


@dataclass(frozen=True)
class TakeChoice:
    """The take that is kept. number: from 0; count: the number of takes; reason: the criterion that
    decided."""

    number: int
    count: int
    figures: TakeFigures
    reason: str

    def __str__(self) -> str:
        parts = []
        if (similarity := self.figures.similarity) is not None:
            parts.append(f"voice {similarity:.2f}")
        if (errors := self.figures.word_errors) is not None:
            words = {0: "no word", 1: "1 word"}.get(errors, f"{errors} words")
            parts.append(f"{words} missed")
        note = f" ({', '.join(parts)})" if parts else ""
        return f"take {self.number + 1} of {self.count}{note}"


# The criteria after the similarity; the lowest figure is the best.
_CRITERIA: tuple[tuple[str, Callable[[TakeFigures], int | None]], ...] = (
    ("word errors", lambda figures: figures.word_errors),
    ("endings", lambda figures: figures.faulty),
    ("attempts", lambda figures: figures.attempts),
)


def choose_take(takes: Sequence[TakeFigures]) -> TakeChoice:
    """Chooses one of the takes, which are in the order of their seeds. Skips a criterion that is
    unknown for one of the remaining takes."""
    remaining, reason = _find_similar_takes(takes), "similarity"
    for name, figure_of in _CRITERIA:
        figures = {number: figure_of(takes[number]) for number in remaining}
        values = [value for value in figures.values() if value is not None]
        if len(remaining) > 1 and len(values) == len(remaining):
            remaining = [number for number in remaining if figures[number] == min(values)]
            reason = name
    number = remaining[0]
    return TakeChoice(number, len(takes), takes[number], reason if len(remaining) == 1 else "seed")


def _find_similar_takes(takes: Sequence[TakeFigures]) -> list[int]:
    """The numbers of the takes within three quarters of the best similarity."""
    similarities = [figures.similarity for figures in takes if figures.similarity is not None]
    if not similarities:
        return list(range(len(takes)))
    best = max(similarities)
    # Also below 0, where no take sounds like the recording.
    minimum = best - _MAX_SIMILARITY_LOSS * abs(best)
    return [
        number
        for number, figures in enumerate(takes)
        if figures.similarity is not None and figures.similarity >= minimum
    ]


@dataclass(frozen=True)
class Take:
    """A spoken take: the sound `[samples]` of each piece, float32, and the guard's results."""

    sounds: Sequence[Array]
    pieces: Sequence[SpokenPiece] = ()

    @property
    def waveform(self) -> Array:
        """All sound `[samples]`."""
        return np.concatenate(self.sounds)


def request_of_take(request: SynthesisRequest, number: int) -> SynthesisRequest:
    """The request of a take. number: from 0, which keeps the seed. `whole`, so that a faulty piece
    is spoken again."""
    return replace(request, seed=(request.seed + TAKE_SEED_STRIDE * number) % _NUM_SEEDS, whole=True)


def speak_takes(voice: LoadedVoice, request: SynthesisRequest, count: int) -> list[Take]:
    """Speaks a text `count` times with the voice's own latents, decoded together as far as the
    backend has slots. Raises the errors of `LoadedVoice.synthesize`."""
    request = replace(request, pieces=request.read(voice.model.tokenizer))
    cast, default_voice = voice.cast_of(request), voice.default_voice()
    batcher = ContinuousBatcher(voice.backend(count), voice.guard)
    # The chunks of each piece, and the guard's results, by take.
    chunks_of_pieces: list[list[list[Array]]] = [[[]] for _ in range(count)]
    spoken_pieces: list[Sequence[SpokenPiece]] = [()] * count
    waiting = deque(range(count))
    while waiting or not batcher.empty:
        while waiting and batcher.num_free:
            number = waiting.popleft()
            if not batcher.begin_next_piece(str(number)):
                batcher.enter(str(number), default_voice, request_of_take(request, number), cast)
        for output in batcher.step():
            if output.error is not None:
                raise output.error
            number = int(output.name)
            chunks_of_pieces[number][-1] += map(np.asarray, output.chunks)
            if output.speech.paused:
                chunks_of_pieces[number].append([])
                waiting.appendleft(number)
            spoken_pieces[number] = output.speech.pieces
    return [
        Take([np.concatenate(chunks) for chunks in piece_chunks if chunks], pieces)
        for piece_chunks, pieces in zip(chunks_of_pieces, spoken_pieces, strict=True)
    ]


def speak_best(
    voice: LoadedVoice, request: SynthesisRequest, count: int, recogniser: str = "auto"
) -> tuple[Take, TakeChoice]:
    """The best of `count` takes of a text, and why. recogniser: as EVALUATE_RECOGNISER.

    Raises the errors of `LoadedVoice.synthesize`, and SotaqueError for an invalid recogniser.
    """
    judge = TakeJudge(voice, recogniser)
    takes = speak_takes(voice, request, count)
    choice = judge.choose(request, takes)
    return takes[choice.number], choice


class TakeJudge:
    """Judges the takes of one voice.

    Args:
        voice: The voice that spoke them.
        recogniser: `auto`, `off`, or the folder of a Whisper model, as EVALUATE_RECOGNISER.
    """

    def __init__(self, voice: LoadedVoice, recogniser: str = "auto") -> None:
        self._voice, self._setting = voice, recogniser
        self._comparisons: dict[str, Callable[[Array], float | None] | None] = {}

    @property
    def identity(self) -> list[str]:
        """What the choice depends on besides the takes."""
        from xtts.evaluation import recogniser, speaker_judge

        judge = "base" if speaker_judge.missing_reason() else speaker_judge.PACKAGE
        return [judge, self._setting, recogniser.POCKETSPHINX * recogniser.can_hear_english()]

    def choose(self, request: SynthesisRequest, takes: Sequence[Take], speaker: str = "") -> TakeChoice:
        """Chooses one of the takes of a request. speaker: as in `LoadedVoice.speaker`."""
        if speaker not in self._comparisons:
            self._comparisons[speaker] = self._new_comparison(speaker)
        compare = self._comparisons[speaker]
        word_errors = self._word_errors(request, takes)
        figures = [
            TakeFigures(
                similarity=compare(take.waveform) if compare else None,
                word_errors=num_errors,
                faulty=sum(piece.faulty for piece in take.pieces),
                attempts=sum(piece.attempts for piece in take.pieces),
            )
            for take, num_errors in zip(takes, word_errors, strict=True)
        ]
        choice = choose_take(figures)
        log.info("%s, by its %s", choice, choice.reason)
        return choice

    def _new_comparison(self, speaker: str) -> Callable[[Array], float | None] | None:
        """Returns the similarity of a waveform to a speaker; None if nothing can compare them."""
        judge, recording = _speaker_judge(), self._recording(speaker)
        if judge is not None and recording is not None:
            return functools.partial(
                _judged_similarity, judge, _embed_recording(judge, self._voice, recording)
            )
        model = self._voice.model
        if getattr(model, "speaker_encoder", None) is not None:
            voice = self._voice.speaker(speaker) if speaker else self._voice.default_voice()
            return functools.partial(_base_similarity, model, voice)
        _warn_once("The voices of takes are not compared: this voice has no recording to compare with.")
        return None

    def _recording(self, speaker: str) -> "Reference | None":
        files = self._voice.files
        if not (name := speakers.find_speaker(speaker, files.own_name, files.speakers)):
            return files.requested_reference or files.reference
        path: Path = files.speakers[name]
        return path if path.suffix == ".wav" else None

    def _word_errors(self, request: SynthesisRequest, takes: Sequence[Take]) -> Sequence[int | None]:
        """The word errors of each take; None without a recogniser for the language."""
        from xtts.evaluation import recogniser as recognisers

        name, reason = recognisers.recogniser_of(self._setting, request.language)
        if reason is not None:
            _warn_once(f"The words of takes are not checked: {reason}.")
            return [None] * len(takes)
        tokenizer, language = self._voice.model.tokenizer, request.language
        recogniser = _recogniser(name, language)
        expected_words = recognisers.words_of(tokenizer, request.text, language)

        def count_errors(take: Take) -> int:
            # Piece by piece, because Whisper hears at most 30 s.
            transcripts = (recogniser.hear(_resample(sound, recognisers.RATE)) for sound in take.sounds)
            heard_words = recognisers.heard_words(tokenizer, " ".join(transcripts), language)
            return recognisers.num_errors(expected_words, heard_words)

        try:
            with ThreadPoolExecutor(recogniser.at_once) as pool:
                return list(pool.map(count_errors, takes))
        except recognisers.RecogniserError as error:
            _warn_once(f"The words of takes are not checked: {error}")
            return [None] * len(takes)


@functools.cache
def _warn_once(message: str) -> None:
    log.warning("%s", message)


@functools.cache
def _speaker_judge() -> "SpeakerJudge | None":
    from xtts.evaluation import speaker_judge

    path = speaker_judge.weights_file()
    return None if path is None else speaker_judge.SpeakerJudge(path)


@functools.lru_cache(maxsize=2)
def _recogniser(name: str, language: str) -> "Recogniser":
    import torch

    from xtts.evaluation import recogniser

    return recogniser.open_recogniser(name, language, torch.get_num_threads())


def _embed_recording(judge: "SpeakerJudge", voice: LoadedVoice, recording: "Reference") -> "Tensor":
    from xtts import audio
    from xtts.evaluation.speaker_judge import RATE
    from xtts.inference.voice import read_reference

    sound = read_reference(voice.model.config, recording)
    return judge.embedding(audio.resample(sound, audio.CODE_RATE, RATE))


def _judged_similarity(judge: "SpeakerJudge", person: "Tensor", waveform: Array) -> float:
    import torch

    from xtts.evaluation.speaker_judge import RATE

    cosine = float(judge.embedding(torch.from_numpy(_resample(waveform, RATE))) @ person)
    return (cosine - STRANGER_COSINE) / (1 - STRANGER_COSINE)


def _base_similarity(model: "Model", voice: Voice, waveform: Array) -> float | None:
    """The cosine by the base's own encoder; None for less than it can encode."""
    import torch

    from xtts.inference.voice import MIN_CHUNK_SECONDS, similarity

    if len(waveform) < MIN_CHUNK_SECONDS * VOCODER_RATE:
        return None
    with torch.inference_mode():
        return similarity(model, torch.from_numpy(waveform), VOCODER_RATE, voice)


def _resample(waveform: Array, rate: int) -> Array:
    import torch

    from xtts import audio

    sound = torch.from_numpy(np.asarray(waveform, np.float32))
    resampled: Array = audio.resample(sound, VOCODER_RATE, rate).numpy()
    return resampled
