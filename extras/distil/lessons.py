"""The lessons of a student: the person's clips, and speech of the teacher.

Training on the teacher's speech is sequence-level distillation (Kim and Rush 2016,
https://arxiv.org/abs/1606.07947). The teacher speaks the transcripts of the training clips, and
then combinations of the beginning of one with the end of another; or the user's texts. If possible,
it does not speak the sentences that judge the student (`extras.distil.comparison`). An interrupted
run resumes.

    OUTPUT_DIR/distillation/speech-KEY.jsonl    the inputs of the key, and a line per spoken text;
                                                one file per combination of weights and texts
"""

import hashlib
import itertools
import json
import random
import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import torch
from torch import Tensor

from machine.storage.checksums import sha256_of
from machine.storage.files import make_folder, replace_file, writing_to
from train.dataset.dataset import Clip
from train.evaluation.plan import halve
from train.progress import Progress
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.text.errors import TextError
from xtts.text.languages import short_code
from xtts.voices.run_folder import RunError
from xtts.workers.requests import SLOTS, TunedVoice
from xtts.workers.tuned_model import TunedModel

if TYPE_CHECKING:
    from xtts.inference.voice import Voice
    from xtts.model.loading import Model

CODES_PER_MINUTE = 60 * CODE_RATE / SAMPLES_PER_CODE
# The number of texts between writes, and thus the most that a killed run repeats.
_PORTION = 4 * SLOTS
# Speech whose codes per id differ from the median by a larger factor was cut, or babbles.
_MOST_UNLIKE = 2.0
# One text in this many, per narrator, is held out for judging.
HELD_OUT_EVERY = 25
# Languages that are written without spaces between words.
_UNSPACED = {"zh", "ja"}


@dataclass(frozen=True)
class Narrator:
    """A speaker of the teacher, with the speaker's clips. The teacher speaks the texts of the
    training clips."""

    name: str
    recording: Path
    clips: tuple[int, ...]
    learned: tuple[int, ...]


class SpeechPiece(TypedDict):
    """The tokens of a piece of a text, and the codes that the teacher spoke."""

    ids: list[int]
    codes: list[int]


class SpeechLine(TypedDict):
    """A line of speech.jsonl: a text by the narrator of that number."""

    narrator: int
    pieces: list[SpeechPiece]


@dataclass(frozen=True)
class Lesson:
    """A text and its speech.

    Attributes:
        ids: Text ids `[n]`, without START and STOP.
        codes: Codes `[m]`, without STOP.
        narrator: The number of the narrator.
        spoken: Whether the teacher spoke it; otherwise it is a clip.
        held_out: Whether it is held out for judging.
    """

    ids: Tensor
    codes: Tensor
    narrator: int
    spoken: bool
    held_out: bool


@dataclass(frozen=True)
class Teacher:
    """The teacher's weights.

    Attributes:
        reading: A checkpoint, whose run's normaliser is used.
        weights: The same checkpoint, or None for the base.
        sha256: The hash of the weights.
    """

    tuned: TunedModel
    reading: Path
    weights: Path | None
    sha256: str

    def voice_of(self, recording: Path) -> "tuple[Model, Voice]":
        """The model and the voice of a recording."""
        tuned_voice = TunedVoice(recording, self.reading, 0.0 if self.weights is None else 1.0)
        return self.tuned.speaking(self.tuned.reading(tuned_voice), tuned_voice)


def texts(sentences: Sequence[str], language: str, draw: random.Random) -> Iterator[str]:
    """An endless iterator of texts: each of `sentences` once in random order, and then the beginning of
    one with the end of another."""
    whole = list(dict.fromkeys(sentences))
    draw.shuffle(whole)
    yield from whole
    halves = [_halves(text, language) for text in whole]
    while True:
        yield draw.choice(halves)[0] + draw.choice(halves)[1]


def _halves(text: str, language: str) -> tuple[str, str]:
    """The beginning and the end of a text; a single word is both."""
    if " " in text or short_code(language) in _UNSPACED:
        return halve(text)
    return text + " ", text


def key_of(
    teacher: Teacher,
    narrators: Sequence[Narrator],
    clips: Sequence[Clip],
    user_texts: Sequence[str],
    judging: Collection[str],
    seed: int,
) -> str:
    """The key of the spoken lessons: a hash of their inputs, except for the number of minutes."""
    made_of = {
        "weights": teacher.sha256,
        "seed": seed,
        "own": list(user_texts),
        "judging": sorted(judging),
        "narrators": [
            [sha256_of(narrator.recording), *(clips[index].sha256 for index in narrator.learned)]
            for narrator in narrators
        ],
    }
    return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()


def speak_lessons(
    teacher: Teacher,
    narrators: Sequence[Narrator],
    clips: Sequence[Clip],
    user_texts: Sequence[str],
    judging: Collection[str],
    minutes: float,
    folder: Path,
    seed: int,
) -> list[Lesson]:
    """About `minutes` of the teacher's speech, by all narrators in turn.

    user_texts: the user's texts, instead of the transcripts. judging: texts to leave out. Raises RunError
    if the teacher ends none of the first texts, DecodingError, DiskFull, WriteError, and the errors
    of voice and model.
    """
    key = key_of(teacher, narrators, clips, user_texts, judging, seed)
    path = folder / f"speech-{key[:12]}.jsonl"
    lines = _stored_lines(path, key)
    target, done = minutes * CODES_PER_MINUTE, _codes(lines)
    endless = [
        _requests(clips, narrator, user_texts, judging, seed, number)
        for number, narrator in enumerate(narrators)
    ]
    for number in range(len(lines)):
        next(endless[number % len(narrators)])
    with Progress("The teacher speaks", target / CODES_PER_MINUTE, "min") as progress:
        progress.add(min(done, target) / CODES_PER_MINUTE)
        while done < target:
            first = len(lines)
            portion = [
                (number % len(narrators), next(endless[number % len(narrators)]))
                for number in range(first, first + _PORTION)
            ]
            new = _say(teacher, narrators, portion)
            with writing_to(path), path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in new)
            lines += new
            if not _codes(lines):
                raise RunError(
                    f"The teacher ended none of {len(lines)} texts, so there is nothing to learn "
                    "from. Listen to a sample of the run: these weights may not speak yet."
                )
            progress.add(min(_codes(new), max(0.0, target - done)) / CODES_PER_MINUTE)
            done += _codes(new)
    return _plausible(lines, target, len(narrators))


def of_clips(
    clips: Sequence[tuple[Clip, Tensor, int]], held_out: Sequence[Clip], minutes: float, seed: int
) -> list[Lesson]:
    """At most `minutes` of (clip, codes, narrator), drawn at random."""
    order, judging = list(clips), set(held_out)
    random.Random(f"clips/{seed}").shuffle(order)
    lessons, left = [], minutes * CODES_PER_MINUTE
    for clip, codes, narrator in order:
        if left <= 0:
            break
        left -= len(codes)
        ids = torch.tensor(clip.tokens)
        lessons.append(Lesson(ids, codes, narrator, spoken=False, held_out=clip in judging))
    return lessons


def _requests(
    clips: Sequence[Clip],
    narrator: Narrator,
    user_texts: Sequence[str],
    judging: Collection[str],
    seed: int,
    number: int,
) -> Iterator[SynthesisRequest]:
    """The texts of a narrator: in the languages of the narrator's clips, in proportion to their
    numbers; the user's texts in the most frequent language of all clips."""
    narrator_clips = [clips[index] for index in narrator.learned or narrator.clips]
    counts = Counter(clip.language for clip in narrator_clips)
    texts_by_language = {
        language: [clip.text for clip in narrator_clips if clip.language == language] for language in counts
    }
    ((usual, _),) = Counter(clip.language for clip in clips).most_common(1)
    if user_texts and usual in texts_by_language:
        texts_by_language[usual] = list(user_texts)
    # With very few clips, all texts may be needed.
    texts_by_language = {
        language: [text for text in language_texts if text not in judging] or language_texts
        for language, language_texts in texts_by_language.items()
    }
    draw = random.Random(f"lessons/{seed}/{number}")
    streams = {
        language: texts(language_texts, language, draw)
        for language, language_texts in texts_by_language.items()
    }
    for count in itertools.count():
        (language,) = draw.choices(list(counts), list(counts.values()))
        yield SynthesisRequest(next(streams[language]), language, seed_of(seed, number, count))


def seed_of(*numbers: int) -> int:
    """One seed of 63 bits for several numbers, such as a run's seed, a narrator's number and a
    text's. Sums of multiples would give some of these the same seed."""
    (state,) = np.random.SeedSequence(numbers).generate_state(1, np.uint64)
    return int(state) >> 1


def _say(
    teacher: Teacher, narrators: Sequence[Narrator], portion: Sequence[tuple[int, SynthesisRequest]]
) -> list[SpeechLine]:
    """The lines of speech.jsonl for (narrator, text); without pieces for texts that cannot be
    spoken, such as combinations of signs."""
    from xtts.inference.torch_backend import TorchUtterance, decode

    lines: list[SpeechLine] = [{"narrator": who, "pieces": []} for who, _ in portion]
    with torch.inference_mode():
        for who in sorted({speaker for speaker, _ in portion}):
            model, voice = teacher.voice_of(narrators[who].recording)
            waiting = []
            for line, (narrator, request) in zip(lines, portion, strict=True):
                if narrator != who:
                    continue
                try:
                    pieces = request.read(model.tokenizer)
                except TextError:
                    continue
                for number, piece in enumerate(pieces):
                    generator = torch.Generator(model.device)
                    generator.manual_seed(seed_of(request.seed, number))
                    utterance = TorchUtterance(model.gpt, model.config.decoding, generator)
                    ids = torch.tensor(piece.ids, device=model.device)
                    waiting.append((line, ids, utterance))
            decode(model.gpt, voice.latents, [entry[1:] for entry in waiting], SLOTS)
            for line, ids, utterance in waiting:
                if utterance.stopped:
                    line["pieces"].append({"ids": ids.tolist(), "codes": list(utterance.codes)})
    return lines


def _codes(lines: Sequence[SpeechLine]) -> int:
    return sum(len(piece["codes"]) for line in lines for piece in line["pieces"])


def _plausible(lines: Sequence[SpeechLine], target: float, narrators: int) -> list[Lesson]:
    """The lessons of the first `target` codes, without speech that was cut or babbles."""
    lessons, done = [], 0
    for number, line in enumerate(lines):
        if done >= target:
            break
        for piece in line["pieces"]:
            ids, codes = torch.tensor(piece["ids"]), torch.tensor(piece["codes"])
            done += len(codes)
            held_out = number // narrators % HELD_OUT_EVERY == 0
            lessons.append(Lesson(ids, codes, line["narrator"], True, held_out))
    rates = [len(lesson.codes) / max(1, len(lesson.ids)) for lesson in lessons]
    usual = statistics.median(rates) if rates else 1.0
    return [
        lesson
        for lesson, rate in zip(lessons, rates, strict=True)
        if len(lesson.codes) and usual / _MOST_UNLIKE <= rate <= usual * _MOST_UNLIKE
    ]


def _stored_lines(path: Path, key: str) -> list[SpeechLine]:
    """The lines of an earlier run with the same key, without a line that a kill left incomplete;
    otherwise starts a new file."""
    header = json.dumps({"of": key})
    try:
        first, *lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        first, lines = "", []
    whole = lines[:-1] if first == header else []
    make_folder(path.parent)
    content = "".join(line + "\n" for line in (header, *whole))
    replace_file(path, lambda file: file.write(content.encode()))
    return [json.loads(line) for line in whole]
