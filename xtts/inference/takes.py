"""Takes: speaks a text several times in one batch, with different seeds, and keeps the best take.

The best one is chosen by a gate, as in best-of-n sampling of speech: of the takes within three
quarters of the best similarity to the recording, the one with the fewest word errors, then the one
with the best endings. So a take that sounds like another person is not kept for its words.

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
TAKE_STRIDE = 10_000_019
_SEEDS = 2**63
# A take may be this share of the best similarity less similar.
_GATE = 0.25
# The mean cosine, by the speaker judge, of the clips of ten LibriSpeech readers to another reader.
# Without it as the zero, a stranger is within three quarters of the best.
STRANGER = 0.54


@dataclass(frozen=True)
class Figures:
    """What is known of a take.

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
class Choice:
    """The take that is kept. number: from 0; count: of the takes; figures: its own; reason: the
    criterion that decided."""

    number: int
    count: int
    figures: Figures
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


# The criteria after the similarity, each with its figure, of which the least is best.
_CRITERIA: tuple[tuple[str, Callable[[Figures], int | None]], ...] = (
    ("word errors", lambda figures: figures.word_errors),
    ("endings", lambda figures: figures.faulty),
    ("attempts", lambda figures: figures.attempts),
)


def choose(takes: Sequence[Figures]) -> Choice:
    """Chooses a take, in the order of their seeds. A criterion that is unknown for one of the
    remaining takes is skipped."""
    left, reason = _similar(takes), "similarity"
    for name, figure in _CRITERIA:
        figures = {number: figure(takes[number]) for number in left}
        values = [value for value in figures.values() if value is not None]
        if len(left) > 1 and len(values) == len(left):
            left, reason = [number for number in left if figures[number] == min(values)], name
    return Choice(left[0], len(takes), takes[left[0]], reason if len(left) == 1 else "seed")


def _similar(takes: Sequence[Figures]) -> list[int]:
    """The numbers of the takes within three quarters of the best similarity."""
    similarities = [figures.similarity for figures in takes if figures.similarity is not None]
    if not similarities:
        return list(range(len(takes)))
    # Also below 0, where no take sounds like the recording.
    least = max(similarities) - _GATE * abs(max(similarities))
    return [
        number
        for number, figures in enumerate(takes)
        if figures.similarity is not None and figures.similarity >= least
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


def request_of(request: SynthesisRequest, number: int) -> SynthesisRequest:
    """The request of a take; number: from 0, which keeps the seed. Whole, so that a faulty piece
    is spoken again."""
    return replace(request, seed=(request.seed + TAKE_STRIDE * number) % _SEEDS, whole=True)


def speak_takes(voice: LoadedVoice, request: SynthesisRequest, count: int) -> list[Take]:
    """Speaks a text `count` times with the voice's own latents, decoded together as far as the
    backend has slots. Raises the errors of `LoadedVoice.synthesize`."""
    request = replace(request, pieces=request.read(voice.model.tokenizer))
    names = {piece.voice for piece in request.pieces or ()} - {""}
    cast, whose = {name: voice.speaker(name) for name in names}, _own_voice(voice)
    batcher = ContinuousBatcher(voice.backend(count), voice.guard)
    sounds: list[list[list[Array]]] = [[[]] for _ in range(count)]
    pieces: list[Sequence[SpokenPiece]] = [()] * count
    waiting = deque(range(count))
    while waiting or not batcher.empty:
        while waiting and batcher.free:
            number = waiting.popleft()
            if not batcher.go_on(str(number)):
                batcher.enter(str(number), whose, request_of(request, number), cast)
        for output in batcher.step():
            if output.error is not None:
                raise output.error
            number = int(output.name)
            sounds[number][-1] += map(np.asarray, output.chunks)
            if output.speech.paused:
                sounds[number].append([])
                waiting.appendleft(number)
            pieces[number] = output.speech.pieces
    return [
        Take([np.concatenate(chunks) for chunks in sounds[number] if chunks], pieces[number])
        for number in range(count)
    ]


def speak_best(
    voice: LoadedVoice, request: SynthesisRequest, count: int, recogniser: str = "auto"
) -> tuple[Take, Choice]:
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
        self._compared: dict[str, Callable[[Array], float | None] | None] = {}

    @property
    def identity(self) -> list[str]:
        """What the choice depends on besides the takes."""
        from xtts.evaluation import recogniser, speaker_judge

        by = "base" if speaker_judge.missing() else speaker_judge.PACKAGE
        return [by, self._setting, recogniser.POCKETSPHINX * recogniser.can_hear_english()]

    def choose(self, request: SynthesisRequest, takes: Sequence[Take], speaker: str = "") -> Choice:
        """Chooses one of the takes of a request. speaker: as in `LoadedVoice.speaker`."""
        if speaker not in self._compared:
            self._compared[speaker] = self._comparison(speaker)
        compare = self._compared[speaker]
        errors = self._word_errors(request, takes)
        chosen = choose(
            [
                Figures(
                    compare(take.waveform) if compare else None,
                    missed,
                    sum(piece.faulty for piece in take.pieces),
                    sum(piece.attempts for piece in take.pieces),
                )
                for take, missed in zip(takes, errors, strict=True)
            ]
        )
        log.info("%s, by its %s", chosen, chosen.reason)
        return chosen

    def _comparison(self, speaker: str) -> Callable[[Array], float | None] | None:
        """Returns the similarity of a waveform to a speaker; None if nothing can compare them."""
        judge, recording = _speaker_judge(), self._recording(speaker)
        if judge is not None and recording is not None:
            return functools.partial(_scaled_likeness, judge, _embed(judge, self._voice, recording))
        model = self._voice.model
        if getattr(model, "speaker_encoder", None) is not None:
            whose = self._voice.speaker(speaker) if speaker else _own_voice(self._voice)
            return functools.partial(_by_base, model, whose)
        _tell("The voices of takes are not compared: this voice has no recording to compare with.")
        return None

    def _recording(self, speaker: str) -> "Reference | None":
        files = self._voice.files
        if not (name := speakers.find(speaker, files.own_name, files.speakers)):
            return files.other_reference or files.reference
        path: Path = files.speakers[name]
        return path if path.suffix == ".wav" else None

    def _word_errors(self, request: SynthesisRequest, takes: Sequence[Take]) -> Sequence[int | None]:
        """The word errors of each take; None without a recogniser for the language."""
        from xtts.evaluation import recogniser

        name, reason = recogniser.recogniser_of(self._setting, request.language)
        if reason is not None:
            _tell(f"The words of takes are not checked: {reason}.")
            return [None] * len(takes)
        tokenizer, language = self._voice.model.tokenizer, request.language
        ears = _recogniser(name, language)
        words = recogniser.words_of(tokenizer, request.text, language)

        def errors(take: Take) -> int:
            # Piece by piece, because Whisper hears at most 30 s.
            heard = " ".join(ears.hear(_resample(sound, recogniser.RATE)) for sound in take.sounds)
            return recogniser.num_errors(words, recogniser.heard_words(tokenizer, heard, language))

        try:
            with ThreadPoolExecutor(ears.at_once) as pool:
                return list(pool.map(errors, takes))
        except recogniser.RecogniserError as error:
            _tell(f"The words of takes are not checked: {error}")
            return [None] * len(takes)


def _own_voice(voice: LoadedVoice) -> Voice:
    return voice.own_voice or voice.placeholder_voice()


@functools.cache
def _tell(message: str) -> None:
    """Logs a message once."""
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


def _embed(judge: "SpeakerJudge", voice: LoadedVoice, recording: "Reference") -> "Tensor":
    from xtts import audio
    from xtts.evaluation.speaker_judge import RATE
    from xtts.inference.voice import read_reference

    sound = read_reference(voice.model.config, recording)
    return judge.embedding(audio.resample(sound, audio.CODE_RATE, RATE))


def _scaled_likeness(judge: "SpeakerJudge", person: "Tensor", waveform: Array) -> float:
    import torch

    from xtts.evaluation.speaker_judge import RATE

    cosine = float(judge.embedding(torch.from_numpy(_resample(waveform, RATE))) @ person)
    return (cosine - STRANGER) / (1 - STRANGER)


def _by_base(model: "Model", whose: Voice, waveform: Array) -> float | None:
    """The cosine by the base's own encoder; None for less than it can encode."""
    import torch

    from xtts.inference import voice

    if len(waveform) < voice.MIN_CHUNK_SECONDS * VOCODER_RATE:
        return None
    with torch.inference_mode():
        return voice.similarity(model, torch.from_numpy(waveform), VOCODER_RATE, whose)


def _resample(waveform: Array, rate: int) -> Array:
    import torch

    from xtts import audio

    sound = torch.from_numpy(np.asarray(waveform, np.float32))
    resampled: Array = audio.resample(sound, VOCODER_RATE, rate).numpy()
    return resampled
