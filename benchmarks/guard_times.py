"""Word times by attention, compared with flite's, which prints when each phone sounds."""

import statistics
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import torch

from benchmarks import judges
from benchmarks.guard_counts import JudgedUtterance, forced, said
from xtts.audio import CODE_RATE, SPEAKER_RATE, dvae_mel, resample
from xtts.inference.alignment.guard import CODE_SECONDS
from xtts.inference.alignment.guarded_piece import LoudnessLog, without_silence
from xtts.inference.loaded_voice import LoadedVoice
from xtts.model.vocoder import load_dvae
from xtts.text.phonemes import PHONES
from xtts.text.tokenizer import Piece

SILENCE = "pau"  # by flite's name
# Begin and end of a word in seconds.
Span = tuple[float, float]


def of_recordings(voice: LoadedVoice, texts: Sequence[str], name: str) -> dict[str, Any]:
    """Milliseconds between a word's begin and end, ours and as flite tells them, of flite's
    recordings of one piece each, whose codes are forced."""
    dvae = load_dvae(voice.folder, voice.model.config)
    pairs, recordings = list[tuple[Span, Span]](), 0
    for text in texts:
        pieces = voice.model.tokenizer.split(text, "en")
        if len(pieces) > 1:
            continue
        wave = resample(judges.teacher(name, text), SPEAKER_RATE, CODE_RATE)
        with torch.inference_mode():
            mel = dvae_mel(wave[None], voice.model.mel_stats)
            codes = dvae.get_codebook_indices(mel)[0].tolist()
        utterance = said(voice, pieces[0], forced(codes))
        if utterance.path is None:
            return {"no head follows the text": True}
        told = judges.phone_times(name, text)
        pairs += _told_pairs(voice, pieces[0], utterance, told)
        recordings += 1
    return {"recordings": recordings, **_errors(pairs)}


def _errors(pairs: Sequence[tuple[Span, Span]]) -> dict[str, Any]:
    if not pairs:
        return {"words": 0}
    signed = [1000 * (a - b) for ours, theirs in pairs for a, b in zip(ours, theirs, strict=True)]
    errors = [abs(one) for one in signed]
    return {
        "words": len(pairs),
        "median ms": round(statistics.median(errors), 1),
        "95 % ms": round(float(np.quantile(errors, 0.95)), 1),
        "median with sign ms": round(statistics.median(signed), 1),
    }


def _times(utterance: JudgedUtterance) -> np.ndarray:
    """`[positions, 2]` in seconds, as `SpokenPiece.times`."""
    assert utterance.path is not None
    log = LoudnessLog()
    log.push(utterance.sound)
    times = utterance.path.times() * CODE_SECONDS
    return without_silence(times, utterance.path.spoken, log.loud())


def _told_pairs(
    voice: LoadedVoice, piece: Piece, utterance: JudgedUtterance, told: Sequence[tuple[str, float]]
) -> Iterator[tuple[Span, Span]]:
    """Begin and end of each word, ours and flite's, where both have its first and last phone."""
    assert utterance.path is not None
    letters = {name.lower(): letter for name, letter in PHONES.items()}
    sounds = [(letters.get(phone.lower(), phone), start, end)
              for (phone, end), start in zip(told, [0.0, *(end for _, end in told)], strict=False)
              if phone != SILENCE]  # fmt: skip
    tokens = [
        (position, voice.model.tokenizer.token(id_))
        for position, id_ in enumerate(piece.ids, start=1)
        if utterance.path.spoken[position]
    ]
    same = SequenceMatcher(
        None, [letter for _, letter in tokens], [letter for letter, _, _ in sounds], autojunk=False
    )
    matched = {
        tokens[a + k][0]: sounds[b + k][1:] for a, b, size in same.get_matching_blocks()
        for k in range(size)
    }  # fmt: skip
    ours = _times(utterance)
    for word in voice.model.tokenizer.word_spans(piece.ids):
        if word.first in matched and word.last in matched:
            begin, end = float(ours[word.first, 0]), float(ours[word.last, 1])
            yield (begin, end), (matched[word.first][0], matched[word.last][1])
