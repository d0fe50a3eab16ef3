"""REHEARSAL: clips in a base's old languages, so that learning an added one does not lose them.

They are clips of the dataset, if it has any. Otherwise the base speaks them (pseudorehearsal,
Robins 1995, https://doi.org/10.1080/09540099550039318). Each text joins the beginning of one
built-in sentence with the end of another, because an evaluation speaks the sentences themselves.
The base speaks with its own recording and with the recordings of the person. A killed run resumes.

    OUTPUT_DIR/rehearsal/metadata.csv    file_name|text|speaker|language of the spoken sentences
    OUTPUT_DIR/rehearsal/0000-en.wav
"""

import itertools
import logging
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from train.dataset import dataset
from train.dataset.dataset import Clip
from train.dataset.entries import DatasetError
from train.evaluation.plan import GENEROUS_RATE, built_in_sentences, halve_text
from train.progress import Progress
from train.run_context import Rehearsal, RunContext, learned_languages
from train.settings import TrainSettings
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.text.languages import short_code
from xtts.workers.requests import EvaluateRequest, SentenceTask, TunedVoice
from xtts.workers.tasks import FileSpeaker

log = logging.getLogger("train")

FOLDER = "rehearsal"
USUAL_SHARE = 0.25
# The base speaks as much as an epoch rehearses, up to this.
MAX_SECONDS = 1200.0
# About the length of a spoken sentence.
SENTENCE_SECONDS = 2.5
# The sentences of a request, written down together; a killed run repeats at most these.
_SENTENCES_PER_REQUEST = 16
_MAX_PEOPLE = 2
_MAX_REFERENCE_SECONDS = 12.0
_HEADER = "file_name|text|speaker|language"


def rehearsal_of(settings: TrainSettings, context: RunContext, *, speaks: bool) -> Rehearsal:
    """What a run rehearses; nothing with REHEARSAL=off, or if it learns no added language.

    speaks: whether this process speaks what is missing; the others only read it. Raises the errors
    of speaking and of the dataset.
    """
    data, learned = context.data, learned_languages(context)
    no_rehearsal = Rehearsal(data.clips, data.train)
    if settings.rehearsal == "off" or not learned:
        return no_rehearsal
    share = USUAL_SHARE if settings.rehearsal == "auto" else float(settings.rehearsal)
    old = tuple(i for i in data.train if short_code(data.clips[i].language) not in learned)
    if old:
        if settings.rehearsal == "auto":
            log.info("Rehearsal: the dataset's %d clips of old languages.", len(old))
            return no_rehearsal
        new = tuple(index for index in data.train if index not in set(old))
        rehearsal = Rehearsal(data.clips, new, old, share)
        log.info(
            "Rehearsal: %.0f %% of an epoch, by %d clips of old languages.",
            100 * real_share(rehearsal),
            len(old),
        )
        return rehearsal
    spoken = _spoken_clips(settings, context, share, speaks=speaks)
    drawn = tuple(range(len(data.clips), len(data.clips) + len(spoken)))
    rehearsal = Rehearsal((*data.clips, *spoken), data.train, drawn, share)
    log.info(
        "Rehearsal: %d sentences in %s that the base spoke, %.1f min; %.0f %% of an epoch.",
        len(spoken),
        ", ".join(sorted({clip.language for clip in spoken})) or "no language",
        sum(clip.seconds for clip in spoken) / 60,
        100 * real_share(rehearsal),
    )
    return rehearsal


def real_share(rehearsal: Rehearsal) -> float:
    """The share that an epoch reaches: it draws no clip twice."""
    new, drawn = (
        sum(rehearsal.clips[i].seconds for i in indices) for indices in (rehearsal.always, rehearsal.drawn)
    )
    return min(rehearsal.share, drawn / (new + drawn))


def sentences(language: str, seed: int) -> list[str]:
    """Texts to speak, in random order: the beginning of each built-in sentence with the end of each
    other; none for a language without sentences."""
    halves = [halve_text(text) for text in built_in_sentences(language)]
    texts = [half[0] + other[1] for half, other in itertools.permutations(halves, 2)]
    random.Random(f"rehearsal/{seed}/{language}").shuffle(texts)
    return texts


def _spoken_clips(
    settings: TrainSettings, context: RunContext, share: float, *, speaks: bool
) -> tuple[Clip, ...]:
    folder = settings.output_dir / FOLDER
    tasks = list(_tasks(settings, context, share))
    if speaks and tasks:
        _speak(settings, context, folder, tasks)
    if not (folder / "metadata.csv").is_file():
        return ()
    folder_settings = replace(settings, dataset_dir=folder, dataset_format="columns", max_train_samples=None)
    try:
        spoken = dataset.read(folder_settings, context.tokenizer, context.config.gpt)
    except DatasetError as error:
        log.warning("Nothing that the base spoke can be rehearsed: %s", error)
        return ()
    names = {task.name for task in tasks}
    # In the order of their names, which is that of the tasks: batches are drawn by number.
    return tuple(sorted((clip for clip in spoken.clips if clip.name in names), key=lambda clip: clip.name))


@dataclass(frozen=True)
class _Task:
    """A sentence to speak, its speaker, and the recording that gives the voice."""

    name: str
    request: SynthesisRequest
    speaker: str
    reference: Path


def _tasks(settings: TrainSettings, context: RunContext, share: float) -> Iterator[_Task]:
    data = context.data
    seconds = min(MAX_SECONDS, 60 * data.minutes(data.train) * share / (1 - share))
    unlearned = {language.language for language in context.config.unlearned}
    languages = [language for language in context.config.languages if short_code(language) not in unlearned]
    texts = {language: sentences(language, settings.seed) for language in languages}
    voices = _voices(context)
    # One of each language in turn.
    pairs = ([(language, text) for text in language_texts] for language, language_texts in texts.items())
    rounds = itertools.chain.from_iterable(itertools.zip_longest(*pairs))
    turns = filter(None, rounds)
    count = round(seconds / SENTENCE_SECONDS)
    for number, (language, text) in enumerate(itertools.islice(turns, count)):
        speaker, reference = voices[number % len(voices)]
        request = SynthesisRequest(text, language, settings.seed * 10_000 + number)
        yield _Task(f"{number:04}-{language}.wav", request, speaker, reference)


def _voices(context: RunContext) -> list[tuple[str, Path]]:
    """(name, recording): the base's own, if any, and the people with the most clips."""
    data, recording = context.data, context.base / "reference.wav"
    clips = [data.clips[index] for index in data.train]
    people = Counter(clip.speaker for clip in clips).most_common(_MAX_PEOPLE)
    voices = [("base", recording)] if recording.is_file() else []
    for name, _ in people:
        short_clips = [
            clip for clip in clips if clip.speaker == name and clip.seconds <= _MAX_REFERENCE_SECONDS
        ]
        longest = max(short_clips or clips, key=lambda clip: (clip.seconds, clip.name))
        # Another name than the person's: their own clips are not conditioned on synthetic speech.
        voices.append((f"base as {name}", longest.path))
    return voices


def _speak(settings: TrainSettings, context: RunContext, folder: Path, tasks: Sequence[_Task]) -> None:
    """Speaks what `metadata.csv` does not hold yet; a sentence that does not end is left out."""
    table = folder / "metadata.csv"
    lines = table.read_text(encoding="utf-8").splitlines() if table.is_file() else []
    spoken_names = {line.partition("|")[0] for line in lines}
    missing = [task for task in tasks if task.name not in spoken_names]
    if not missing:
        return
    folder.mkdir(parents=True, exist_ok=True)
    speaker = FileSpeaker(context.base, ComputeConfig().at(context.device))
    with Progress("Speaking what is rehearsed", len(missing), "sentences") as progress:
        for reference in dict.fromkeys(task.reference for task in missing):
            tasks_of_voice = [task for task in missing if task.reference == reference]
            for first in range(0, len(tasks_of_voice), _SENTENCES_PER_REQUEST):
                batch = tasks_of_voice[first : first + _SENTENCES_PER_REQUEST]
                sentence_tasks = tuple(SentenceTask(task.request, out=folder / task.name) for task in batch)
                speech = speaker.ask(EvaluateRequest(sentence_tasks, TunedVoice(reference), GENEROUS_RATE))
                finished = [task for task, fact in zip(batch, speech.sentences, strict=True) if fact.finished]
                _append_rows(table, finished)
                progress.add(len(batch))


def _append_rows(table: Path, tasks: Sequence[_Task]) -> None:
    rows = [f"{task.name}|{task.request.text}|{task.speaker}|{task.request.language}" for task in tasks]
    with table.open("a", encoding="utf-8") as file:
        header = [] if file.tell() else [_HEADER]
        file.writelines(row + "\n" for row in (*header, *rows))
