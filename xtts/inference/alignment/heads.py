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

# A layer and the number of a head in it.
Head = tuple[int, int]
# The measurement of one text: attention `[codes, positions]` by head, and the spoken positions.
TextAttention = tuple[Mapping[Head, Array], Sequence[bool]]

TEXTS = ("The first train leaves at six.", "We walked along the river.", "Please put the box on the table.")
# More than any of these texts needs; a model with random weights never stops.
MAX_CODES = 160
# A head with a score of 1 attends to one token after the other and to nothing else. The embedded
# voice's guided heads reach 0.9, its other heads and random ones 0.1 to 0.4.
MIN_SCORE = 0.6
# A share of the best head's score.
MIN_RELATIVE_SCORE = 0.8
MAX_HEADS = 3
# Only the heads whose mean position advances most evenly are scored.
_MAX_SCORED_HEADS = 24
# Silent codes at the end of an utterance.
_CLOSING_CODES = 4


def measure(backend: Any, voice: Any) -> tuple[Head, ...]:
    """Measures the heads that follow the text by speaking a few sentences.

    Args:
        backend: An `xtts.inference.speech.Backend`.
        voice: A voice of that backend.
    """
    return choose_heads([speak(backend, voice, text) for text in TEXTS])


def speak(backend: Any, voice: Any, text: str) -> TextAttention:
    """Speaks a text and returns the attention of every head to it."""
    model, languages = backend.model, backend.model.config.languages
    piece = model.tokenizer.split(text, "en" if "en" in languages else languages[0])[0]
    shape = model.config.gpt
    all_heads = tuple(itertools.product(range(shape.layers), range(shape.heads)))
    utterance = backend.begin(
        voice, piece.ids, model.config.decoding, backend.random(0), MAX_CODES, all_heads
    )
    while not utterance.done:
        backend.step([utterance])
    backend.end(utterance)
    if utterance.error is not None:
        raise utterance.error
    return utterance.attention_by_head(), model.tokenizer.spoken_positions(piece.ids)


def choose_heads(spoken: Sequence[TextAttention]) -> tuple[Head, ...]:
    """The heads that follow the text in all of these utterances, best first; () if none does."""
    likely = sorted(spoken[0][0], key=lambda head: -_evenness([rows[head] for rows, _ in spoken]))
    scores = {
        head: min(following_score(rows[head], positions) for rows, positions in spoken)
        for head in likely[:_MAX_SCORED_HEADS]
    }
    best = max(scores.values())
    if best < MIN_SCORE:
        return ()
    chosen = [head for head, score in scores.items() if score >= max(MIN_SCORE, MIN_RELATIVE_SCORE * best)]
    return tuple(sorted(chosen, key=lambda head: -scores[head])[:MAX_HEADS])


def following_score(rows: Array, spoken: Sequence[bool]) -> float:
    """Scores how well attention `[codes, positions]` follows the text, from 0 to 1.

    The score is the share of attention near the path times the share of tokens on the path. (A head
    that always attends to one place is near the path, but does not cover the tokens.) Half of the
    score depends on attending past the last word at the end, which the guard needs.
    """
    alignment = align(rows, spoken)
    closing = float(rows[-_CLOSING_CODES:, alignment.last_spoken + 1 :].sum(1).mean())
    visited = np.zeros(len(alignment.spoken), bool)
    visited[alignment.path] = True
    nearness, covered = alignment.nearness.mean(), visited[alignment.spoken].mean()
    return float(nearness) * float(covered) * (0.5 + 0.5 * closing)


def _evenness(rows: Sequence[Array]) -> float:
    """The smallest correlation between a head's mean position and time."""
    tracks = [attention @ np.arange(attention.shape[1]) for attention in rows]
    if not all(np.std(track) > 1e-6 and len(track) > 1 for track in tracks):
        return -1.0
    return min(float(np.corrcoef(track, np.arange(len(track)))[0, 1]) for track in tracks)
