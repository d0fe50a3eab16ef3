"""Sentences of a dataset that is read aloud: built in for each language, or from the user's text.

    DATASETS_DIR/<id>/prompts.json     the sentences; it marks a dataset that is read aloud

A built-in set is a file in `extras/studio/datasets/sentences/`: one sentence a line, in the order
of reading. `extras.studio.datasets.sentence_order` orders them so that many sounds come early.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from api.errors import APIError
from extras.studio.datasets.dataset_store import UploadedDataset
from machine.storage.files import read_json
from xtts.text.errors import TextError
from xtts.text.reading import clean_text, speakable
from xtts.text.splitting import Limits, cut

SENTENCES = Path(__file__).parent / "sentences"
MAX_PROMPTS = 1_000
# About 9 s of slow reading; a clip has at most 11.6 s.
MAX_CHARACTERS = 130
# The same in a language whose characters are syllables.
MAX_IDEOGRAPHS = 45
_SYLLABIC_LANGUAGES = ("zh", "ja", "ko")
_SENTENCE_ENDS = re.compile(r"(?<=[.!?…।؟])\s+|(?<=[.!?…।؟][\"'”’»)])\s+|(?<=[。！？])")
Source = Literal["built_in", "own"]


@dataclass(frozen=True)
class Prompts:
    """The sentences of a dataset, numbered from 1."""

    source: Source
    texts: tuple[str, ...]

    def text(self, number: int) -> str:
        """The sentence of this number. Raises APIError (404)."""
        if not 1 <= number <= len(self.texts):
            text = f"There is no sentence {number}; this dataset has {len(self.texts)}."
            raise APIError(404, "no_prompt", text, param="number")
        return self.texts[number - 1]


@lru_cache
def built_in_sentences(language: str) -> tuple[str, ...]:
    """The sentences of a language (`pt`, `pt-br`) in the order of reading; empty without a set."""
    path = SENTENCES / f"{language.partition('-')[0]}.txt"
    if not path.is_file():
        return ()
    return tuple(path.read_text(encoding="utf-8").splitlines())


def prompts_from(text: str, language: str) -> tuple[str, ...]:
    """The sentences of a user's text, in its order. Long sentences are cut at punctuation marks.

    Raises APIError (422) for a text without words or with too many sentences.
    """
    limit = MAX_IDEOGRAPHS if language.partition("-")[0] in _SYLLABIC_LANGUAGES else MAX_CHARACTERS
    limits = Limits(characters=limit, tokens=limit)
    try:
        lines = [clean_text(line) for line in text.splitlines() if speakable(line)]
    except TextError as error:
        raise APIError(422, "not_a_text", str(error), param="text") from error
    sentences = [part for line in lines for part in _SENTENCE_ENDS.split(" ".join(line.split())) if part]
    pieces = [piece.strip() for sentence in sentences for piece in cut(sentence, limits)]
    # A bar separates the columns of metadata.csv, which training reads.
    prompts = tuple(piece.replace("|", ",") for piece in pieces if speakable(piece))
    if not prompts:
        raise APIError(422, "no_text", "The text has no words to read.", param="text")
    if len(prompts) > MAX_PROMPTS:
        refusal = (
            f"The text has {len(prompts):,} sentences; a dataset has at most {MAX_PROMPTS:,}. Send "
            "part of it here and the rest to another dataset."
        )
        raise APIError(422, "too_many_prompts", refusal, param="text")
    return prompts


def is_read_aloud(dataset: UploadedDataset) -> bool:
    """Whether the dataset is read aloud."""
    return (dataset.folder / "prompts.json").is_file()


def refuse_read_aloud(dataset: UploadedDataset) -> None:
    """Raises APIError (409) if the dataset is read aloud: it takes no recordings and no text."""
    if is_read_aloud(dataset):
        text = (
            "The sentences of this dataset are read aloud one at a time, so it takes no recordings "
            "to cut. Create another dataset for them."
        )
        raise APIError(409, "read_aloud", text)


def read_prompts(dataset: UploadedDataset) -> Prompts:
    """The sentences of a dataset that is read aloud.

    Raises APIError: 404 for another dataset, 507 if prompts.json cannot be read.
    """
    if not is_read_aloud(dataset):
        text = (
            "This dataset has no sentences to read aloud. Send PUT /v1/datasets/{id}/prompts to an "
            "empty dataset."
        )
        raise APIError(404, "no_prompts", text, param="dataset")
    fields = read_json(dataset.folder / "prompts.json")
    source, texts = fields.get("source"), fields.get("texts")
    if (
        source not in ("built_in", "own")
        or not isinstance(texts, list)
        or not all(isinstance(sentence, str) for sentence in texts)
    ):
        text = "prompts.json of this dataset cannot be read. Repair it, or delete the dataset."
        raise APIError(507, "not_kept", text)
    return Prompts(source, tuple(texts))
