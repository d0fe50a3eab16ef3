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
_FIRST_KOKORO_SEED = 5_000_000
DEMO_DATASET = Path(__file__).parents[1] / "train/data/demo"
# The share of sentences of 13 to 40 words, and of clips with two or three sentences.
LONG_SHARE, JOINED_SHARE = 0.3, 0.2
# The embedded model's default voice, one of its training voices.
REFERENCE_TEXT = (
    "He could not find his keys, so he waited outside. I usually walk to work, but today I took "
    "the bus. It was late again."
)
REFERENCE_PERSON = 13
# No base has heard this style.
DEMO_PERSON = kokoro.Mix("bf_emma", {"bf_emma": 1.0})
_FIRST_DEMO_SEED = 1000
# hibari's own voice, from which the persons are derived.
UNCHANGED = hibari.Person("hibari")


def draw_texts(recipe: BaseRecipe) -> list[str]:
    """The sentences, shuffled, without those of the evaluation and of the demo dataset."""
    from demo_voice.text import lexicon
    from demo_voice.text.sentences import Grammar, LongGrammar, judged_texts, sentences

    words = lexicon.read()
    count = recipe.sentences
    num_long, num_joined = int(count * LONG_SHARE), int(count * JOINED_SHARE)
    short_sentences = sentences(Grammar(words, f"text/{recipe.seed}"), judged_texts())
    long_sentences = sentences(LongGrammar(words, f"long/{recipe.seed}"), judged_texts())
    rng = random.Random(f"texts/{recipe.seed}")
    texts = list(itertools.islice(short_sentences, count - num_long - num_joined))
    texts += itertools.islice(long_sentences, num_long)
    for _ in range(num_joined):
        texts.append(" ".join(itertools.islice(short_sentences, rng.choice((2, 2, 3)))))
    rng.shuffle(texts)
    return texts


def write_texts(recipe: BaseRecipe, work: Path) -> None:
    """Writes `texts.npz`: the sentences and hibari's phone ids of each."""
    path = work / "texts.npz"
    if path.is_file():
        return
    reader = _reader()
    texts, ids = [], []
    for text in draw_texts(recipe):
        phones = " ".join(reader.phonemize(text))
        if phones:
            texts.append(text)
            ids.append(np.array(reader.ids(phones), np.uint8))
    lengths = np.array([len(row) for row in ids], np.int32)
    np.savez_compressed(path, texts=np.array("\n".join(texts)), ids=np.concatenate(ids), lengths=lengths)


def speak_all(
    recipe: BaseRecipe, work: Path, processes: int, styles: Path | None, recordings: Path | None
) -> None:
    """Writes every missing shard of `speech`: hibari's persons, Kokoro's, and the real ones.

    styles: the folder of Kokoro's styles, and recordings: as in `teachers.recordings`. None leaves
    their persons out.
    """
    folder = work / "speech"
    folder.mkdir(exist_ok=True)
    with np.load(work / "texts.npz") as stored:
        count = min(recipe.sentences, len(stored["lengths"]))
    with ProcessPoolExecutor(processes) as pool:
        shards = range(-(-count // CLIPS_PER_SHARD))
        list(pool.map(_write_hibari_shard, itertools.repeat(recipe), itertools.repeat(work), shards))
        if styles:
            shards = range(-(-recipe.kokoro_sentences // KOKORO_CLIPS_PER_SHARD))
            arguments = (itertools.repeat(argument) for argument in (recipe, work, styles))
            list(pool.map(_write_kokoro_shard, *arguments, shards))
    if recordings:
        all_phrases = real_people.read(recordings)
        for number, phrases in enumerate(_batched(all_phrases, CLIPS_PER_SHARD)):
            labels = [(phrase.words, phrase.person) for phrase in phrases]
            clips = [real_people.to_clip(phrase) for phrase in phrases]
            write_shard(folder / f"shard_r{number:04d}.npz", clips, labels)


def _batched(phrases: Iterable[Phrase], count: int) -> Iterator[list[Phrase]]:
    iterator = iter(phrases)
    while batch := list(itertools.islice(iterator, count)):
        yield batch


def _write_kokoro_shard(recipe: BaseRecipe, work: Path, styles: Path, shard: int) -> None:
    path = work / "speech" / f"shard_k{shard:04d}.npz"
    if path.is_file():
        return
    texts = _kokoro_texts(recipe)
    first = shard * KOKORO_CLIPS_PER_SHARD
    numbers = range(first, min(first + KOKORO_CLIPS_PER_SHARD, len(texts)))
    # A factor without a common divisor, so that each shard has many persons.
    persons = [kokoro.draw_mix(number * 67 % kokoro.PERSONS) for number in numbers]
    british = [texts[n] for n, person in zip(numbers, persons, strict=True) if person.is_british]
    british_phones = dict(zip(british, kokoro.british_phones(british), strict=True))
    clips, labels = [], []
    for number, person in zip(numbers, persons, strict=True):
        text = texts[number]
        phones = british_phones[text] if person.is_british else " ".join(_reader().phonemize(text))
        clips.append(_kokoro(styles).speak(phones, person, _FIRST_KOKORO_SEED + number))
        labels.append((text, person.name))
    write_shard(path, clips, labels)


@cache
def _kokoro(styles: Path) -> kokoro.Kokoro:
    import torch

    torch.set_num_threads(1)
    return kokoro.Kokoro(styles)


@cache
def _kokoro_texts(recipe: BaseRecipe) -> list[str]:
    return draw_texts(replace(recipe, seed=recipe.seed + 1, sentences=recipe.kokoro_sentences))


def _write_hibari_shard(recipe: BaseRecipe, work: Path, shard: int) -> None:
    path = work / "speech" / f"shard_{shard:05d}.npz"
    if path.is_file():
        return
    texts, all_ids = _read_texts(work)
    first = shard * CLIPS_PER_SHARD
    clips, labels = [], []
    for number in range(first, min(first + CLIPS_PER_SHARD, recipe.sentences, len(texts))):
        person = hibari.draw_person(number % recipe.persons)
        clips.append(_voice().speak(all_ids[number], person, number))
        labels.append((texts[number], person.name))
    write_shard(path, clips, labels)


@cache
def _voice() -> hibari.Voice:
    import torch

    torch.set_num_threads(1)
    return hibari.Voice()


@cache
def _reader() -> "Hibari":
    return hibari.package().Hibari()


@cache
def _read_texts(work: Path) -> tuple[list[str], list[np.ndarray]]:
    """The sentences, and hibari's phone ids of each."""
    with np.load(work / "texts.npz") as stored:
        texts, lengths = str(stored["texts"]).split("\n"), stored["lengths"]
        return texts, np.split(stored["ids"], np.cumsum(lengths)[:-1])


def speak_reference() -> np.ndarray:
    """The default voice's recording, int16 at 24 kHz."""
    return speak_by(REFERENCE_TEXT, hibari.draw_person(REFERENCE_PERSON))


def write_demo_clips(folder: Path, styles: Path) -> None:
    """Writes the demo dataset's recordings, which a British style of Kokoro speaks."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = (DEMO_DATASET / "metadata.csv").read_text(encoding="utf-8").splitlines()
    names, texts = zip(*(row.split("|") for row in rows), strict=True)
    all_phones = kokoro.british_phones(list(texts))
    for number, (name, phones) in enumerate(zip(names, all_phones, strict=True)):
        clip = _kokoro(styles).speak(phones, DEMO_PERSON, _FIRST_DEMO_SEED + number)
        soundfile.write(folder / f"{name}.flac", clip.wave, hibari.RATE)


def speak_by(text: str, person: hibari.Person = UNCHANGED, seed: int = 0) -> np.ndarray:
    """A text spoken by a person, int16 at 24 kHz."""
    reader = _reader()
    ids = np.array(reader.ids(" ".join(reader.phonemize(text))))
    return _voice().speak(ids, person, seed).wave
