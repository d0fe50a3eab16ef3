"""What every candidate speaks: built-in sentences of the language or one's own, and beside them
what some of the person's own clips say.

The built-in ones are in no set by which this project reports anything
(`tests/train/evaluation/test_sentences.py`), so that what is chosen by them can be judged by those.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from machine.errors import SotaqueError
from train.dataset.dataset import Clip
from xtts.inference.synthesis_request import SynthesisRequest

FOLDER = Path(__file__).parents[1] / "data" / "evaluation"
# Every fourth sentence is one that the person has said: there the epochs are at home.
CLIP_EVERY = 4
# Sounds that are kept to be heard, of each candidate.
KEPT_SOUNDS = 4


@dataclass(frozen=True)
class EvaluationSentence:
    """source: built_in, own or clip."""

    request: SynthesisRequest
    source: str


def built_in(language: str) -> list[str]:
    """The sentences of a language; empty for one that has none."""
    path = FOLDER / f"{language.split('-')[0]}.txt"
    return _lines(path) if path.is_file() else []


def planned(
    own: Path | None, language: str, clips: Sequence[Clip], seed: int
) -> list[EvaluationSentence]:
    """The sentences in the order in which they are spoken: any first so many are a fair share.

    own: EVALUATE_TEXTS; clips: of the person, not what is spoken from. Raises SotaqueError.
    """
    texts = _lines(own) if own else built_in(language)
    source = "own" if own else "built_in"
    said = list(dict.fromkeys(clip.text for clip in clips if clip.text not in texts))
    found: list[tuple[str, str]] = []
    for number, text in enumerate(texts):
        found.append((text, source))
        if number % (CLIP_EVERY - 1) == CLIP_EVERY - 2 and said:
            found.append((said.pop(0), "clip"))
    if not texts:
        found = [(text, "clip") for text in said]
    return [
        EvaluationSentence(SynthesisRequest(text, language, seed * 10_000 + 100 * number), source)
        for number, (text, source) in enumerate(found)
    ]


def set_sha256(
    sentences: Sequence[EvaluationSentence], reference_sha256: str, recogniser: str = ""
) -> str:
    """What makes two evaluations comparable: the same sentences, seeds, recording and recogniser
    ("" is none)."""
    told = [[one.text, one.language, one.seed] for one in (each.request for each in sentences)]
    heard = [recogniser] if recogniser else []
    return hashlib.sha256(json.dumps([reference_sha256, told, *heard]).encode()).hexdigest()


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SotaqueError(f"EVALUATE_TEXTS={path} cannot be read ({error}).") from error
    found = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not found:
        raise SotaqueError(f"EVALUATE_TEXTS={path} holds no sentence; write one a line.")
    return found
