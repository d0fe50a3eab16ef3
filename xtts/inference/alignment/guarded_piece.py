"""One guarded piece of text: how often it is spoken again, its attempts, its result and words.

Whole speech, streams, the batcher and ONNX Runtime share these rules. A faulty piece is spoken
again with another seed, unless it is streamed: then its sound may have been sent. The best attempt
is kept, and cut after its last word if that is safe.

A head attends to the first sound of a word during the silence before it, so the path alone would
start the word too early. Therefore the times of words exclude quiet sound at both ends.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from xtts.inference.alignment.guard import CODE_SECONDS, Ending, EndingVerdict, align, judge_ending
from xtts.inference.alignment.heads import Array, Head
from xtts.inference.defaults import FADE_SECONDS, SamplingParams
from xtts.model.shapes import PLACEHOLDER_ID, VOCODER_RATE, GPTShape
from xtts.model.streaming_vocoder import BackendArray, Latents, Samples
from xtts.text.tokenizer import Piece

# torch.Generator or numpy.random.Generator.
Random = Any

MAX_RETRIES = 2
# The end of a stream that waits for the verdict.
HELD_SECONDS = 0.5
# Seeds are 64 bits in torch and in numpy.
_NUM_SEEDS = 2**63
# Far from the seeds that users count up, so that "another take" does not repeat the last one. Below
# 2**32, because torch's generator on a CPU uses only 32 bits.
RETRY_SEED_STRIDE = 1_000_003

FRAME_SECONDS = 0.01
_FRAME_SAMPLES = round(FRAME_SECONDS * VOCODER_RATE)
# Chosen on flite's recordings of the choosing texts (docs/develop/guard.md). In dB below the
# loudest 10 ms: the threshold of silence at the edges of words, and the threshold of speech.
SILENCE_DB, SPEECH_DB = 45.0, 35.0
# Noise counts as silence: sound within ABOVE_NOISE_DB of the quietest frames, unless it is louder
# than MIN_NOISE_DEPTH_DB below the maximum.
ABOVE_NOISE_DB, MIN_NOISE_DEPTH_DB = 8.0, 20.0
_QUIETEST_SHARE = 0.05
# Frames that are ignored at both ends. The thresholds were measured when the vocoder still clicked
# at both ends of its input (now `edge_steps` of the vocoder's shape prevents that).
_EDGE_FRAMES = 5
# Shorter silence at the edge of a word may be a stop's closure.
MIN_SILENCE_SECONDS = 0.06


class Utterance(ABC):
    """One attempt at a piece, while it is decoded and judged.

    Attributes:
        codes: The codes so far, without STOP.
        latents: One `[width]` for each step so far; after a stop, the last one chose STOP.
        stopped: Whether the model produced STOP.
        error: The reason for a failure, or None.
        seen: `[audio_ids]`: whether the repetition penalty applies to each code.
        verdict: How it ended; set when it is judged.
        times: As in `SpokenPiece`; set when it is judged.
    """

    verdict: EndingVerdict
    times: Array | None = None

    def __init__(
        self,
        shape: GPTShape,
        rules: SamplingParams,
        random: Random,
        max_codes: int | None,
        heads: Sequence[Head],
        seen: BackendArray,
    ) -> None:
        """Starts an utterance without codes.

        Args:
            shape: The GPT's shape.
            rules: The sampling parameters.
            random: The random state for sampling.
            max_codes: The code limit; None is the model's.
            heads: The attention heads that the verdict needs.
            seen: `[audio_ids]`, all False.
        """
        self.rules, self.random, self.heads, self.seen = rules, random, tuple(heads), seen
        self.seen[[PLACEHOLDER_ID, shape.audio_start]] = True
        self.limit = min(max_codes or shape.max_codes, shape.max_codes)
        self.codes: list[int] = []
        self.latents: list[Latents] = []
        self.stopped = False
        self.error: Exception | None = None
        self._stop_code = shape.audio_stop

    @property
    def done(self) -> bool:
        """Whether it stopped, reached the code limit or failed."""
        return self.stopped or self.error is not None or len(self.codes) >= self.limit

    def add_code(self, latent: Latents, code: int) -> None:
        """Adds a code and the latent `[width]` of the step that chose it."""
        self.latents.append(latent)
        self.stopped = code == self._stop_code
        if not self.stopped:
            self.codes.append(code)
            self.seen[code] = True

    @property
    def spoken_latents(self) -> Sequence[Latents]:
        """The latents up to the end of the last word."""
        return self.latents[: self.verdict.kept_codes]

    def attention(self) -> Array | None:
        """The mean attention of `heads` to the text `[latents, positions]`; None without heads."""
        if not self.heads:
            return None
        mean: Array = np.mean(list(self.attention_by_head().values()), axis=0)
        return mean

    @abstractmethod
    def attention_by_head(self) -> Mapping[Head, Array]:
        """As `attention`, for each head."""


@dataclass(frozen=True)
class SpokenPiece:
    """The result of a piece.

    Attributes:
        ids: The text ids.
        ending: How the kept utterance ended.
        reason: What was observed; "" if it is good.
        attempts: The number of attempts; 1 if the first was good.
        cut_off: Whether sound after the last word was cut off.
        aligned: Whether the verdict is based on attention; otherwise on length and repetition.
        codes: The number of codes that were kept.
        seconds: The length of the sound.
        times: `[positions, 2]`: the times of START, the ids and STOP, in seconds from the start of
            the piece at speed 1, without the silence around words; None without attention.
    """

    ids: Sequence[int]
    ending: Ending
    reason: str
    attempts: int
    cut_off: bool
    aligned: bool
    codes: int
    seconds: float
    times: Array | None = None

    @property
    def faulty(self) -> bool:
        """Whether the sound is faulty: the ending is not good, and cutting did not fix it."""
        return self.ending is not Ending.GOOD and not self.cut_off

    def as_dict(self) -> dict[str, object]:
        """The fields for JSON, without ids and times."""
        return {
            "ending": self.ending.value,
            "reason": self.reason,
            "attempts": self.attempts,
            "cut_off": self.cut_off,
            "aligned": self.aligned,
        }


@dataclass
class Guard:
    """The guard of one speech.

    Attributes:
        heads: The heads that follow the text; () if none does.
        spoken: Returns which positions of START, given ids and STOP are spoken
            (`xtts.text.tokenizer.Tokenizer.spoken_positions`).
        seed: The speech's seed; each further attempt adds `RETRY_SEED_STRIDE`.
        retries: The maximum number of further attempts at a piece.
        pieces: The results of the finished pieces.
    """

    heads: tuple[Head, ...]
    spoken: Callable[[Sequence[int]], Sequence[bool]]
    seed: int = 0
    retries: int = MAX_RETRIES
    pieces: list[SpokenPiece] = field(default_factory=list)


class GuardedPiece:
    """One piece of text and its attempts. Without a guard, all sound passes."""

    def __init__(
        self,
        guard: Guard | None,
        ids: Sequence[int],
        arrays: ModuleType,
        *,
        waits: bool,
        speed: float = 1.0,
        is_first: bool = False,
    ) -> None:
        """Starts a piece.

        Args:
            guard: The guard of the speech, or None.
            ids: The text ids.
            arrays: torch or numpy.
            waits: Whether all sound waits for the verdict; otherwise only the last half second.
            speed: The speed of the speech.
            is_first: Whether it is the first piece. Its first chunk is sent without a delay.
        """
        self.ids = ids
        self._guard, self._arrays = guard, arrays
        self._waits, self._speed, self._is_first = waits, speed, is_first
        self._attempts: list[Utterance] = []
        self._held_chunks: list[Samples] = []
        self._num_sent = 0
        self._loudness = LoudnessLog()
        self._result: SpokenPiece | None = None

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads whose attention is needed."""
        return self._guard.heads if self._guard else ()

    @property
    def next_seed(self) -> int:
        """The seed of the next attempt."""
        assert self._guard is not None
        return (self._guard.seed + RETRY_SEED_STRIDE * len(self._attempts)) % _NUM_SEEDS

    def push(self, chunk: Samples) -> Samples:
        """Takes a chunk of sound `[samples]`; returns the samples that may be sent now."""
        if self._guard is None:
            return chunk
        self._loudness.push(chunk)
        if self._is_first and not self._num_sent and not self._waits:
            self._num_sent += len(chunk)
            return chunk
        self._held_chunks.append(chunk)
        if self._waits:
            return chunk[:0]
        samples = self._arrays.concatenate(self._held_chunks)
        num_ready = max(0, len(samples) - int(HELD_SECONDS * VOCODER_RATE))
        self._held_chunks = [samples[num_ready:]]
        self._num_sent += num_ready
        return samples[:num_ready]

    def judge(self, utterance: Utterance) -> bool:
        """Judges a finished utterance whose sound was pushed; returns whether to speak it again."""
        if self._guard is None:
            return False
        spoken, attention = np.asarray(self._guard.spoken(self.ids), bool), utterance.attention()
        alignment = None if attention is None else align(attention, spoken)
        verdict = utterance.verdict = judge_ending(
            utterance.codes,
            stopped=utterance.stopped,
            alignment=alignment,
            tokens=int(spoken.sum()),
            loud=self._loudness.find_loud_codes(len(utterance.latents), self._speed),
        )
        if alignment is not None:
            utterance.times = trim_silence(
                alignment.times() * CODE_SECONDS, spoken, self._loudness.find_loud_frames(), self._speed
            )
        self._attempts.append(utterance)
        may_retry = self._waits and len(self._attempts) <= self._guard.retries
        if may_retry and not verdict.is_good:
            self.drop_sound()
            return True
        self._result = self._summary()
        self._guard.pieces.append(self._result)
        return False

    @property
    def cut_off(self) -> bool:
        """Whether sound after the last word was cut off; known with the verdict."""
        return self._result is not None and self._result.cut_off

    @property
    def best(self) -> Utterance:
        """The best attempt, which is kept; the earliest of equal ones."""
        return max(self._attempts, key=lambda attempt: attempt.verdict.rank)

    @property
    def has_earlier_best(self) -> bool:
        """Whether the best attempt is not the last. Then its latents must be vocoded again."""
        return bool(self._attempts) and self.best is not self._attempts[-1]

    def drop_sound(self) -> None:
        """Drops the held sound, before the best attempt is vocoded again."""
        self._held_chunks = []
        self._loudness.clear()

    def end(self) -> Samples | None:
        """The sound that waited for the verdict, cut if necessary; None if it is empty."""
        if not self._held_chunks:
            return None
        samples = self._arrays.concatenate(self._held_chunks)
        kept_codes = self.best.verdict.kept_codes if self._attempts else None
        if kept_codes is None:
            return samples
        # Sound that was sent cannot be cut any more.
        num_kept = round(kept_codes * CODE_SECONDS * VOCODER_RATE / self._speed) - self._num_sent
        if num_kept >= len(samples):
            return samples
        samples = samples[: max(0, num_kept)]
        return fade(samples, 0, min(int(FADE_SECONDS * VOCODER_RATE), len(samples)), self._arrays)

    def _summary(self) -> SpokenPiece:
        best = self.best
        kept_codes = best.verdict.kept_codes
        end = (len(best.codes) if kept_codes is None else kept_codes) * CODE_SECONDS * VOCODER_RATE
        cut_off = kept_codes is not None and self._num_sent <= end / self._speed
        latents = best.spoken_latents if cut_off else best.latents
        num_codes = len(latents) / self._speed
        if self._speed != 1.0 and not cut_off:  # the vocoder leaves out the rest of a code
            num_codes = max(1, int(num_codes))
        return SpokenPiece(
            ids=self.ids,
            ending=best.verdict.ending,
            reason=best.verdict.reason,
            attempts=len(self._attempts),
            cut_off=cut_off,
            aligned=best.verdict.aligned,
            codes=min(len(latents), len(best.codes)),
            seconds=num_codes * CODE_SECONDS,
            times=best.times,
        )


class LoudnessLog:
    """The loudness of each 10 ms of a piece. Takes the sound in chunks and does not store it."""

    def __init__(self) -> None:
        self._powers: list[Array] = []
        self._remainder = np.zeros(0, np.float32)

    def push(self, chunk: Samples) -> None:
        """Takes sound `[samples]` at 24,000 Hz."""
        samples = np.concatenate((self._remainder, np.asarray(chunk, np.float32)))
        end = len(samples) // _FRAME_SAMPLES * _FRAME_SAMPLES
        frames = samples[:end].reshape(-1, _FRAME_SAMPLES)
        self._powers.append(np.einsum("ns,ns->n", frames, frames, dtype=np.float64))
        self._remainder = samples[end:]

    def clear(self) -> None:
        """Forgets everything."""
        self._powers, self._remainder = [], np.zeros(0, np.float32)

    def find_loud_frames(self, threshold_db: float = SILENCE_DB) -> Array:
        """`[frames]`: whether each 10 ms are louder than the noise and than `threshold_db` below
        the loudest frame. False for the first and last 50 ms."""
        powers = np.concatenate(self._powers) if self._powers else np.zeros(0)
        if not len(powers):
            return np.zeros(0, bool)
        levels = 10 * np.log10(np.maximum(powers, 1e-12) / max(powers.max(), 1e-12))
        noise = min(np.quantile(levels, _QUIETEST_SHARE) + ABOVE_NOISE_DB, -MIN_NOISE_DEPTH_DB)
        loud: Array = levels > max(-threshold_db, noise)
        loud[:_EDGE_FRAMES] = loud[-_EDGE_FRAMES:] = False
        return loud

    def find_loud_codes(self, count: int, speed: float = 1.0) -> Array | None:
        """`[count]`: whether at least half of each code's sound is as loud as speech; None without
        sound."""
        loud_frames = self.find_loud_frames(SPEECH_DB)
        if not len(loud_frames):
            return None
        edges = np.arange(count + 1) * CODE_SECONDS / (FRAME_SECONDS * speed)
        sums = np.concatenate(([0], np.cumsum(loud_frames)))
        edges = np.minimum(np.round(edges).astype(int), len(loud_frames))
        num_frames = np.maximum(np.diff(edges), 1)
        loud_codes: Array = np.diff(sums[edges]) >= 0.5 * num_frames
        return loud_codes


def trim_silence(times: Array, spoken: Array, loud: Array, speed: float = 1.0) -> Array:
    """Shrinks the times of words to their audible sound.

    Args:
        times: `[positions, 2]` in seconds at speed 1, ascending.
        spoken: `[positions]`: whether each is spoken; a run of spoken positions is a word.
        loud: `[frames]`, from `LoudnessLog.find_loud_frames`.
        speed: The speed of the sound.

    Returns:
        `[positions, 2]`; the times of silent words are unchanged.
    """
    trimmed = np.array(times, np.float64)
    frame = FRAME_SECONDS * speed
    edges = np.flatnonzero(np.diff(np.concatenate(([0], np.asarray(spoken, np.int8), [0]))))
    for first, after_last in zip(edges[::2], edges[1::2], strict=True):
        word_start, word_end = trimmed[first, 0], trimmed[after_last - 1, 1]
        first_frame = int(word_start / frame)
        loud_frames = np.flatnonzero(loud[first_frame : int(np.ceil(word_end / frame))])
        if not len(loud_frames):
            continue
        sound_start = (first_frame + loud_frames[0]) * frame
        sound_end = (first_frame + loud_frames[-1] + 1) * frame
        if sound_start - word_start < MIN_SILENCE_SECONDS:
            sound_start = word_start
        if word_end - sound_end < MIN_SILENCE_SECONDS:
            sound_end = word_end
        trimmed[first:after_last] = trimmed[first:after_last].clip(sound_start, sound_end)
    return trimmed


def fade(sound: Samples, rising: int, falling: int, arrays: ModuleType) -> Samples:
    """Fades in over the first `rising` samples and out over the last `falling` ones."""
    up, down = (arrays.linspace(0.0, 1.0, n, dtype=arrays.float32) for n in (rising, falling))
    end = len(sound) - falling
    parts = sound[:rising] * up, sound[rising:end], sound[end:] * arrays.flip(down, (0,))
    return arrays.concatenate(parts)


@dataclass(frozen=True)
class TimedWord:
    """A word with its times in seconds from the start of the speech. The field names are those of
    Kokoro-FastAPI's captioned speech."""

    word: str
    start_time: float
    end_time: float


class SpokenWords:
    """The words of one speech, available piece by piece.

    Every word has a time, in the order of the text, and none starts before the previous one ends. A
    word that spans two pieces is returned with the second.
    """

    def __init__(self, pieces: Sequence[Piece], speed: float = 1.0) -> None:
        """speed: the speed of the speech."""
        self._pieces = tuple(pieces)
        self._speed = speed
        self._num_ended = 0
        self._piece_start = self._seconds = self._last_end = 0.0
        # A word that the next piece continues.
        self._open_word: TimedWord | None = None
        # False as soon as a piece lacks a path through attention.
        self.has_times = True

    def add_sound(self, seconds: float) -> None:
        """Adds the length of more sound, including pauses."""
        self._seconds += seconds

    def end_piece(self, spoken: SpokenPiece) -> list[TimedWord]:
        """Ends the next piece, all of whose sound was added. Returns its words; [] if their times
        are unknown."""
        piece, self._num_ended = self._pieces[self._num_ended], self._num_ended + 1
        speech_start, self._piece_start = self._piece_start + piece.before, self._seconds
        if spoken.times is None:
            self.has_times = False
        if not self.has_times or spoken.times is None:
            return []
        words = [self._open_word] if self._open_word else []
        # A word that was not reached or was cut off ends with the sound.
        speech_end = max(speech_start, self._seconds - piece.after)
        for word in piece.words:
            start = min(speech_start + float(spoken.times[word.first, 0]) / self._speed, speech_end)
            end = min(speech_start + float(spoken.times[word.last, 1]) / self._speed, speech_end)
            start = max(start, self._last_end)
            self._last_end = end = max(start, end)
            if word.text or not words:
                words.append(TimedWord(word.text, round(start, 3), round(end, 3)))
            else:
                words[-1] = TimedWord(words[-1].word, words[-1].start_time, round(end, 3))
        self._open_word = words.pop() if words and self._is_word_open() else None
        return words

    def _is_word_open(self) -> bool:
        """Whether the next piece starts within a word."""
        next_pieces = self._pieces[self._num_ended :]
        return bool(next_pieces and next_pieces[0].words and not next_pieces[0].words[0].text)


def words_of_speech(
    pieces: Sequence[Piece], spoken: Sequence[SpokenPiece], speed: float = 1.0
) -> list[TimedWord] | None:
    """The words of a finished speech; None if their times are unknown.

    Args:
        pieces: The pieces of the text (`xtts.text.tokenizer.Tokenizer.split`).
        spoken: The result of each piece.
        speed: The speed of the speech.
    """
    spoken_words, timed_words = SpokenWords(pieces, speed), list[TimedWord]()
    for piece, spoken_piece in zip(pieces, spoken, strict=True):
        spoken_words.add_sound(piece.before + spoken_piece.seconds + piece.after)
        timed_words += spoken_words.end_piece(spoken_piece)
    return timed_words if spoken_words.has_times and spoken else None
