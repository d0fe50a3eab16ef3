"""Aligns pieces of a text with spans of a recording, by the base model's GPT.

The score of a span is a log-likelihood ratio with teacher forcing: the log-likelihood of its codes
and of STOP after them, given the text, minus that of the codes given other words. Each code depends
only on those before it, so one pass scores all ends of a span. This works in every language of the
base, such as the seventeen of XTTS-v2.

Breaths, which have a pause on both sides, are processed in order. A run of breaths can match the
next pieces, or be skipped (other speech); pieces can be skipped too (text that was not spoken).
Dynamic programming with a beam (Lowerre 1976) finds the reading with the largest sum of scores.
Skipping costs little.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from extras.cut.planning import LONGEST_SECONDS
from extras.cut.recordings import CuttingError, SourceRecording, resampled_blocks, stretches
from machine.storage.checksums import sha256_of
from train.dataset.features import codes_of
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE, conditioning_mel, resample
from xtts.evaluation.word_evidence import code_logits
from xtts.model.config import ModelConfig
from xtts.model.gpt import GPT
from xtts.model.loading import load_dvae, load_gpt, mel_stats, read_tensors
from xtts.text.errors import TextError
from xtts.text.tokenizer import Tokenizer

CODES_A_SECOND = CODE_RATE / SAMPLES_PER_CODE
# Codes that the DVAE computes at once, and the context on both sides.
_BLOCK_CODES, _CONTEXT_CODES = 640, 16
# The shortest and longest span, as shares of the usual duration of its characters.
_SHORTEST_SHARE, _LONGEST_SHARE = 0.4, 2.2
# The standard deviation of the logarithm of a sentence's pace around the pace of the whole text.
_PACE_DEVIATION = 0.25
# The window after a breath's end, in codes, in which the likeliest STOP is searched.
_STOP_REACH = 5
_BEFORE_SECONDS = 0.06
_WINDOW_CODES = 16
# A longer silence ends the span.
_LONGEST_GAP_SECONDS = 1.2
# The nats that the last piece of a group must add. A spoken piece adds tens of nats. STOP alone
# does not show that a last piece was not spoken, because a model may stop before the end of a text.
_MIN_ADDED = 20.0
# Only the groups that fit the first seconds best are scored in full.
_MANY, _KEPT, _FIRST_CODES = 6, 2, 56
_VOICE_SPANS, _VOICE_SECONDS = 6, (1.5, 6.0)
# The costs in nats of skipping a breath, of skipping a piece of the text, and of joining two pieces
# into one span although there may be a pause between them.
_PASS_BREATH, _PASS_PIECE, _JOIN = 2.0, 1.0, 2.0
# An upper bound. A second of sound that says the text gives about 55 nats (2.6 per code).
_MAX_NATS_A_SECOND = 90.0
# Readings that are worse than the best one at the same time by more than this are dropped.
_BEAM = 80.0
# How many pieces ahead are tried, and one more for each breath since the last match.
_AHEAD, _MAX_AHEAD = 3, 40
_MAX_JOINED = 3


class Breath(NamedTuple):
    """Sound between two pauses, in seconds."""

    start: float
    end: float


class SpanScore(NamedTuple):
    """The score of a span from a first breath to before `last`. nats: how much likelier it is with
    the text than without; weakest: the lowest mean over 0.75 s, in nats per code."""

    last: int
    nats: float
    codes: int
    weakest: float


@dataclass(frozen=True)
class SpanMatch:
    """Breaths `first` to before `last` say the pieces `first_piece` to before `last_piece`."""

    first: int
    last: int
    first_piece: int
    last_piece: int
    score: SpanScore

    @property
    def nats_a_code(self) -> float:
        """The mean evidence, in nats per code."""
        return self.score.nats / max(self.score.codes, 1)

    def follows(self, other: "SpanMatch") -> bool:
        """Whether it follows `other` directly, both in the text and in the sound."""
        return (self.first, self.first_piece) == (other.last, other.last_piece)


@dataclass(frozen=True)
class ScoringBase:
    """The GPT, codec and tokenizer of a base model. sha256: of its weights file."""

    gpt: GPT
    dvae: Any
    stats: Tensor
    tokenizer: Tokenizer
    sha256: str

    @staticmethod
    def load(folder: Path, device: str) -> "ScoringBase":
        """Loads a base folder, with the GPT on `device`."""
        config = ModelConfig.read(folder)
        state = read_tensors(folder / "model.pth")
        gpt = load_gpt(state, config, device=device)
        gpt.eval().requires_grad_(False)
        dvae, stats = load_dvae(folder, config), mel_stats(folder, state)
        sha256 = sha256_of(folder / "model.pth")
        return ScoringBase(gpt, dvae, stats, Tokenizer(config, folder), sha256)

    @torch.inference_mode()
    def codes(self, recording: SourceRecording) -> np.ndarray:
        """The codes of a whole recording, `[n]` int16; 46 ms each."""
        parts, pending, before = list[np.ndarray](), np.zeros(0, np.float32), 0
        size = (_BLOCK_CODES + _CONTEXT_CODES) * SAMPLES_PER_CODE
        for block in resampled_blocks(recording, CODE_RATE):
            pending = np.concatenate((pending, block))
            while len(pending) >= before * SAMPLES_PER_CODE + size:
                part = torch.from_numpy(pending[: before * SAMPLES_PER_CODE + size])
                codes = codes_of(part, self.dvae, self.stats)
                parts.append(codes[before : before + _BLOCK_CODES])
                pending = pending[(before + _BLOCK_CODES - _CONTEXT_CODES) * SAMPLES_PER_CODE :]
                before = _CONTEXT_CODES
        if len(pending) > before * SAMPLES_PER_CODE:
            parts.append(codes_of(torch.from_numpy(pending), self.dvae, self.stats)[before:])
        return np.concatenate(parts) if parts else np.zeros(0, np.int16)

    @torch.inference_mode()
    def voice(self, recording: SourceRecording, speech: Sequence[tuple[float, float]]) -> Tensor | None:
        """The conditioning latents of the speaker: the mean over some of the spans (in seconds);
        None if none is long enough."""
        shortest, longest = _VOICE_SECONDS
        long = [span for span in speech if span[1] - span[0] >= shortest]
        chosen = [long[i * len(long) // _VOICE_SPANS] for i in range(_VOICE_SPANS)] if long else []
        spans = [
            (int(start * recording.rate), int(min(end, start + longest) * recording.rate))
            for start, end in sorted(set(chosen))
        ]
        latents = []
        for _, samples in stretches(recording, spans):
            wave = resample(torch.from_numpy(samples), recording.rate, CODE_RATE)
            mel = conditioning_mel(wave[None], self.stats).to(self.gpt.mel_head.weight.device)
            latents.append(self.gpt.conditioning_latents(mel))
        return torch.stack(latents).mean(0) if latents else None


class BaseScorer:
    """Scores pieces of a text against spans of one recording.

    Args:
        latents: The conditioning latents of the speaker.
        texts: The pieces, in order.
        seconds_a_character: The usual duration of a character.
    """

    def __init__(
        self,
        base: ScoringBase,
        latents: Tensor,
        codes: np.ndarray,
        breaths: Sequence[Breath],
        texts: Sequence[str],
        language: str,
        seconds_a_character: float,
    ) -> None:
        self._base = base
        self._latents = latents
        device = base.gpt.mel_head.weight.device
        self._codes = torch.from_numpy(codes.astype(np.int64)).to(device)
        self._breaths = breaths
        self._texts = texts
        self._language = language
        self._pace = seconds_a_character
        self._ids: dict[range, list[int]] = {}

    def may_join(self, pieces: range) -> bool:
        """Whether these pieces together may be one span."""
        if len(self._tokens(pieces)) > self._base.tokenizer.max_tokens:
            return False
        return len(pieces) == 1 or self._expected_score(pieces) <= LONGEST_SECONDS

    def score(self, first: int, groups: Sequence[range]) -> list[list[SpanScore]]:
        """The scores of spans that start at breath `first`: for each group, one per plausible
        end."""
        begin = max(int((self._breaths[first].start - _BEFORE_SECONDS) * CODES_A_SECOND), 0)
        ends = [self._ends(first, group) for group in groups]
        candidates = [place for place, last_codes in enumerate(ends) if last_codes]
        if len(candidates) > _MANY:
            candidates = self._likeliest(begin, groups, candidates)
        scores: list[list[SpanScore]] = [[] for _ in groups]
        if not candidates:
            return scores
        stops = [self._stops(begin, last) for place in candidates for last in ends[place]]
        count = max(stop.stop for stop in stops)
        likelihoods, stop, null = self._ask(begin, count, [groups[place] for place in candidates])
        rows = {groups[place]: row for row, place in enumerate(candidates)}
        for group, row in rows.items():
            shorter = rows.get(group[:-1]) if len(group) > 1 else None
            for last in ends[candidates[row]]:
                reach = self._stops(begin, last)
                # The span ends where STOP is likeliest.
                end = reach.start + int(stop[row, reach.start : reach.stop].argmax())
                added = (
                    likelihoods[row, :end].sum() - likelihoods[shorter, :end].sum()
                    if shorter is not None
                    else 0
                )
                if shorter is not None and added < _MIN_ADDED:
                    continue
                evidence = likelihoods[row, :end] - null[:end]
                nats = float(evidence.sum() + stop[row, end]) - self._oddness(end, group)
                scores[candidates[row]].append(SpanScore(last, nats, end, _weakest(evidence)))
        return scores

    def _likeliest(self, begin: int, groups: Sequence[range], candidates: Sequence[int]) -> list[int]:
        """The groups whose first piece fits the first codes best. Each is compared up to the code
        where it fits best, because a short piece ends before the last of these codes."""
        likelihoods, _, null = self._ask(begin, _FIRST_CODES, [groups[place] for place in candidates])
        fits = np.cumsum(likelihoods - null, axis=1).max(axis=1)
        best: dict[int, float] = {}
        for place, nats in zip(candidates, fits):
            piece = groups[place].start
            best[piece] = max(best.get(piece, float(nats)), float(nats))
        pieces = sorted(best, key=lambda piece: (-best[piece], piece))[:_KEPT]
        return [place for place in candidates if groups[place].start in pieces]

    def _ask(
        self, begin: int, count: int, groups: Sequence[range]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The log-likelihoods in nats: of each code given each group, `[groups, count]`; of STOP
        before each code and after the last, `[groups, count + 1]`; of each code given other words,
        `[count]`."""
        codes = self._codes[begin : begin + count]
        texts = [self._tokens(group) for group in groups]
        others = self._other_words(groups, max(map(len, texts)))
        likelihoods, stop = _code_log_likelihoods(self._base.gpt, self._latents, [*texts, others], codes)
        with_text, stopped = likelihoods.cpu().numpy(), stop.cpu().numpy()
        return with_text[:-1], stopped[:-1], with_text[-1]

    def _other_words(self, groups: Sequence[range], length: int) -> list[int]:
        """About `length` tokens of other words: from far away in the text, in reverse order."""
        far = groups[0].start + len(self._texts) // 2
        words, tokens = list[str](), list[int]()
        for place in range(len(self._texts)):
            words += self._texts[(far + place) % len(self._texts)].split()[::-1]
            tokens = self._encode(" ".join(words))
            if len(tokens) >= length:
                break
        return tokens[: max(length, 1)]

    def _ends(self, first: int, group: range) -> list[int]:
        expected = self._expected_score(group)
        start, ends = self._breaths[first].start, list[int]()
        for last in range(first + 1, len(self._breaths) + 1):
            seconds = self._breaths[last - 1].end - start
            if seconds > min(_LONGEST_SHARE * expected + 0.5, LONGEST_SECONDS):
                break
            if last - 1 > first:
                gap = self._breaths[last - 1].start - self._breaths[last - 2].end
                if gap > _LONGEST_GAP_SECONDS:
                    break
            if seconds >= _SHORTEST_SHARE * expected:
                ends.append(last)
        return ends

    def _stops(self, begin: int, last: int) -> range:
        """The codes before which STOP may come after breath `last` - 1, counted from `begin`."""
        end = int(np.ceil(self._breaths[last - 1].end * CODES_A_SECOND)) - begin
        following = len(self._codes) - begin
        if last < len(self._breaths):
            following = int(self._breaths[last].start * CODES_A_SECOND) - begin
        end = min(end, len(self._codes) - begin)
        return range(end, max(min(end + _STOP_REACH, following), end) + 1)

    def _expected_score(self, pieces: range) -> float:
        return sum(len(self._texts[piece]) for piece in pieces) * self._pace

    def _oddness(self, codes: int, pieces: range) -> float:
        """The cost of an unusual duration in nats, from a normal distribution of its logarithm."""
        odd = np.log(codes / CODES_A_SECOND / self._expected_score(pieces)) / _PACE_DEVIATION
        return float(odd**2 / 2)

    def _tokens(self, pieces: range) -> list[int]:
        if pieces not in self._ids:
            self._ids[pieces] = self._encode(" ".join(self._texts[piece] for piece in pieces))
        return self._ids[pieces]

    def _encode(self, text: str) -> list[int]:
        try:
            return self._base.tokenizer.encode(text, self._language)
        except TextError as error:
            raise CuttingError(f"The text cannot be read by the base model: {error}") from error


def _weakest(evidence: np.ndarray) -> float:
    """The lowest mean over `_WINDOW_CODES` codes, or the mean of all if there are fewer."""
    if len(evidence) <= _WINDOW_CODES:
        return float(evidence.mean()) if len(evidence) else 0.0
    sums = np.cumsum(np.concatenate(([0.0], evidence)))
    return float((sums[_WINDOW_CODES:] - sums[:-_WINDOW_CODES]).min() / _WINDOW_CODES)


# The likeliest reading. Pure


class _Reading(NamedTuple):
    """A reading of the recording up to some breath. since: breaths skipped since the last match."""

    nats: float
    since: int
    matches: tuple["_Reading", SpanMatch] | None


def best_matches(
    breaths: Sequence[Breath],
    num_pieces: int,
    score: Callable[[int, Sequence[range]], list[list[SpanScore]]],
    may_join: Callable[[range], bool],
) -> list[SpanMatch]:
    """The matches of the likeliest reading, in order.

    Args:
        score: Scores groups of pieces from a first breath on, as `BaseScorer.score` does. Called
            once, in order, for each breath at which a piece may begin.
        may_join: Whether some pieces together may be one span.
    """
    waiting: list[dict[int, _Reading]] = [{} for _ in range(len(breaths) + 1)]
    waiting[0][0] = _Reading(0.0, 0, None)
    best_after = [float("-inf")] * (len(breaths) + 1)
    for first, breath in enumerate(breaths):
        alive = dict(_alive(waiting[first], breath, breaths, first, best_after))
        waiting[first] = {}
        for piece, reading in alive.items():
            passed = reading._replace(nats=reading.nats - _PASS_BREATH, since=reading.since + 1)
            _offer(waiting, best_after, first + 1, piece, passed)
        starts = _starts(alive, num_pieces)
        groups = [
            range(piece, piece + count)
            for piece in starts
            for count in range(1, _MAX_JOINED + 1)
            if piece + count <= num_pieces and may_join(range(piece, piece + count))
        ]
        for group, scores in zip(groups, score(first, groups) if groups else []):
            before = starts[group.start]
            for span in scores:
                if span.nats > 0:
                    match = SpanMatch(first, span.last, group.start, group.stop, span)
                    nats = before.nats + span.nats - _JOIN * (len(group) - 1)
                    reading = _Reading(nats, 0, (before, match))
                    _offer(waiting, best_after, span.last, group.stop, reading)
    return list(_trace(max(waiting[-1].values(), key=lambda reading: reading.nats)))


def _alive(
    readings: dict[int, _Reading],
    breath: Breath,
    breaths: Sequence[Breath],
    first: int,
    best_after: Sequence[float],
) -> Iterator[tuple[int, _Reading]]:
    """The readings that can still become the best: not far worse than another at this breath, nor
    worse than one at a later breath by more than the sound in between can add."""
    if not readings:
        return
    least = max(reading.nats for reading in readings.values()) - _BEAM
    for later in range(first + 1, min(first + 40, len(breaths))):
        gain = _MAX_NATS_A_SECOND * (breaths[later].start - breath.start)
        least = max(least, best_after[later] - gain)
    for piece, reading in readings.items():
        if reading.nats >= least:
            yield piece, reading


def _starts(alive: dict[int, _Reading], num_pieces: int) -> dict[int, _Reading]:
    """The pieces that may come next, each with the best reading that leads to it."""
    starts = dict[int, _Reading]()
    if not alive:
        return starts
    least = max(reading.nats for reading in alive.values()) - _BEAM
    for piece, reading in alive.items():
        ahead = min(_AHEAD + reading.since, _MAX_AHEAD)
        for later in range(piece, min(piece + ahead, num_pieces)):
            nats = reading.nats - _PASS_PIECE * (later - piece)
            if nats >= least and (later not in starts or starts[later].nats < nats):
                starts[later] = reading._replace(nats=nats)
    return starts


def _offer(
    waiting: list[dict[int, _Reading]], best_after: list[float], place: int, piece: int, reading: _Reading
) -> None:
    best = waiting[place].get(piece)
    if best is None or best.nats < reading.nats:
        waiting[place][piece] = reading
        best_after[place] = max(best_after[place], reading.nats)


def _trace(reading: _Reading) -> list[SpanMatch]:
    matches = list[SpanMatch]()
    while reading.matches is not None:
        reading, match = reading.matches
        matches.append(match)
    return matches[::-1]


@torch.inference_mode()
def _code_log_likelihoods(
    gpt: GPT, latents: Tensor, texts: Sequence[Sequence[int]], codes: Tensor
) -> tuple[Tensor, Tensor]:
    """The log-likelihoods in nats of each code, given a text and the previous codes, `[texts,
    codes]`, and of STOP at the position of each code and after the last, `[texts, codes + 1]`."""
    code_losses, stop = [], []
    for logits in code_logits(gpt, latents, texts, codes):
        nats = logits.log_softmax(-1)
        code_losses.append(nats[:-1].gather(1, codes[:, None])[:, 0])
        stop.append(nats[:, gpt.shape.audio_stop])
    return torch.stack(code_losses), torch.stack(stop)
