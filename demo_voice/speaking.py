"""The sentences of the teachers, their phones, and the clips that the teachers speak."""

import itertools
import json
import random
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from demo_voice.recipe import BaseRecipe
from demo_voice.speech import without_times, write_shard
from demo_voice.teachers import hibari

CLIPS_PER_SHARD = 100
DEMO_DATASET = Path(__file__).parents[1] / "train/data/demo"
# The share of sentences of 13 to 40 words, and of clips with two or three sentences.
LONG, JOINED = 0.3, 0.2
# The embedded model's default voice, one of its training voices.
REFERENCE_TEXT = (
    "He could not find his keys, so he waited outside. I usually walk to work, but today I took "
    "the bus. It was late again."
)
REFERENCE_PERSON = 13
# No base has heard the unchanged voice.
DEMO_PERSON = hibari.Person("hibari")


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
    found = list(itertools.islice(short, count - long - joined))
    found += itertools.islice(lengthy, long)
    for _ in range(joined):
        found.append(" ".join(itertools.islice(short, draw.choice((2, 2, 3)))))
    draw.shuffle(found)
    return found


def write_texts(recipe: BaseRecipe, work: Path) -> None:
    """Writes `texts.npz`: the sentences and hibari's phone ids of each."""
    path = work / "texts.npz"
    if path.is_file():
        return
    reader = _reader()
    said, ids = [], []
    for text in texts(recipe):
        phones = " ".join(reader.phonemize(text))
        if phones:
            said.append(text)
            ids.append(np.array(reader.ids(phones), np.uint8))
    lengths = np.array([len(one) for one in ids], np.int32)
    np.savez_compressed(
        path, texts=np.array("\n".join(said)), ids=np.concatenate(ids), lengths=lengths
    )


def speak_all(recipe: BaseRecipe, work: Path, processes: int) -> None:
    """Writes every missing shard of `speech`: hibari's persons, and Kokoro's clips in `timbres`."""
    folder = work / "speech"
    folder.mkdir(exist_ok=True)
    with np.load(work / "texts.npz") as kept:
        count = min(recipe.sentences, len(kept["lengths"]))
    jobs = range(-(-count // CLIPS_PER_SHARD))
    with ProcessPoolExecutor(processes) as pool:
        list(pool.map(_speak, itertools.repeat(recipe), itertools.repeat(work), jobs))
    for path in sorted((work / "timbres").glob("*.ogg")):
        shard = folder / f"shard_k{path.stem}.npz"
        if not shard.is_file():
            rows = json.loads(path.with_suffix(".json").read_text())
            wave, _ = soundfile.read(path, dtype="int16")
            ends = np.cumsum([samples for _, _, samples in rows])
            waves = np.split(wave[: ends[-1]], ends[:-1])
            said = [(text, person) for text, person, _ in rows]
            write_shard(shard, [without_times(one) for one in waves], said)


def _speak(recipe: BaseRecipe, work: Path, shard: int) -> None:
    path = work / "speech" / f"shard_{shard:05d}.npz"
    if path.is_file():
        return
    said, all_ids = _texts(work)
    first = shard * CLIPS_PER_SHARD
    spoken, names = [], []
    for number in range(first, min(first + CLIPS_PER_SHARD, recipe.sentences, len(said))):
        who = hibari.person(number % recipe.persons)
        spoken.append(_voice().speak(all_ids[number], who, number))
        names.append((said[number], who.name))
    write_shard(path, spoken, names)


@cache
def _voice() -> hibari.Voice:
    import torch

    torch.set_num_threads(1)
    return hibari.Voice()


@cache
def _reader() -> Any:
    return hibari.package().Hibari()


@cache
def _texts(work: Path) -> tuple[list[str], list[np.ndarray]]:
    with np.load(work / "texts.npz") as kept:
        said, lengths = str(kept["texts"]).split("\n"), kept["lengths"]
        return said, np.split(kept["ids"], np.cumsum(lengths)[:-1])


def reference() -> np.ndarray:
    """The default voice's recording, int16 at 24 kHz."""
    return spoken_by(REFERENCE_TEXT, hibari.person(REFERENCE_PERSON))


def demo_clips(folder: Path) -> None:
    """Writes the demo dataset's recordings, which hibari's unchanged voice speaks."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = (DEMO_DATASET / "metadata.csv").read_text(encoding="utf-8").splitlines()
    for number, row in enumerate(rows):
        name, text = row.split("|")
        wave = spoken_by(text, DEMO_PERSON, 1000 + number)
        soundfile.write(folder / f"{name}.flac", wave, hibari.RATE)


def spoken_by(text: str, who: hibari.Person = DEMO_PERSON, seed: int = 0) -> np.ndarray:
    """A text spoken by a person, int16 at 24 kHz."""
    reader = _reader()
    ids = np.array(reader.ids(" ".join(reader.phonemize(text))))
    return _voice().speak(ids, who, seed).wave
