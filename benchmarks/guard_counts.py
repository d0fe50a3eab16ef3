"""What the guard finds among many utterances: faults made by patched logits, and false alarms on
utterances without one.

Each text is one line of JSON, so that a count of an hour goes on where it was stopped.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import judges
from benchmarks.guard_utterances import (
    heard,
    heard_whole,
    own_voice,
    patches,
    pieces_of,
    said,
    speech_behind,
)
from xtts.inference.alignment.guarded_piece import Guard, SpokenPiece
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.speech import Speech
from xtts.inference.synthesis_request import SynthesisRequest

Line = Mapping[str, Any]
# Every so many texts on which the guard changed nothing are listened to as well.
LISTENED_TO = 10


def counts(
    voice: LoadedVoice, texts: Sequence[str], faults: int, lines: Path | None
) -> dict[str, Any]:
    """Speaks the texts, and makes so many faults with the first of them; what is in `lines` already
    is not said again."""
    found: list[Line] = []
    if lines is not None and lines.is_file():
        found = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    known = {(line["part"], line["text"]) for line in found}

    def add(line: Line) -> None:
        found.append(line)
        if lines is not None:
            with lines.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    for number, text in enumerate(texts):
        made = sum(len(line["made"]) for line in found if line["part"] == "faults")
        if made < faults and ("faults", text) not in known:
            add(_with_faults(voice, text))
        if ("spoken", text) not in known:
            add(_spoken(voice, text, number))
    return summary(found, set(texts))


def summary(lines: Sequence[Line], texts: set[str]) -> dict[str, Any]:
    """The figures of these texts."""
    spoken, faulty = (
        [one for one in lines if one["part"] == part and one["text"] in texts]
        for part in ("spoken", "faults")
    )
    return {**_alarms(spoken), **_words(spoken), **_faults(faulty)}


# ---- what a line tells ----


def _with_faults(voice: LoadedVoice, text: str) -> dict[str, Any]:
    made, harmless = list[dict[str, Any]](), 0
    for piece, _ in pieces_of(voice, text):
        good = said(voice, piece)
        if not good.verdict.good:
            continue
        for name, patch in patches(good, voice.model.tokenizer.word_spans(piece.ids)).items():
            bad = said(voice, piece, patch)
            if name.startswith("stop") and not speech_behind(good, len(bad.codes)):
                harmless += 1
                continue
            made.append({"fault": name, "ending": bad.verdict.ending, "piece": piece.text})
    return {"part": "faults", "text": text, "made": made, "harmless": harmless}


def _spoken(voice: LoadedVoice, text: str, number: int) -> dict[str, Any]:
    ask = SynthesisRequest(text, "en", seed=number)
    tokenizer = voice.model.tokenizer
    guard, first = (Guard(voice.heads, tokenizer.spoken, number, retries) for retries in (2, 0))
    guarded = voice.synthesize_guarded(ask, guard)
    changed = any(piece.attempts > 1 or piece.cut_off for piece in guard.pieces)
    line: dict[str, Any] = {
        "part": "spoken", "text": text,
        "pieces": [{**piece.as_dict(), "codes": piece.codes} for piece in guard.pieces],
        "alarms": [], "words": len(tokenizer.spelled(text, "en")),
    }  # fmt: skip
    if changed:
        voice.synthesize_guarded(ask, first)
        line["alarms"] = _alarms_of(voice, ask, first.pieces)
    if changed or number % LISTENED_TO == 0:
        plain = voice.synthesize_guarded(ask, None) if changed else guarded
        line["heard"] = " ".join(heard(plain))
        line["heard_guarded"] = " ".join(heard(guarded)) if changed else line["heard"]
        line["spelled"] = " ".join(tokenizer.spelled(text, "en"))
    return line


def _alarms_of(
    voice: LoadedVoice, ask: SynthesisRequest, verdicts: Sequence[SpokenPiece]
) -> list[dict[str, Any]]:
    """The first attempts that are not good, and whether the recogniser says the same."""
    said, sounds = Speech(voice.backend(), own_voice(voice), ask, chunked=False), []
    while not said.done:
        sounds.append(torch.cat(list(said.next_piece())))
    told = []
    for (piece, words), verdict, sound in zip(
        pieces_of(voice, ask.text), verdicts, sounds, strict=True
    ):
        if verdict.ending != "good":
            false = heard_whole(words, np.asarray(sound))
            told.append({"false": false, "reason": verdict.reason, "piece": piece.text})
    return told


# ---- sums ----


def _alarms(lines: Sequence[Line]) -> dict[str, Any]:
    pieces = [piece for line in lines for piece in line["pieces"]]
    alarms = [alarm for line in lines for alarm in line["alarms"]]
    false = [alarm for alarm in alarms if alarm["false"]]
    with_false = sum(any(alarm["false"] for alarm in line["alarms"]) for line in lines)
    good = sum(piece["ending"] == "good" for piece in pieces)
    faulty = sum(piece["ending"] != "good" and not piece["cut_off"] for piece in pieces)
    attempts = sum(piece["attempts"] for piece in pieces) / max(1, len(pieces))
    by_reason = {
        kind: dict(Counter(_kind(alarm["reason"]) for alarm in alarms if alarm["false"] is kind))
        for kind in (True, False)
    }
    return {
        "texts": len(lines),
        "pieces": len(pieces),
        "alarms on first attempts": len(alarms),
        "of which false": f"{len(false)} ({len(false) / max(1, len(pieces)):.2%} of the pieces)",
        "texts with a false alarm": f"{with_false} ({with_false / max(1, len(lines)):.2%})",
        "false, by what was seen": by_reason[True],
        "confirmed, by what was seen": by_reason[False],
        "good pieces in the end": f"{good} of {len(pieces)}",
        "cut behind the last word": sum(piece["cut_off"] for piece in pieces),
        "faulty and told": faulty,
        "attempts a piece": round(attempts, 3),
    }


def _kind(reason: str) -> str:
    """What was seen, without the figures."""
    return " ".join(word for word in reason.split() if not any(map(str.isdigit, word)))


def _words(lines: Sequence[Line]) -> dict[str, Any]:
    changed = [line for line in lines if line["alarms"]]
    same = [line for line in lines if "heard" in line and not line["alarms"]]
    found: dict[str, Any] = {}
    if changed:
        spelled = [line["spelled"] for line in changed]
        found["texts that the guard changed"] = len(changed)
        for name, key in (("without", "heard"), ("with", "heard_guarded")):
            errors = judges.word_errors(spelled, [line[key] for line in changed])
            found[f"word errors in these, {name} guard"] = f"{errors:.1%}"
    if same:
        errors = judges.word_errors([o["spelled"] for o in same], [o["heard"] for o in same])
        found["word errors in others"] = f"{errors:.1%} ({len(same)} texts)"
    return found


def _faults(lines: Sequence[Line]) -> dict[str, Any]:
    made = [fault for line in lines for fault in line["made"]]
    missed = [one for one in made if one["ending"] == "good"]
    of, lost = (Counter(one["fault"] for one in some) for some in (made, missed))
    return {
        **{name: f"{count - lost[name]} of {count}" for name, count in of.items()},
        "faults found": f"{len(made) - len(missed)} of {len(made)}",
        "unfinished and not told": sum(one["fault"].startswith("stop") for one in missed),
        "stops that cut silence only": sum(line["harmless"] for line in lines),
        "missed": [f"{one['fault']}: {one['piece']}" for one in missed],
    }
