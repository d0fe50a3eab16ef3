"""What the evaluation of a run asks of the worker that speaks files: facts about recordings, and
about sentences as some weights speak them. Judged elsewhere (`train.evaluation.judges`).

Importing this module imports no torch.
"""

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from xtts.evaluation.recogniser import Recogniser
    from xtts.inference.decoding import DecodingResult
    from xtts.inference.voice import Voice
    from xtts.model.loading import Model
    from xtts.text.tokenizer import Piece

# Spoken at once; always as many rows, so that a sentence is the same whoever is beside it.
SLOTS = 8
# A sentence that is still being said after so many times its expected length does not end.
RUNAWAY = 2.5
RUNAWAY_CODES = 20
# So many codes of each row say how fast a machine speaks.
TRIAL_CODES = RUNAWAY_CODES


@dataclass(frozen=True)
class SpeakingRate:
    """How many codes a text takes: `per_text + per_token * tokens`."""

    per_token: float
    per_text: float

    def codes(self, tokens: int) -> float:
        """Of a text of so many tokens."""
        return self.per_text + self.per_token * tokens


@dataclass(frozen=True)
class SentenceTask:
    """A sentence to speak.

    Attributes:
        sounded: Whether the vocoder speaks it too, which costs more than all else together: without
            it a sentence has codes and no voice.
        out: Where its sound is kept; None where it is not.
    """

    text: str
    language: str
    seed: int
    sounded: bool = True
    out: Path | None = None


@dataclass(frozen=True)
class EvaluateRequest:
    """Sentences to speak and to measure.

    Attributes:
        sentences: In the order in which they are spoken.
        reference: Who speaks.
        weights: A checkpoint; None is the base's own.
        share: Of the checkpoint's weights; the rest is the base's. 0 is the base, which then reads
            the texts as the checkpoint's run does.
        rate: What ends a sentence that does not end.
        budget_seconds: No group of sentences that would end later is begun; None speaks all.
        at_least: So many are spoken in any case.
        recogniser: What listens to the sounds, as `xtts.evaluation.recogniser.opened`; "" is none.
        speaker: A speaker embedding `[512]` in the place of the reference's own.
    """

    sentences: tuple[SentenceTask, ...]
    reference: Path
    weights: Path | None
    share: float
    rate: SpeakingRate
    budget_seconds: float | None = None
    at_least: int = SLOTS
    recogniser: str = ""
    speaker: tuple[float, ...] | None = None

    @property
    def of_base(self) -> bool:
        """Whether the base's own weights speak."""
        return self.weights is None or self.share == 0


@dataclass(frozen=True)
class SpokenFacts:
    """Measurements of one sentence.

    Attributes:
        codes: Decoded, without STOP.
        text_tokens: Text ids of its pieces.
        finished: Every piece ended by itself.
        seconds: Length of the sound.
        embedding: Of the speaker, `[512]`; empty where there is no sound, or too little.
        pitch_hz: Median F0, or None.
        words: Evidence for each word in nats a token (`xtts.evaluation.word_evidence`).
        heard: What a recogniser heard; None where none listened, or there is no sound.
        word_errors: Errors in it, as a share of the words that were to be said.
    """

    codes: int
    text_tokens: int
    finished: bool
    seconds: float
    embedding: list[float] = field(default_factory=list)
    pitch_hz: float | None = None
    words: list[float] = field(default_factory=list)
    heard: str | None = None
    word_errors: float | None = None


@dataclass(frozen=True)
class SpokenSet:
    """The first so many of the sentences asked for; seconds: how long it took."""

    sentences: list[SpokenFacts]
    seconds: float
    device: str


@dataclass(frozen=True)
class ListenRequest:
    """Recordings to measure, beside the voices that come with the base."""

    recordings: tuple[Path, ...]


@dataclass(frozen=True)
class RecordingFacts:
    """Measurements of a recording, as of a spoken sentence."""

    seconds: float
    embedding: list[float]
    pitch_hz: float | None


@dataclass(frozen=True)
class HeardRecordings:
    """recordings: in the order asked for; base_voices: speaker embeddings of the voices that the
    base was published with, empty where it has none."""

    recordings: list[RecordingFacts]
    base_voices: list[list[float]]


@dataclass(frozen=True)
class TrialRequest:
    """A few codes of a text are spoken, to know how long more of them will take."""

    text: str
    language: str
    reference: Path
    recogniser: str = ""


@dataclass(frozen=True)
class SpeakingSpeed:
    """What speaking and judging cost on one machine, in seconds.

    Attributes:
        loading: Weights are read and the reference is heard.
        step: One step of `SLOTS` rows, a code of each.
        sound: A code by the vocoder.
        hearing: A code that is listened to: speaker, pitch, recogniser.
        word: A code of a sentence in which one word is asked about.
    """

    loading: float
    step: float
    sound: float
    hearing: float
    word: float


@dataclass(frozen=True)
class DecodedSentence:
    """A sentence with its pieces and what was decoded of each."""

    task: SentenceTask
    pieces: "list[Piece]"
    said: "list[DecodingResult]"


class Hearing(Protocol):
    """Who listens to what is spoken (`xtts.workers.background_hearing`)."""

    def begin(
        self,
        tasks: Sequence[SentenceTask],
        sounds: "Sequence[Tensor | None]",
        facts: Sequence[SpokenFacts],
    ) -> None:
        """The next group is spoken."""
        ...

    def catch_up(self) -> None:
        """Another group is about to be spoken."""
        ...


def listen(model: "Model", base: Path, request: ListenRequest) -> HeardRecordings:
    """Measures recordings, and the voices that come with the base. Raises AudioError."""
    from xtts import audio

    found = []
    for path in request.recordings:
        waveform = audio.read(path, audio.VOCODER_RATE)
        embedding, pitch = _heard(model, waveform)
        found.append(RecordingFacts(len(waveform) / audio.VOCODER_RATE, embedding, pitch))
    return HeardRecordings(found, _base_voices(base))


def trial(
    model: "Model", whose: "Voice", request: TrialRequest, loading: float,
    recogniser: "Recogniser | None",
) -> SpeakingSpeed:  # fmt: skip
    """Speaks the first codes of a text in every row, and judges one row of it.

    loading: as in `SpeakingSpeed`. Draws from no global random state.
    """
    from xtts import audio
    from xtts.evaluation.recogniser import RATE
    from xtts.evaluation.word_evidence import word_evidence

    clock = [time.perf_counter()]
    tasks = [SentenceTask(request.text, request.language, seed) for seed in range(SLOTS)]
    utterances = _decoded(model, whose, SpeakingRate(0.0, 0.0), tasks)
    clock.append(time.perf_counter())
    longest = max(utterances, key=lambda one: len(one.said[0].codes))
    piece, said = longest.pieces[0], longest.said[0]
    codes = max(1, len(said.codes))
    sound = _sound(model, whose, replace(longest, pieces=[piece], said=[said]))
    clock.append(time.perf_counter())
    _heard(model, sound)
    if recogniser is not None:
        recogniser.hear([audio.resample(sound.cpu().float(), audio.VOCODER_RATE, RATE).numpy()])
    clock.append(time.perf_counter())
    words = word_evidence(
        model.gpt, model.tokenizer, whose.latents, piece, request.language, said.codes, stopped=True
    )
    clock.append(time.perf_counter())
    step, made, heard, asked = (after - before for before, after in itertools.pairwise(clock))
    return SpeakingSpeed(
        loading, step / codes, made / codes, heard / codes, asked / codes / max(1, len(words))
    )


def speak_all(
    model: "Model",
    whose: "Voice",
    request: EvaluateRequest,
    started: float,
    hearing: Hearing,
) -> tuple[list["SpokenFacts"], list["DecodedSentence"]]:
    """Speaks the sentences, a group at once, as far as the budget goes.

    started: when the budget began, as `time.perf_counter`; hearing: listens to what has a sound,
    and tells what it heard when all is spoken.

    Returns:
        Their measurements, and what was decoded. `words` are measured here where the base itself
        speaks, and are to be measured by it elsewhere (`evidence`).
    """
    facts: list[SpokenFacts] = []
    spoken: list[DecodedSentence] = []
    for first in range(0, len(request.sentences), SLOTS):
        group = request.sentences[first : first + SLOTS]
        hearing.catch_up()
        if _too_late(request, time.perf_counter() - started, len(facts), len(group)):
            break
        utterances = _decoded(model, whose, request.rate, group)
        sounds = [_sound(model, whose, one) if one.task.sounded else None for one in utterances]
        measured = [
            _measured(model, utterance, sound)
            for utterance, sound in zip(utterances, sounds, strict=True)
        ]
        hearing.begin(group, sounds, measured)
        if request.of_base:
            said = [evidence(model, whose.latents, utterance) for utterance in utterances]
            measured = [
                replace(one, words=words) for one, words in zip(measured, said, strict=True)
            ]
        facts += measured
        spoken += utterances
    return facts, spoken


def _too_late(request: EvaluateRequest, elapsed: float, done: int, count: int) -> bool:
    """Whether another group would not fit into the budget, going by those before."""
    if request.budget_seconds is None or done < request.at_least or not done:
        return False
    return elapsed * (1 + count / done) > request.budget_seconds


def _measured(
    model: "Model", utterance: "DecodedSentence", waveform: "Tensor | None"
) -> SpokenFacts:
    from xtts.audio import CODE_RATE, SAMPLES_PER_CODE

    codes = sum(len(said.codes) for said in utterance.said)
    embedding: list[float] = []
    pitch: float | None = None
    if waveform is not None:
        if utterance.task.out is not None:
            _keep(utterance.task.out, waveform)
        embedding, pitch = _heard(model, waveform)
    return SpokenFacts(
        codes=codes,
        text_tokens=sum(len(piece.ids) for piece in utterance.pieces),
        finished=all(said.stopped for said in utterance.said),
        seconds=round(codes * SAMPLES_PER_CODE / CODE_RATE, 3),
        embedding=embedding,
        pitch_hz=pitch,
    )


def evidence(model: "Model", latents: "Tensor", utterance: "DecodedSentence") -> list[float]:
    """`SpokenFacts.words` by the model that is loaded now; none for what did not end."""
    from xtts.evaluation.word_evidence import word_evidence

    return [
        round(nats, 3)
        for piece, said in zip(utterance.pieces, utterance.said, strict=True)
        if said.stopped
        for nats in word_evidence(
            model.gpt, model.tokenizer, latents, piece, utterance.task.language,
            said.codes, stopped=True,
        )
    ]  # fmt: skip


def _decoded(
    model: "Model", whose: "Voice", rate: SpeakingRate, tasks: Sequence[SentenceTask]
) -> list[DecodedSentence]:
    from xtts.inference.torch_backend import PieceRequest, decode_together

    sentences = [
        DecodedSentence(task, model.tokenizer.split(task.text, task.language), [])
        for task in tasks
    ]  # fmt: skip
    wanted = [
        PieceRequest(piece.ids, one.task.seed + number, _most_codes(rate, len(piece.ids)))
        for one in sentences
        for number, piece in enumerate(one.pieces)
    ]
    decoded = iter(decode_together(model, whose, wanted, SLOTS))
    for one in sentences:
        one.said.extend(itertools.islice(decoded, len(one.pieces)))
    return sentences


def _most_codes(rate: SpeakingRate, tokens: int) -> int:
    return math.ceil(RUNAWAY * rate.codes(tokens)) + RUNAWAY_CODES


def _sound(model: "Model", whose: "Voice", utterance: DecodedSentence) -> "Tensor":
    from xtts.inference.torch_backend import vocode

    return vocode(model, whose, utterance.said)


def _keep(path: Path, waveform: "Tensor") -> None:
    from xtts import audio

    path.parent.mkdir(parents=True, exist_ok=True)
    audio.write_wav(path, waveform)


def _heard(model: "Model", waveform: "Tensor") -> tuple[list[float], float | None]:
    from xtts import audio
    from xtts.evaluation.pitch import median_pitch
    from xtts.inference import voice

    if len(waveform) < voice.MIN_CHUNK_SECONDS * audio.VOCODER_RATE:
        return [], None
    embedding = voice.speaker(model, waveform, audio.VOCODER_RATE).flatten()
    pitch = median_pitch(waveform, audio.VOCODER_RATE)
    return [round(float(value), 5) for value in embedding], pitch and round(pitch, 1)


def _base_voices(base: Path) -> list[list[float]]:
    """Of Coqui's `speakers_xtts.pth`: {name: {speaker_embedding: [1, 512, 1], …}}."""
    from xtts.model.loading import read_speakers

    return [
        [round(float(value), 5) for value in embedding.flatten()]
        for embedding in read_speakers(base).values()
    ]


def facts_of(answer: dict[str, Any]) -> SpokenSet:
    """What came over the pipe."""
    sentences: Sequence[dict[str, Any]] = answer["sentences"]
    return SpokenSet([SpokenFacts(**one) for one in sentences], answer["seconds"], answer["device"])


def heard_of(answer: dict[str, Any]) -> HeardRecordings:
    """What came over the pipe."""
    recordings: Sequence[dict[str, Any]] = answer["recordings"]
    return HeardRecordings([RecordingFacts(**one) for one in recordings], answer["base_voices"])
