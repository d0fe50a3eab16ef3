"""`python -m benchmarks tone` measures how steady a long text sounds, and how every piece begins.

`--set choosing` is for trials, `--set reporting` for published figures. Ten texts of twelve
sentences of the set are spoken as they are served, in pieces. Drift is what differs between
neighbouring pieces: median F0, rate, and the speaker embedding of the model's own encoder. Onsets
are texts of one to three words, and the first second and the first words of each piece. The
source says the same pieces, one by one: what it differs by is in the words.
"""

import argparse
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from benchmarks import judges, tables, texts, voice
from xtts.audio import CODE_RATE, SPEAKER_RATE, VOCODER_RATE, resample
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.speech import Speech, Voice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.voice import speaker, voice_from_reference
from xtts.model.loading import Model
from xtts.speech_span import HOP_SECONDS, frame_levels, spoken_frames
from xtts.text.tokenizer import Piece
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec

LANGUAGE = "en"
SHORT_WORDS = range(1, 4)
ONSET_SECONDS = 1.0
# How many words of a piece are its first ones.
FIRST_WORDS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundle", default="demo", help="demo, an exported voice or a checkpoint")
    parser.add_argument("--speak-as", default="slt", help="the voice whose recording it is given")
    parser.add_argument("--set", choices=texts.FILES, default="choosing", help="set of sentences")
    parser.add_argument("--texts", type=int, default=10)
    parser.add_argument("--sentences", type=int, default=12, help="of each text")
    parser.add_argument("--seeds", type=int, default=1)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Figures of the source and of the model, of drift and of onsets."""
    lines = texts.sentences(arguments.set)
    long = texts.joined(lines, arguments.sentences, arguments.texts)
    short = [line for line in lines if texts.num_words(line) in SHORT_WORDS]
    opened: Any = load_voice(VoiceSpec(arguments.bundle, tos_agreed=True), ComputeConfig())
    person = Person.of(opened.model, arguments.speak_as)
    whose = _heard(opened.model, arguments.speak_as)
    said = [
        Spoken(
            [in_pieces(opened, whose, text, seed) for text in long],
            [piece for text in short for piece in in_pieces(opened, whose, text, seed)],
        )
        for seed in range(arguments.seeds)
    ]  # fmt: skip
    pieces = said[0]
    source = Spoken(
        [[piece.said_by(arguments.speak_as) for piece in text] for text in pieces.long],
        [piece.said_by(arguments.speak_as) for piece in pieces.short],
    )
    return {
        "pieces": sum(map(len, pieces.long)),
        "drift": {"source": drift([source], person), "spoken": drift(said, person)},
        "onsets": {"source": onsets([source], person), "spoken": onsets(said, person)},
    }


@dataclass(frozen=True)
class SaidPiece:
    """A piece with its sound. text: its words; count: how many ids it is read as, which are phones
    or characters; sound: [samples] at 16 kHz."""

    text: str
    count: int
    sound: Tensor

    def said_by(self, name: str) -> "SaidPiece":
        """The same, said by a source."""
        return SaidPiece(self.text, self.count, judges.teacher(name, self.text))


@dataclass(frozen=True)
class Spoken:
    """What is judged: the pieces of each long text, and the short texts."""

    long: Sequence[Sequence[SaidPiece]]
    short: Sequence[SaidPiece]


@dataclass(frozen=True)
class Person:
    """An ear for one person: the model's own speaker encoder, which no fine-tune moves, and the
    mean embedding [512] of the person's clips."""

    model: Model
    mean: Tensor

    @staticmethod
    def of(model: Model, name: str) -> "Person":
        """By what the source says to learn voices by."""
        clips = (judges.teacher(name, text) for text in voice.JUDGE_TEXTS)
        mean = torch.stack([embedding(model, clip) for clip in clips]).mean(0)
        return Person(model, mean / mean.norm())

    def likeness(self, sound: Tensor) -> float:
        """Cosine of [samples] at 16 kHz to the person."""
        return float(embedding(self.model, sound) @ self.mean)


def embedding(model: Model, sound: Tensor) -> Tensor:
    """The speaker embedding [512] of [samples] at 16 kHz, of length 1."""
    found = speaker(model, sound, SPEAKER_RATE).flatten()
    return found / found.norm()


def _heard(model: Model, name: str) -> Voice:
    recording = resample(judges.teacher(name, voice.REFERENCE_TEXT), SPEAKER_RATE, CODE_RATE)
    return voice_from_reference(model, recording)


def in_pieces(opened: LoadedVoice, whose: Voice, text: str, seed: int) -> list[SaidPiece]:
    """A text as it is served, under the guard, piece by piece."""
    request = SynthesisRequest(text, LANGUAGE, seed)
    pieces = request.read(opened.model.tokenizer)
    speech = Speech(opened.backend(), whose, request, opened.guard(request), chunked=False)
    found = []
    for piece in pieces:
        wave = torch.cat([torch.as_tensor(chunk) for chunk in speech.next_piece()])
        sound = resample(wave, VOCODER_RATE, SPEAKER_RATE)
        found.append(SaidPiece(words_of(piece), len(piece.ids), sound))
    return found


def words_of(piece: Piece) -> str:
    """A piece as it is written."""
    return " ".join(word.text for word in piece.words if word.text)


# ---- drift ----


@dataclass(frozen=True)
class Tone:
    """How a piece sounds: median F0 in semitones above 1 Hz, the logarithm of ids a second between
    its silences, and the speaker embedding."""

    pitch: float
    rate: float
    embedding: Tensor


def tone(piece: SaidPiece, model: Model) -> Tone | None:
    """None where nothing of it has a pitch."""
    hertz = judges.fundamental(piece.sound)
    if not len(hertz):
        return None
    first, last = spoken_frames(frame_levels(piece.sound.numpy(), SPEAKER_RATE))
    rate = piece.count / ((last - first) * HOP_SECONDS)
    pitch = 12 * math.log2(float(hertz.median()))
    return Tone(pitch, math.log(rate), embedding(model, piece.sound))


def drift(spoken: Iterable[Spoken], person: Person) -> dict[str, float]:
    """Means over neighbouring pieces (jumps, cosine) and over texts (spreads: standard deviations
    of the pieces of a text); rates in percent."""
    tones = [
        [found for piece in text if (found := tone(piece, person.model)) is not None]
        for one in spoken
        for text in one.long
    ]
    pairs = [pair for text in tones for pair in pairwise(text)]
    pitches = [[one.pitch for one in text] for text in tones]
    rates = [[one.rate for one in text] for text in tones]
    return {
        "pitch_jump_semitones": _mean(abs(one.pitch - other.pitch) for one, other in pairs),
        "pitch_spread_semitones": _mean(map(statistics.pstdev, pitches)),
        "rate_jump_percent": 100 * _mean(abs(one.rate - other.rate) for one, other in pairs),
        "rate_spread_percent": 100 * _mean(map(statistics.pstdev, rates)),
        "speaker_cosine": _mean(float(one.embedding @ other.embedding) for one, other in pairs),
    }


# ---- onsets ----


def onsets(spoken: Sequence[Spoken], person: Person) -> dict[str, float]:
    """Likeness and word errors of the short texts; likeness of the first second of a piece, and of
    its last, which is heard as long; word errors of its first words, and of its other ones."""
    short = [piece for one in spoken for piece in one.short]
    long = [piece for one in spoken for text in one.long for piece in text]
    size = round(ONSET_SECONDS * SPEAKER_RATE)
    sounds = [sound for piece in long if len(sound := without_silence(piece.sound)) >= size]
    heard = [errors_by_place(piece.text, judges.words_heard(piece.sound)) for piece in long]
    return {
        "short_likeness": _mean(person.likeness(piece.sound) for piece in short),
        "short_word_errors": judges.word_errors(
            [piece.text for piece in short], [judges.words_heard(piece.sound) for piece in short]
        ),
        "first_second_likeness": _mean(person.likeness(sound[:size]) for sound in sounds),
        "last_second_likeness": _mean(person.likeness(sound[-size:]) for sound in sounds),
        "first_words_errors": _share(one[0] for one in heard),
        "other_words_errors": _share(one[1] for one in heard),
    }


def without_silence(sound: Tensor) -> Tensor:
    """[samples] at 16 kHz from where speech begins to where it ends."""
    first, last = spoken_frames(frame_levels(sound.numpy(), SPEAKER_RATE))
    hop = round(HOP_SECONDS * SPEAKER_RATE)
    return sound[first * hop : last * hop]


def errors_by_place(said: str, heard: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """(errors, words) of the first words of a text, and of the others. What is heard beyond the
    text counts where it stands."""
    places = judges.error_places(said, heard)
    first, other = places[:FIRST_WORDS], places[FIRST_WORDS:]
    return (sum(first), len(first)), (sum(other), len(other))


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def _share(counts: Iterable[tuple[int, int]]) -> float:
    errors, words = (sum(of) for of in zip(*counts, strict=True))
    return errors / max(words, 1)


def report(found: Mapping[str, Any]) -> str:
    """A table of drift and one of onsets."""
    return "\n\n".join(tables.text(found[name]) for name in ("drift", "onsets"))
