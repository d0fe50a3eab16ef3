"""The sentences of the teachers, their phones, and the clips that the teachers speak."""

import itertools
import random
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import soundfile

from demo_voice.recipe import BaseRecipe
from demo_voice.speech import write_shard
from demo_voice.teachers import hibari, kokoro
from demo_voice.teachers import recordings as real_people
from demo_voice.teachers.recordings import Phrase

if TYPE_CHECKING:
    from hibari import Hibari

CLIPS_PER_SHARD, KOKORO_CLIPS_PER_SHARD = 100, 30
_KOKORO_SEEDS = 5_000_000
DEMO_DATASET = Path(__file__).parents[1] / "train/data/demo"
# The share of sentences of 13 to 40 words, and of clips with two or three sentences.
LONG, JOINED = 0.3, 0.2
# The embedded model's default voice, one of its training voices.
REFERENCE_TEXT = (
    "He could not find his keys, so he waited outside. I usually walk to work, but today I took "
    "the bus. It was late again."
)
REFERENCE_PERSON = 13
# No base has heard this style.
DEMO_PERSON = kokoro.Mix("bf_emma", {"bf_emma": 1.0})
_DEMO_SEEDS = 1000
# hibari's voice as it is, which the persons are derived from.
UNCHANGED = hibari.Person("hibari")


def texts(recipe: BaseRecipe) -> list[str]:
    """The sentences, shuffled, without those of the evaluation and of the demo dataset."""
    from demo_voice.text import lexicon
    from demo_voice.text.sentences import Grammar, LongGrammar, judged_texts, sentences

    words = lexicon.read()
    count = recipe.sentences
    long, joined = int(count * LONG), int(count * JOINED)
    short = sentences(Grammar(words, f"text/{recipe.seed}"), judged_texts())
    lengthy = sentences(LongGrammar(words, f"long/{recipe.seed}"), judged_texts())
    draw = random.Random(f"texts/{recipe.seed}")
    chosen = list(itertools.islice(short, count - long - joined))
    chosen += itertools.islice(lengthy, long)
    for _ in range(joined):
        chosen.append(" ".join(itertools.islice(short, draw.choice((2, 2, 3)))))
    draw.shuffle(chosen)
    return chosen


def write_texts(recipe: BaseRecipe, work: Path) -> None:
    """Writes `texts.npz`: the sentences and hibari's phone ids of each."""
    path = work / "texts.npz"
    if path.is_file():
        return
    reader = _reader()
    spoken, ids = [], []
    for text in texts(recipe):
        phones = " ".join(reader.phonemize(text))
        if phones:
            spoken.append(text)
            ids.append(np.array(reader.ids(phones), np.uint8))
    lengths = np.array([len(row) for row in ids], np.int32)
    np.savez_compressed(path, texts=np.array("\n".join(spoken)), ids=np.concatenate(ids), lengths=lengths)


def speak_all(
    recipe: BaseRecipe, work: Path, processes: int, styles: Path | None, recordings: Path | None
) -> None:
    """Writes every missing shard of `speech`: hibari's persons, Kokoro's, and the real ones.

    styles: the folder of Kokoro's styles; recordings: as in `teachers.recordings`. Without them,
    their persons are left out.
    """
    folder = work / "speech"
    folder.mkdir(exist_ok=True)
    with np.load(work / "texts.npz") as stored:
        count = min(recipe.sentences, len(stored["lengths"]))
    with ProcessPoolExecutor(processes) as pool:
        jobs = range(-(-count // CLIPS_PER_SHARD))
        list(pool.map(_speak, itertools.repeat(recipe), itertools.repeat(work), jobs))
        if styles:
            shards = range(-(-recipe.kokoro_sentences // KOKORO_CLIPS_PER_SHARD))
            same = (itertools.repeat(argument) for argument in (recipe, work, styles))
            list(pool.map(_speak_as_kokoro, *same, shards))
    if recordings:
        phrases = real_people.read(recordings)
        for number, some in enumerate(_batched(phrases, CLIPS_PER_SHARD)):
            labels = [(phrase.words, phrase.person) for phrase in some]
            spoken = [real_people.spoken(phrase) for phrase in some]
            write_shard(folder / f"shard_r{number:04d}.npz", spoken, labels)


def _batched(phrases: Iterable[Phrase], count: int) -> Iterator[list[Phrase]]:
    waiting = iter(phrases)
    while some := list(itertools.islice(waiting, count)):
        yield some


def _speak_as_kokoro(recipe: BaseRecipe, work: Path, styles: Path, shard: int) -> None:
    path = work / "speech" / f"shard_k{shard:04d}.npz"
    if path.is_file():
        return
    sentences = _kokoro_texts(recipe)
    first = shard * KOKORO_CLIPS_PER_SHARD
    numbers = range(first, min(first + KOKORO_CLIPS_PER_SHARD, len(sentences)))
    # A factor without a common divisor, so that each shard has many persons.
    persons = [kokoro.mix(number * 67 % kokoro.PERSONS) for number in numbers]
    british = [sentences[n] for n, who in zip(numbers, persons, strict=True) if who.british]
    phones = dict(zip(british, kokoro.british_phones(british), strict=True))
    rows = []
    for number, who in zip(numbers, persons, strict=True):
        text = sentences[number]
        read = phones[text] if who.british else " ".join(_reader().phonemize(text))
        rows.append((_kokoro(styles).speak(read, who, _KOKORO_SEEDS + number), (text, who.name)))
    write_shard(path, [spoken for spoken, _ in rows], [words for _, words in rows])


@cache
def _kokoro(styles: Path) -> kokoro.Kokoro:
    import torch

    torch.set_num_threads(1)
    return kokoro.Kokoro(styles)


@cache
def _kokoro_texts(recipe: BaseRecipe) -> list[str]:
    return texts(replace(recipe, seed=recipe.seed + 1, sentences=recipe.kokoro_sentences))


def _speak(recipe: BaseRecipe, work: Path, shard: int) -> None:
    path = work / "speech" / f"shard_{shard:05d}.npz"
    if path.is_file():
        return
    sentences, all_ids = _texts(work)
    first = shard * CLIPS_PER_SHARD
    spoken, names = [], []
    for number in range(first, min(first + CLIPS_PER_SHARD, recipe.sentences, len(sentences))):
        who = hibari.person(number % recipe.persons)
        spoken.append(_voice().speak(all_ids[number], who, number))
        names.append((sentences[number], who.name))
    write_shard(path, spoken, names)


@cache
def _voice() -> hibari.Voice:
    import torch

    torch.set_num_threads(1)
    return hibari.Voice()


@cache
def _reader() -> "Hibari":
    return hibari.package().Hibari()


@cache
def _texts(work: Path) -> tuple[list[str], list[np.ndarray]]:
    with np.load(work / "texts.npz") as stored:
        sentences, lengths = str(stored["texts"]).split("\n"), stored["lengths"]
        return sentences, np.split(stored["ids"], np.cumsum(lengths)[:-1])


def reference() -> np.ndarray:
    """The default voice's recording, int16 at 24 kHz."""
    return spoken_by(REFERENCE_TEXT, hibari.person(REFERENCE_PERSON))


def demo_clips(folder: Path, styles: Path) -> None:
    """Writes the demo dataset's recordings, which a British style of Kokoro speaks."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = (DEMO_DATASET / "metadata.csv").read_text(encoding="utf-8").splitlines()
    names, sentences = zip(*(row.split("|") for row in rows), strict=True)
    phones = kokoro.british_phones(list(sentences))
    for number, (name, read) in enumerate(zip(names, phones, strict=True)):
        spoken = _kokoro(styles).speak(read, DEMO_PERSON, _DEMO_SEEDS + number)
        soundfile.write(folder / f"{name}.flac", spoken.wave, hibari.RATE)


def spoken_by(text: str, who: hibari.Person = UNCHANGED, seed: int = 0) -> np.ndarray:
    """A text spoken by a person, int16 at 24 kHz."""
    reader = _reader()
    ids = np.array(reader.ids(" ".join(reader.phonemize(text))))
    return _voice().speak(ids, who, seed).wave
