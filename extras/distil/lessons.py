"""A student learns from lessons: the person's clips, and speech of the teacher.

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
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np
import torch
from torch import Tensor

from machine.storage.checksums import sha256_of
from machine.storage.files import make_folder, replace_file, writing_to
from train.dataset.dataset import Clip
from train.evaluation.plan import halve_text
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
# A killed run repeats at most these.
_TEXTS_PER_WRITE = 4 * SLOTS
# Speech whose codes per id differ from the median by a larger factor was cut, or babbles.
_MAX_RATE_RATIO = 2.0
# One text in this many, per narrator, is held out for judging.
HELD_OUT_EVERY = 25
# Languages that are written without spaces between words.
_LANGUAGES_WITHOUT_SPACES = {"zh", "ja"}


@dataclass(frozen=True)
class Narrator:
    """A speaker of the dataset, in whose voice the teacher speaks lessons.

    Attributes:
        name: The speaker's name; "" if the dataset names none.
        recording_path: The recording that gives the voice.
        clip_indices: The speaker's clips in the dataset.
        training_indices: Those among them that are not for validation; the teacher speaks their texts.
    """

    name: str
    recording_path: Path
    clip_indices: tuple[int, ...]
    training_indices: tuple[int, ...]


class SpeechPiece(TypedDict):
    """The tokens of a piece of a text, and the codes that the teacher spoke."""

    ids: list[int]
    codes: list[int]


class SpeechLine(TypedDict):
    """A line of speech.jsonl: a text, spoken by the narrator with that number."""

    narrator: int
    pieces: list[SpeechPiece]


@dataclass(frozen=True)
class Lesson:
    """A text and its speech.

    Attributes:
        ids: Text ids `[n]`, without START and STOP.
        codes: Codes `[m]`, without STOP.
        narrator: The number of the narrator.
        by_teacher: Whether the teacher spoke it; otherwise it is a clip.
        is_held_out: Whether it is held out for judging.
    """

    ids: Tensor
    codes: Tensor
    narrator: int
    by_teacher: bool
    is_held_out: bool


@dataclass(frozen=True)
class Teacher:
    """The teacher's weights.

    Attributes:
        tuned_model: The model that speaks.
        checkpoint: The weights; their run also decides how texts are read.
        is_base: Whether the base speaks, and the checkpoint only decides how texts are read.
        sha256: The hash of the weights that speak.
    """

    tuned_model: TunedModel
    checkpoint: Path
    is_base: bool
    sha256: str

    def voice_of(self, recording: Path) -> "tuple[Model, Voice]":
        """The model and the voice of a recording."""
        tuned_voice = TunedVoice(recording, self.checkpoint, 0.0 if self.is_base else 1.0)
        return self.tuned_model.load_voice(*self.tuned_model.read_reference(tuned_voice), tuned_voice)


@dataclass(frozen=True)
class LessonSource:
    """What the teacher's speech is made from.

    Attributes:
        clips: All clips of the dataset.
        user_texts: The user's texts, which replace the transcripts; empty without.
        judging_texts: The texts that judge the student, and are left out if possible.
        seed: The seed of the run.
    """

    teacher: Teacher
    narrators: Sequence[Narrator]
    clips: Sequence[Clip]
    user_texts: Sequence[str]
    judging_texts: Collection[str]
    seed: int

    def key(self) -> str:
        """A hash of everything that the speech depends on, except for the number of minutes."""
        inputs = {
            "weights": self.teacher.sha256,
            "seed": self.seed,
            "own": list(self.user_texts),
            "judging": sorted(self.judging_texts),
            "narrators": [
                [
                    sha256_of(narrator.recording_path),
                    *(self.clips[index].sha256 for index in narrator.training_indices),
                ]
                for narrator in self.narrators
            ],
        }
        return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


class NarratedRequest(NamedTuple):
    """A text to speak, and the number of its narrator."""

    narrator: int
    request: SynthesisRequest


def endless_texts(sentences: Sequence[str], language: str, rng: random.Random) -> Iterator[str]:
    """Each of `sentences` once in random order, and then the beginning of one with the end of
    another, without end."""
    distinct = list(dict.fromkeys(sentences))
    rng.shuffle(distinct)
    yield from distinct
    halves = [_halves(text, language) for text in distinct]
    while True:
        yield rng.choice(halves)[0] + rng.choice(halves)[1]


def _halves(text: str, language: str) -> tuple[str, str]:
    """The beginning and the end of a text; a single word is both."""
    if " " in text or short_code(language) in _LANGUAGES_WITHOUT_SPACES:
        return halve_text(text)
    return text + " ", text


def speak_lessons(source: LessonSource, minutes: float, folder: Path) -> list[Lesson]:
    """About `minutes` of the teacher's speech, by all narrators in turn.

    Raises RunError if the teacher ends none of the first texts, DecodingError, DiskFull, WriteError,
    and the errors of voice and model.
    """
    key = source.key()
    path = folder / f"speech-{key[:12]}.jsonl"
    lines = _stored_lines(path, key)
    target_codes, num_codes = minutes * CODES_PER_MINUTE, _num_codes(lines)
    count = len(source.narrators)
    requests = [_endless_requests(source, number) for number in range(count)]
    for index in range(len(lines)):
        next(requests[index % count])
    with Progress("The teacher speaks", target_codes / CODES_PER_MINUTE, "min") as progress:
        progress.add(min(num_codes, target_codes) / CODES_PER_MINUTE)
        while num_codes < target_codes:
            first = len(lines)
            portion = [
                NarratedRequest(index % count, next(requests[index % count]))
                for index in range(first, first + _TEXTS_PER_WRITE)
            ]
            new_lines = _speak(source.teacher, source.narrators, portion)
            with writing_to(path), path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in new_lines)
            lines += new_lines
            if not _num_codes(lines):
                raise RunError(
                    f"The teacher ended none of {len(lines)} texts, so there is nothing to learn "
                    "from. Listen to a sample of the run: these weights may not speak yet."
                )
            new_codes = _num_codes(new_lines)
            progress.add(min(new_codes, max(0.0, target_codes - num_codes)) / CODES_PER_MINUTE)
            num_codes += new_codes
    return _plausible_lessons(lines, target_codes, count)


def draw_lessons(lessons: Sequence[Lesson], minutes: float, seed: int) -> list[Lesson]:
    """About `minutes` of lessons from clips, drawn at random; all of them if they are fewer."""
    order = list(lessons)
    random.Random(f"clips/{seed}").shuffle(order)
    chosen, codes_left = list[Lesson](), minutes * CODES_PER_MINUTE
    for lesson in order:
        if codes_left <= 0:
            break
        codes_left -= len(lesson.codes)
        chosen.append(lesson)
    return chosen


def _endless_requests(source: LessonSource, number: int) -> Iterator[SynthesisRequest]:
    """Requests for the narrator with that number, without end. Their languages are those of the
    narrator's clips, in proportion. In the most frequent language of all clips, the user's texts replace
    the transcripts."""
    narrator = source.narrators[number]
    narrator_clips = [source.clips[index] for index in narrator.training_indices or narrator.clip_indices]
    counts = Counter(clip.language for clip in narrator_clips)
    texts_by_language = {
        language: [clip.text for clip in narrator_clips if clip.language == language] for language in counts
    }
    ((main_language, _),) = Counter(clip.language for clip in source.clips).most_common(1)
    if source.user_texts and main_language in texts_by_language:
        texts_by_language[main_language] = list(source.user_texts)
    rng = random.Random(f"lessons/{source.seed}/{number}")
    streams = {}
    for language, texts in texts_by_language.items():
        other_texts = [text for text in texts if text not in source.judging_texts]
        # With very few clips, all texts may be needed.
        streams[language] = endless_texts(other_texts or texts, language, rng)
    for count in itertools.count():
        (language,) = rng.choices(list(counts), list(counts.values()))
        yield SynthesisRequest(next(streams[language]), language, seed_of(source.seed, number, count))


def seed_of(*numbers: int) -> int:
    """One seed of 63 bits for several numbers, such as a run's seed, a narrator's number and a
    text's. Sums of multiples would give some of these the same seed."""
    (state,) = np.random.SeedSequence(numbers).generate_state(1, np.uint64)
    return int(state) >> 1


def _speak(
    teacher: Teacher, narrators: Sequence[Narrator], portion: Sequence[NarratedRequest]
) -> list[SpeechLine]:
    """The lines of speech.jsonl for a portion; without pieces for texts that cannot be spoken, such
    as combinations of signs."""
    from xtts.inference.torch_backend import TorchUtterance, decode

    lines: list[SpeechLine] = [{"narrator": number, "pieces": []} for number, _ in portion]
    with torch.inference_mode():
        for number in sorted({entry.narrator for entry in portion}):
            model, voice = teacher.voice_of(narrators[number].recording_path)
            pending = []
            for line, (narrator, request) in zip(lines, portion, strict=True):
                if narrator != number:
                    continue
                try:
                    pieces = request.read(model.tokenizer)
                except TextError:
                    continue
                for piece_number, piece in enumerate(pieces):
                    generator = torch.Generator(model.device)
                    generator.manual_seed(seed_of(request.seed, piece_number))
                    utterance = TorchUtterance(model.gpt, model.config.decoding, generator)
                    ids = torch.tensor(piece.ids, device=model.device)
                    pending.append((line, ids, utterance))
            decode(model.gpt, voice.latents, [(ids, utterance) for _, ids, utterance in pending], SLOTS)
            for line, ids, utterance in pending:
                if utterance.stopped:
                    line["pieces"].append({"ids": ids.tolist(), "codes": list(utterance.codes)})
    return lines


def _num_codes(lines: Sequence[SpeechLine]) -> int:
    return sum(len(piece["codes"]) for line in lines for piece in line["pieces"])


def _plausible_lessons(lines: Sequence[SpeechLine], target_codes: float, num_narrators: int) -> list[Lesson]:
    """The lessons of the first `target_codes` codes, without speech that was cut or babbles."""
    lessons, num_codes = list[Lesson](), 0
    for index, line in enumerate(lines):
        if num_codes >= target_codes:
            break
        is_held_out = index // num_narrators % HELD_OUT_EVERY == 0
        for piece in line["pieces"]:
            ids, codes = torch.tensor(piece["ids"]), torch.tensor(piece["codes"])
            num_codes += len(codes)
            lessons.append(Lesson(ids, codes, line["narrator"], by_teacher=True, is_held_out=is_held_out))
    rates = [len(lesson.codes) / max(1, len(lesson.ids)) for lesson in lessons]
    median_rate = statistics.median(rates) if rates else 1.0
    return [
        lesson
        for lesson, rate in zip(lessons, rates, strict=True)
        if len(lesson.codes) and median_rate / _MAX_RATE_RATIO <= rate <= median_rate * _MAX_RATE_RATIO
    ]


def _stored_lines(path: Path, key: str) -> list[SpeechLine]:
    """The lines of an earlier run with the same key, without a line that a kill left incomplete;
    otherwise starts a new file."""
    header = json.dumps({"of": key})
    try:
        first, *lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        first, lines = "", []
    complete_lines = lines[:-1] if first == header else []
    make_folder(path.parent)
    content = "".join(line + "\n" for line in (header, *complete_lines))
    replace_file(path, lambda file: file.write(content.encode()))
    return [json.loads(line) for line in complete_lines]
