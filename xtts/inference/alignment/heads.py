"""Finds the attention heads that follow the text, by measuring speech of the model.

Guided training trains chosen heads to follow the text (https://arxiv.org/abs/1710.08969); in other
models, a few of the hundreds of heads learn it by themselves. `config.json` may name them under
`sotaque.alignment_heads`. Otherwise they are measured once, on a few sentences.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xtts.inference.alignment.guard import Array as Array
from xtts.inference.alignment.guard import align

# Layer and number.
Head = tuple[int, int]
# The measurement of one text: attention `[codes, positions]` by head, and the spoken positions.
Spoken = tuple[Mapping[Head, Array], Sequence[bool]]

TEXTS = ("The first train leaves at six.", "We walked along the river.", "Please put the box on the table.")
# A limit above the length of all these texts; a model with random weights never stops.
MAX_CODES = 160
# The least score of a head; 1 means that it attends to one token after the other and to nothing
# else. The embedded voice's guided heads reach 0.9, its other heads and random ones 0.1 to 0.4.
FOLLOWS = 0.6
# The least score relative to the best head's, and the largest number of heads.
NEARLY, MAX_HEADS = 0.8, 3
# The number of heads that are scored: those whose mean position advances most evenly.
_LOOKED_AT = 24
# The number of silent codes at the end of an utterance.
_CLOSING = 4


def measure(backend: Any, voice: Any) -> tuple[Head, ...]:
    """Measures the heads that follow the text by speaking a few sentences.

    Args:
        backend: An `xtts.inference.speech.Backend`.
        voice: A voice of that backend.
    """
    return choose([speak(backend, voice, text) for text in TEXTS])


def speak(backend: Any, voice: Any, text: str) -> Spoken:
    """Speaks a text and returns the attention of every head to it."""
    model, languages = backend.model, backend.model.config.languages
    piece = model.tokenizer.split(text, "en" if "en" in languages else languages[0])[0]
    shape = model.config.gpt
    everyone = tuple(itertools.product(range(shape.layers), range(shape.heads)))
    utterance = backend.begin(voice, piece.ids, model.config.decoding, backend.random(0), MAX_CODES, everyone)
    while not utterance.done:
        backend.step([utterance])
    backend.end(utterance)
    if utterance.error is not None:
        raise utterance.error
    return utterance.attention_by_head(), model.tokenizer.spoken_positions(piece.ids)


def choose(spoken: Sequence[Spoken]) -> tuple[Head, ...]:
    """The heads that follow the text in all of these utterances, best first; () if none does."""
    likely = sorted(spoken[0][0], key=lambda head: -_evenness([rows[head] for rows, _ in spoken]))
    marks = {
        head: min(following(rows[head], positions) for rows, positions in spoken)
        for head in likely[:_LOOKED_AT]
    }
    best = max(marks.values())
    if best < FOLLOWS:
        return ()
    chosen = [head for head, mark in marks.items() if mark >= max(FOLLOWS, NEARLY * best)]
    return tuple(sorted(chosen, key=lambda head: -marks[head])[:MAX_HEADS])


def following(rows: Array, spoken: Sequence[bool]) -> float:
    """Scores how well attention `[codes, positions]` follows the text, from 0 to 1.

    The score is the share of attention near the path times the share of tokens on the path. (A head
    that always attends to one place is near the path, but does not cover the tokens.) Half of the
    score depends on attending past the last word at the end, which the guard needs.
    """
    alignment = align(rows, spoken)
    closing = float(rows[-_CLOSING:, alignment.last_spoken + 1 :].sum(1).mean())
    visited = np.zeros(len(alignment.spoken), bool)
    visited[alignment.path] = True
    near, covered = alignment.nearness.mean(), visited[alignment.spoken].mean()
    return float(near) * float(covered) * (0.5 + 0.5 * closing)


def _evenness(rows: Sequence[Array]) -> float:
    """The smallest correlation between a head's mean position and time."""
    gazes = [attention @ np.arange(attention.shape[1]) for attention in rows]
    moving = [np.std(gaze) > 1e-6 and len(gaze) > 1 for gaze in gazes]
    if not all(moving):
        return -1.0
    return min(float(np.corrcoef(gaze, np.arange(len(gaze)))[0, 1]) for gaze in gazes)
