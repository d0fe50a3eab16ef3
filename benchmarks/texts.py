"""Sentences for judging a voice: one set to choose a recipe, another to report it.

Trials use `choosing` alone; `reporting` is for published figures, once. A recipe looks better than
it is on the sentences by which it was chosen (`twenty`). No teacher of the embedded voice says any.
"""

import re
from pathlib import Path

FILES = {"twenty": "sentences.txt", "choosing": "choosing.txt", "reporting": "reporting.txt"}


def sentences(name: str) -> list[str]:
    """The sentences of a set; `choosing` and `reporting` have 60 each, of 1 to 40 words."""
    lines = Path(__file__).with_name(FILES[name]).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line]


def num_words(text: str) -> int:
    """Words of a text."""
    return len(re.findall(r"[A-Za-z']+", text))
