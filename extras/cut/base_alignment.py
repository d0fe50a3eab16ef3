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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from extras.cut.planning import MAX_CLIP_SECONDS
from extras.cut.recordings import CuttingError, SourceRecording, read_spans, resampled_blocks
from machine.storage.checksums import sha256_of
from train.dataset.features import codes_of
from xtts.audio import CODE_RATE, SAMPLES_PER_CODE, conditioning_mel, resample
from xtts.evaluation.word_evidence import code_logits
from xtts.model.config import ModelConfig
from xtts.model.gpt import GPT
from xtts.model.loading import load_dvae, load_gpt, mel_stats, read_tensors
from xtts.text.errors import TextError
from xtts.text.tokenizer import Tokenizer

CODES_PER_SECOND = CODE_RATE / SAMPLES_PER_CODE
# Codes that the DVAE computes at once, and the context on both sides.
_BLOCK_CODES, _CONTEXT_CODES = 640, 16
# The duration of a span, as a share of the usual duration of its characters.
_MIN_DURATION_SHARE, _MAX_DURATION_SHARE = 0.4, 2.2
# The standard deviation of the logarithm of a sentence's pace around the pace of the whole text.
_LOG_PACE_DEVIATION = 0.25
# The window after a breath's end, in codes, in which the likeliest STOP is searched.
_STOP_WINDOW_CODES = 5
# The sound before a breath that is scored with it.
_LEAD_SECONDS = 0.06
# The weakest part of a span is the lowest mean over this many codes, which are 0.75 s.
_WEAKEST_CODES = 16
# A longer silence ends the span.
_MAX_GAP_SECONDS = 1.2
# The nats that the last piece of a group must add. A spoken piece adds tens of nats. STOP alone
# does not show that a last piece was not spoken, because a model may stop before the end of a text.
_MIN_ADDED_NATS = 20.0
# If there are more groups, only those that begin with one of the pieces that fit the first codes
# best are scored in full.
_MAX_UNSCREENED_GROUPS, _SCREENING_CODES, _MAX_SCREENED_PIECES = 6, 56, 2
_NUM_VOICE_SPANS, _MIN_VOICE_SECONDS, _MAX_VOICE_SECONDS = 6, 1.5, 6.0
# The costs of skipping a breath, of skipping a piece of the text, and of joining two pieces into one
# span although there may be a pause between them.
_SKIPPED_BREATH_NATS, _SKIPPED_PIECE_NATS, _JOIN_NATS = 2.0, 1.0, 2.0
# An upper bound. A second of sound that says the text gives about 55 nats (2.6 per code).
_MAX_NATS_PER_SECOND = 90.0
# Readings that are worse than the best one at the same breath by more than this are dropped.
_BEAM_NATS = 80.0
# A reading is also compared with those at this many later breaths.
_COMPARED_BREATHS = 40
# How many next pieces are tried, and one more for each breath that was skipped since the last match.
_MIN_NEXT_PIECES, _MAX_NEXT_PIECES = 3, 40
_MAX_JOINED_PIECES = 3


class Breath(NamedTuple):
    """Sound between two pauses, in seconds."""

    start: float
    end: float


class SpanScore(NamedTuple):
    """The score of a span of breaths, which the journal stores as a list.

    Attributes:
        end_breath: The number of the breath after the span.
        nats: How much likelier the span is with the text than without.
        num_codes: The length of the span.
        weakest: The lowest mean over 0.75 s, in nats per code.
    """

    end_breath: int
    nats: float
    num_codes: int
    weakest: float


@dataclass(frozen=True)
class SpanMatch:
    """Breaths, by their numbers, that say pieces of the text."""

    breaths: range
    pieces: range
    score: SpanScore

    @property
    def nats_per_code(self) -> float:
        """The mean evidence."""
        return self.score.nats / max(self.score.num_codes, 1)

    def follows(self, other: "SpanMatch") -> bool:
        """Whether it follows `other` directly, both in the text and in the sound."""
        return (self.breaths.start, self.pieces.start) == (other.breaths.stop, other.pieces.stop)


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
    def encode(self, recording: SourceRecording) -> np.ndarray:
        """The codes of a whole recording, `[n]` int16; 46 ms each."""
        parts, pending, context = list[np.ndarray](), np.zeros(0, np.float32), 0
        size = (_BLOCK_CODES + _CONTEXT_CODES) * SAMPLES_PER_CODE
        for block in resampled_blocks(recording, CODE_RATE):
            pending = np.concatenate((pending, block))
            while len(pending) >= context * SAMPLES_PER_CODE + size:
                part = torch.from_numpy(pending[: context * SAMPLES_PER_CODE + size])
                codes = codes_of(part, self.dvae, self.stats)
                parts.append(codes[context : context + _BLOCK_CODES])
                pending = pending[(context + _BLOCK_CODES - _CONTEXT_CODES) * SAMPLES_PER_CODE :]
                context = _CONTEXT_CODES
        if len(pending) > context * SAMPLES_PER_CODE:
            parts.append(codes_of(torch.from_numpy(pending), self.dvae, self.stats)[context:])
        return np.concatenate(parts) if parts else np.zeros(0, np.int16)

    @torch.inference_mode()
    def speaker_latents(
        self, recording: SourceRecording, speech: Sequence[tuple[float, float]]
    ) -> Tensor | None:
        """The conditioning latents of the speaker: the mean over some of the spans of speech (in
        seconds); None if none is long enough."""
        long = [span for span in speech if span[1] - span[0] >= _MIN_VOICE_SECONDS]
        chosen = [long[i * len(long) // _NUM_VOICE_SPANS] for i in range(_NUM_VOICE_SPANS)] if long else []
        spans = [
            (int(start * recording.rate), int(min(end, start + _MAX_VOICE_SECONDS) * recording.rate))
            for start, end in sorted(set(chosen))
        ]
        latents = []
        for _, samples in read_spans(recording, spans):
            wave = resample(torch.from_numpy(samples), recording.rate, CODE_RATE)
            mel = conditioning_mel(wave[None], self.stats).to(self.gpt.mel_head.weight.device)
            latents.append(self.gpt.conditioning_latents(mel))
        return torch.stack(latents).mean(0) if latents else None


class _Likelihoods(NamedTuple):
    """Log-likelihoods in nats.

    Attributes:
        codes: Each code's, given each group, `[groups, codes]`.
        stop: STOP's before each code and after the last, `[groups, codes + 1]`.
        with_other_words: Each code's, given other words, `[codes]`.
    """

    codes: np.ndarray
    stop: np.ndarray
    with_other_words: np.ndarray


class BaseScorer:
    """Scores groups of pieces of a text against spans of one recording.

    Args:
        latents: The conditioning latents of the speaker.
        texts: The pieces, in order.
        seconds_per_character: The usual duration of a character.
    """

    def __init__(
        self,
        base: ScoringBase,
        latents: Tensor,
        codes: np.ndarray,
        breaths: Sequence[Breath],
        texts: Sequence[str],
        language: str,
        seconds_per_character: float,
    ) -> None:
        self._base = base
        self._latents = latents
        device = base.gpt.mel_head.weight.device
        self._codes = torch.from_numpy(codes.astype(np.int64)).to(device)
        self._breaths = breaths
        self._texts = texts
        self._language = language
        self._seconds_per_character = seconds_per_character
        self._tokens_of_group: dict[range, list[int]] = {}

    def may_join(self, group: range) -> bool:
        """Whether these pieces together may be one span."""
        if len(self._tokens(group)) > self._base.tokenizer.max_tokens:
            return False
        return len(group) == 1 or self._expected_seconds(group) <= MAX_CLIP_SECONDS

    def score(self, first_breath: int, groups: Sequence[range]) -> list[list[SpanScore]]:
        """The scores of spans that start at a breath: for each group, one per plausible end."""
        begin = max(int((self._breaths[first_breath].start - _LEAD_SECONDS) * CODES_PER_SECOND), 0)
        ends = {group: self._plausible_ends(first_breath, group) for group in groups}
        candidates = [group for group in groups if ends[group]]
        if len(candidates) > _MAX_UNSCREENED_GROUPS:
            candidates = self._screen(begin, candidates)
        if not candidates:
            return [[] for _ in groups]
        num_codes = max(self._stop_window(begin, end).stop for group in candidates for end in ends[group])
        likelihoods = self._likelihoods(begin, num_codes, candidates)
        row_of = {group: row for row, group in enumerate(candidates)}
        scores: dict[range, list[SpanScore]] = {}
        for group in candidates:
            spans = (self._score_span(begin, end, group, likelihoods, row_of) for end in ends[group])
            scores[group] = [span for span in spans if span is not None]
        return [scores.get(group, []) for group in groups]

    def _score_span(
        self,
        begin: int,
        end_breath: int,
        group: range,
        likelihoods: _Likelihoods,
        row_of: Mapping[range, int],
    ) -> SpanScore | None:
        """The score from code `begin` to a breath; None if the last piece of the group adds too
        little."""
        row = row_of[group]
        window = self._stop_window(begin, end_breath)
        # The span ends where STOP is likeliest.
        end = window.start + int(likelihoods.stop[row, window.start : window.stop].argmax())
        shorter_row = row_of.get(group[:-1]) if len(group) > 1 else None
        if shorter_row is not None:
            added = likelihoods.codes[row, :end].sum() - likelihoods.codes[shorter_row, :end].sum()
            if added < _MIN_ADDED_NATS:
                return None
        evidence = likelihoods.codes[row, :end] - likelihoods.with_other_words[:end]
        nats = float(evidence.sum() + likelihoods.stop[row, end]) - self._duration_cost(end, group)
        return SpanScore(end_breath, nats, end, _weakest_mean(evidence))

    def _screen(self, begin: int, groups: Sequence[range]) -> list[range]:
        """The groups whose first piece fits the first codes best. Each is compared up to the code
        where it fits best, because a short piece ends before the last of these codes."""
        likelihoods = self._likelihoods(begin, _SCREENING_CODES, groups)
        fits = np.cumsum(likelihoods.codes - likelihoods.with_other_words, axis=1).max(axis=1)
        best_nats: dict[int, float] = {}
        for group, nats in zip(groups, fits):
            best_nats[group.start] = max(best_nats.get(group.start, float(nats)), float(nats))
        pieces = sorted(best_nats, key=lambda piece: (-best_nats[piece], piece))[:_MAX_SCREENED_PIECES]
        return [group for group in groups if group.start in pieces]

    def _likelihoods(self, begin: int, num_codes: int, groups: Sequence[range]) -> _Likelihoods:
        """The log-likelihoods of at most `num_codes` codes, from code `begin` on."""
        codes = self._codes[begin : begin + num_codes]
        texts = [self._tokens(group) for group in groups]
        other_words = self._other_words(groups, max(map(len, texts)))
        likelihoods, stop = _code_log_likelihoods(self._base.gpt, self._latents, [*texts, other_words], codes)
        of_codes, of_stop = likelihoods.cpu().numpy(), stop.cpu().numpy()
        return _Likelihoods(of_codes[:-1], of_stop[:-1], of_codes[-1])

    def _other_words(self, groups: Sequence[range], length: int) -> list[int]:
        """About `length` tokens of other words: from far away in the text, in reverse order."""
        far = groups[0].start + len(self._texts) // 2
        words, tokens = list[str](), list[int]()
        for offset in range(len(self._texts)):
            words += self._texts[(far + offset) % len(self._texts)].split()[::-1]
            tokens = self._encode(" ".join(words))
            if len(tokens) >= length:
                break
        return tokens[: max(length, 1)]

    def _plausible_ends(self, first_breath: int, group: range) -> list[int]:
        """The breaths before which a span of this group may end."""
        expected = self._expected_seconds(group)
        start, ends = self._breaths[first_breath].start, list[int]()
        for end in range(first_breath + 1, len(self._breaths) + 1):
            seconds = self._breaths[end - 1].end - start
            if seconds > min(_MAX_DURATION_SHARE * expected + 0.5, MAX_CLIP_SECONDS):
                break
            if end - 1 > first_breath:
                gap = self._breaths[end - 1].start - self._breaths[end - 2].end
                if gap > _MAX_GAP_SECONDS:
                    break
            if seconds >= _MIN_DURATION_SHARE * expected:
                ends.append(end)
        return ends

    def _stop_window(self, begin: int, end_breath: int) -> range:
        """The codes before which STOP may come, counted from `begin`, if a span ends before a
        breath."""
        end = int(np.ceil(self._breaths[end_breath - 1].end * CODES_PER_SECOND)) - begin
        next_start = len(self._codes) - begin
        if end_breath < len(self._breaths):
            next_start = int(self._breaths[end_breath].start * CODES_PER_SECOND) - begin
        end = min(end, len(self._codes) - begin)
        return range(end, max(min(end + _STOP_WINDOW_CODES, next_start), end) + 1)

    def _expected_seconds(self, group: range) -> float:
        return sum(len(self._texts[piece]) for piece in group) * self._seconds_per_character

    def _duration_cost(self, num_codes: int, group: range) -> float:
        """The cost of an unusual duration in nats, from a normal distribution of its logarithm."""
        log_ratio = np.log(num_codes / CODES_PER_SECOND / self._expected_seconds(group))
        return float((log_ratio / _LOG_PACE_DEVIATION) ** 2 / 2)

    def _tokens(self, group: range) -> list[int]:
        if group not in self._tokens_of_group:
            text = " ".join(self._texts[piece] for piece in group)
            self._tokens_of_group[group] = self._encode(text)
        return self._tokens_of_group[group]

    def _encode(self, text: str) -> list[int]:
        try:
            return self._base.tokenizer.encode(text, self._language)
        except TextError as error:
            raise CuttingError(f"The text cannot be read by the base model: {error}") from error


def _weakest_mean(evidence: np.ndarray) -> float:
    """The lowest mean over `_WEAKEST_CODES` codes, or the mean of all if there are fewer."""
    if len(evidence) <= _WEAKEST_CODES:
        return float(evidence.mean()) if len(evidence) else 0.0
    sums = np.cumsum(np.concatenate(([0.0], evidence)))
    return float((sums[_WEAKEST_CODES:] - sums[:-_WEAKEST_CODES]).min() / _WEAKEST_CODES)


# The likeliest reading. Pure


class _Reading(NamedTuple):
    """A reading of the recording up to some breath.

    Attributes:
        nats: The sum of its scores and costs.
        skipped_breaths: The breaths skipped since the last match.
        history: The reading before the last match, and this match; None before the first match.
    """

    nats: float
    skipped_breaths: int
    history: tuple["_Reading", SpanMatch] | None


class _Readings:
    """The best readings up to each breath, by the piece that comes next."""

    def __init__(self, breaths: Sequence[Breath]) -> None:
        self._breaths = breaths
        self._by_next_piece: list[dict[int, _Reading]] = [{} for _ in range(len(breaths) + 1)]
        self._best_nats = [float("-inf")] * (len(breaths) + 1)

    def add(self, breath: int, next_piece: int, reading: _Reading) -> None:
        """Adds a reading up to before a breath, unless a better one is known."""
        best = self._by_next_piece[breath].get(next_piece)
        if best is None or best.nats < reading.nats:
            self._by_next_piece[breath][next_piece] = reading
            self._best_nats[breath] = max(self._best_nats[breath], reading.nats)

    def take(self, breath: int) -> dict[int, _Reading]:
        """Removes and returns the readings that can still become the best: not far worse than
        another at this breath, nor worse than one at a later breath by more than the sound in
        between can add."""
        readings, self._by_next_piece[breath] = self._by_next_piece[breath], {}
        if not readings:
            return {}
        min_nats = max(reading.nats for reading in readings.values()) - _BEAM_NATS
        for later in range(breath + 1, min(breath + _COMPARED_BREATHS, len(self._breaths))):
            gain = _MAX_NATS_PER_SECOND * (self._breaths[later].start - self._breaths[breath].start)
            min_nats = max(min_nats, self._best_nats[later] - gain)
        return {piece: reading for piece, reading in readings.items() if reading.nats >= min_nats}

    def best(self) -> _Reading:
        """The best reading of the whole recording."""
        return max(self._by_next_piece[-1].values(), key=lambda reading: reading.nats)


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
    readings = _Readings(breaths)
    readings.add(0, 0, _Reading(0.0, 0, None))
    for breath in range(len(breaths)):
        live = readings.take(breath)
        for piece, reading in live.items():
            nats, skipped_breaths = reading.nats - _SKIPPED_BREATH_NATS, reading.skipped_breaths + 1
            readings.add(breath + 1, piece, _Reading(nats, skipped_breaths, reading.history))
        starts = _possible_starts(live, num_pieces)
        groups = [
            range(piece, piece + count)
            for piece in starts
            for count in range(1, _MAX_JOINED_PIECES + 1)
            if piece + count <= num_pieces and may_join(range(piece, piece + count))
        ]
        for group, spans in zip(groups, score(breath, groups) if groups else []):
            before = starts[group.start]
            for span in spans:
                if span.nats > 0:
                    match = SpanMatch(range(breath, span.end_breath), group, span)
                    nats = before.nats + span.nats - _JOIN_NATS * (len(group) - 1)
                    readings.add(span.end_breath, group.stop, _Reading(nats, 0, (before, match)))
    return _matches_of(readings.best())


def _possible_starts(live: Mapping[int, _Reading], num_pieces: int) -> dict[int, _Reading]:
    """The pieces that may come next, each with the best reading that leads to it."""
    starts = dict[int, _Reading]()
    if not live:
        return starts
    min_nats = max(reading.nats for reading in live.values()) - _BEAM_NATS
    for next_piece, reading in live.items():
        count = min(_MIN_NEXT_PIECES + reading.skipped_breaths, _MAX_NEXT_PIECES)
        for piece in range(next_piece, min(next_piece + count, num_pieces)):
            nats = reading.nats - _SKIPPED_PIECE_NATS * (piece - next_piece)
            if nats >= min_nats and (piece not in starts or starts[piece].nats < nats):
                starts[piece] = reading._replace(nats=nats)
    return starts


def _matches_of(reading: _Reading) -> list[SpanMatch]:
    matches = list[SpanMatch]()
    while reading.history is not None:
        reading, match = reading.history
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
