"""Sentences for judging a voice: one set to choose a recipe, another to report it.

Trials use `choosing` alone; `reporting` is for published figures, once. A recipe looks better than
it is on the sentences by which it was chosen, as the first tables of the embedded voice did
(`twenty`). The teacher of the embedded voice says none of them.
"""

import math
import random
import re
from collections.abc import Sequence
from pathlib import Path

FILES = {"twenty": "sentences.txt", "choosing": "choosing.txt", "reporting": "reporting.txt"}
# The lengths of the sentences that `joined` uses, in words.
JOINED_WORDS = range(4, 13)
# The same number of texts of one, two, three and four sentences; they share sentences.
JOINED_TEXTS = 80


def sentences(name: str) -> list[str]:
    """The sentences of a set; `choosing` and `reporting` have 60 each, of 1 to 40 words."""
    lines = Path(__file__).with_name(FILES[name]).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line]


def joined(lines: Sequence[str], number: int, texts: int = JOINED_TEXTS) -> list[str]:
    """Texts of `number` different sentences each, always the same, of sentences of 4 to 12 words;
    each sentence comes about as often as any other. Fewer texts where no more can be made."""
    draw = random.Random(f"texts/{number}")
    short = [line for line in lines if num_words(line) in JOINED_WORDS]
    texts = min(texts, math.perm(len(short), number))
    waiting: list[str] = []
    found: list[str] = []
    while len(found) < texts:
        while len(waiting) < 2 * number:
            waiting += draw.sample(short, len(short))
        chosen = list(dict.fromkeys(waiting))[:number]
        for line in chosen:
            waiting.remove(line)
        if (text := " ".join(chosen)) not in found:
            found.append(text)
    return found


def num_words(text: str) -> int:
    """Words of a text."""
    return len(re.findall(r"[A-Za-z']+", text))
