"""Finds the attention heads of a model that follow the text, by measuring its speech.

Nobody knows beforehand: guided training puts them where it wants
(https://arxiv.org/abs/1710.08969), and in other models a few of hundreds learn it by themselves.
`config.json` names them under `sotaque.alignment_heads`; where it does not they are measured once,
on sentences that the voice speaks for that, and kept beside the latents. A model that learned
nothing has none, and that is told.
"""

import itertools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from machine.storage.atomic import WriteError, make_folder, write_json
from xtts.inference.alignment.path import align

log = logging.getLogger(__name__)

Array = np.ndarray[Any, Any]
# Layer and number.
Head = tuple[int, int]
# What a measurement speaks of one text: attention `[codes, positions]` by head, and which positions
# are said.
Spoken = tuple[Mapping[Head, Array], Sequence[bool]]

TEXTS = (
    "The first train leaves at six.",
    "We walked along the river.",
    "Please put the box on the table.",
)
# Longer than any of them takes; a model of random weights never stops.
MOST_CODES = 160
# What a head must reach, where 1 is to look at every token in its turn and at nothing else. The
# embedded voice's guided heads reach 0.9, its others and random ones 0.1 to 0.4.
FOLLOWS = 0.6
# How much worse than the best one a head may be to help it, and how many are enough.
NEARLY, MOST_HEADS = 0.8, 3
# Of hundreds, only those whose gaze moves most evenly are looked at closely.
_LOOKED_AT = 24
# The last codes of an utterance, which are silence.
_CLOSING = 4


def measured(backend: Any, voice: Any) -> tuple[Head, ...]:
    """The heads that follow the text while a few sentences are spoken with a voice. backend: an
    `xtts.inference.speech.Backend`, and voice one of its voices."""
    return choose([spoken(backend, voice, text) for text in TEXTS])


def spoken(backend: Any, voice: Any, text: str) -> Spoken:
    """What every head gave to a text while it was spoken."""
    model, languages = backend.model, backend.model.config.languages
    piece = model.tokenizer.split(text, "en" if "en" in languages else languages[0])[0]
    shape = model.config.gpt
    everyone = tuple(itertools.product(range(shape.layers), range(shape.heads)))
    utterance = backend.begin(
        voice, piece.ids, model.config.decoding, backend.random(0), MOST_CODES, everyone
    )
    while not utterance.done:
        backend.step([utterance])
    backend.end(utterance)
    if utterance.error is not None:
        raise utterance.error
    return utterance.attention_by_head(), model.tokenizer.spoken(piece.ids)


def choose(spoken: Sequence[Spoken]) -> tuple[Head, ...]:
    """The heads that follow the text in all of these utterances, the best first; () where none
    does."""
    likely = sorted(spoken[0][0], key=lambda head: -_evenness([rows[head] for rows, _ in spoken]))
    marks = {
        head: min(following(rows[head], positions) for rows, positions in spoken)
        for head in likely[:_LOOKED_AT]
    }
    best = max(marks.values())
    log.info("Attention heads, the best: %s", _listed(marks))
    if best < FOLLOWS:
        return ()
    kept = [head for head, mark in marks.items() if mark >= max(FOLLOWS, NEARLY * best)]
    return tuple(sorted(kept, key=lambda head: -marks[head])[:MOST_HEADS])


def following(rows: Array, spoken: Sequence[bool]) -> float:
    """How well attention `[codes, positions]` follows the text: its share near the path, times the
    share of the tokens that the path visits. A head that always looks at one place has the first
    and not the second. Half of it is for looking behind the last word at the end, which is what
    tells an ending."""
    alignment = align(rows, spoken)
    closing = float(rows[-_CLOSING:, alignment.last_spoken + 1 :].sum(1).mean())
    visited = np.zeros(len(alignment.spoken), bool)
    visited[alignment.path] = True
    return alignment.confidence * float(visited[alignment.spoken].mean()) * (0.5 + 0.5 * closing)


def kept_or_measured(
    path: Path | None, measure: Callable[[], tuple[Head, ...]]
) -> tuple[Head, ...]:
    """The heads that a file tells of, or that are measured and written there. path: None keeps
    nothing; a file that cannot be written costs time only."""
    if path is not None and (kept := _read(path)) is not None:
        return kept
    heads = measure()
    if path is not None:
        try:
            make_folder(path.parent)
            write_json(path, {"schema": 1, "alignment_heads": heads})
        except WriteError as error:
            log.warning("The attention heads that follow the text are not kept: %s", error)
    return heads


def path_of(folder: Path, model: str) -> Path:
    """Where the heads of a model are kept. model: the SHA-256 of the base's `model.pth`: no
    fine-tuning moves them."""
    return folder / "alignment_heads" / f"{model}.json"


def _read(path: Path) -> tuple[Head, ...] | None:
    try:
        content = json.loads(path.read_bytes())
        return TypeAdapter(tuple[Head, ...]).validate_python(content["alignment_heads"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        log.warning("%s cannot be read; the heads are measured anew (%s).", path, error)
        return None


def _evenness(rows: Sequence[Array]) -> float:
    """The least correlation of where a head looks with time."""
    gazes = [one @ np.arange(one.shape[1]) for one in rows]
    moving = [np.std(gaze) > 1e-6 and len(gaze) > 1 for gaze in gazes]
    if not all(moving):
        return -1.0
    return min(float(np.corrcoef(gaze, np.arange(len(gaze)))[0, 1]) for gaze in gazes)


def _listed(marks: Mapping[Head, float]) -> str:
    best = sorted(marks.items(), key=lambda item: -item[1])[:4]
    return ", ".join(f"layer {layer} head {head} {mark:.2f}" for (layer, head), mark in best)
