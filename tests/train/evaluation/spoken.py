"""Invented measurements in the worker's form, and candidates made from them."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from train.evaluation.judges import judged_candidate, with_differences_from_base
from train.evaluation.plan import EvaluationSentence, Person, VoiceScale
from train.evaluation.verdict import decide
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices.evaluation_file import Candidate, CandidateKind, Verdict
from xtts.workers.requests import SpeakingRate, SpokenFacts

COUNT = 24
CENTRE = np.eye(4)[0]
PERSON = Person(SpeakingRate(1.5, 5.0), VoiceScale(CENTRE, 0.9, 0.3), None, 120.0, 8, pitch_spread=2.4)


def embedding(likeness: float) -> list[float]:
    """A unit vector with this similarity on the person's scale."""
    cosine = 0.3 + 0.6 * likeness
    return [cosine, (1 - cosine**2) ** 0.5, 0.0, 0.0]


def facts(
    seed: int = 0,
    *,
    rate: float = 1.0,
    lost: float = 0.0,
    voice: float = 0.5,
    unfinished: float = 0.0,
    pitch: float = 120.0,
    count: int = COUNT,
    errors: float | None = None,
    natural: float | None = None,
    spread: float = 2.4,
) -> list[SpokenFacts]:
    """Measurements of a candidate's sentences.

    rate: 1.15 is 15 % faster; lost: share of words left out; errors: share of each sentence's seven
    words that a recogniser gets wrong, None without a recogniser; natural: the naturalness, None if
    it was not judged; spread: of F0 in semitones.
    """
    draw, listening = random.Random(seed), random.Random(1000 + seed)
    sounding, moving = random.Random(2000 + seed), random.Random(3000 + seed)
    found = []
    for number in range(count):
        tokens = 25 + number % 12
        evidence = [draw.gauss(18, 2) if draw.random() >= lost else 0.5 for _ in range(7)]
        codes = PERSON.rate.codes(tokens) / rate * draw.gauss(1, 0.04)
        ends = draw.random() >= unfinished
        found.append(
            SpokenFacts(
                codes=round(codes if ends else 2.5 * codes),
                text_tokens=tokens,
                finished=ends,
                seconds=codes / 21.5,
                embedding=embedding(voice + draw.gauss(0, 0.05)),
                pitch_hz=pitch + draw.gauss(0, 3),
                pitch_spread=spread + moving.gauss(0, 0.3),
                words=evidence if ends else [],
                word_errors=_misheard(listening, errors) if ends else None,
                naturalness=None if natural is None else natural + sounding.gauss(0, 0.1),
            )
        )
    return found


def _misheard(draw: random.Random, errors: float | None) -> float | None:
    if errors is None:
        return None
    return sum(draw.random() < errors for _ in range(7)) / 7


def candidate(
    measured: Sequence[SpokenFacts],
    kind: CandidateKind = "epoch",
    epoch: int = 1,
    share: float = 1.0,
    loss: float | None = None,
    usual: float = 18.0,
    decoder: str = "",
    reference: Sequence[float] = (),
) -> Candidate:
    """The evaluator's candidate for these measurements."""
    person = replace(PERSON, reference_embedding=tuple(reference))
    asked = EvaluationSentence(SynthesisRequest("text", "en"), "built_in")
    sha256 = f"sha-{epoch}" if epoch else ""
    return judged_candidate(
        kind,
        epoch,
        share,
        [asked] * len(measured),
        measured,
        person,
        usual,
        sha256=sha256,
        decoder=decoder,
        loss=loss,
        seconds=1.0,
    )


def base(seed: int = 0, **changes: Any) -> Candidate:
    """A base that says every word at the person's rate, with a voice of 0.4 on their scale."""
    return candidate(facts(seed, **{"voice": 0.4, **changes}), "base", 0, 0.0)


def verdict_of(*candidates: Candidate) -> tuple[dict[str, Candidate], Verdict]:
    """The candidates by name, and the verdict; the first is the base."""
    told, verdict = decide(with_differences_from_base(candidates))
    assert verdict is not None
    return {one.name: one for one in told}, verdict
