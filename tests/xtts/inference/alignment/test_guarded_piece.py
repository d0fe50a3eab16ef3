"""Which sound is sent, spoken again or kept; words begin and end with their sound. No model."""

import numpy as np
import pytest

from tests.xtts.inference.alignment.attention_rows import LAST, SPOKEN, rows, spoken_at, whole
from xtts.inference.alignment.guard import CODE_SECONDS, Ending, align
from xtts.inference.alignment.guarded_piece import (
    RETRY_SEED_STRIDE,
    Guard,
    GuardedPiece,
    LoudnessLog,
    Utterance,
    trim_silence,
)

IDS = [7] * (len(SPOKEN) - 2)
HELD = 12_000
RATE = 24_000
# START, a word of two tokens, a blank, a word of one token, STOP.
WORDS = np.array([0, 1, 1, 0, 1, 0], bool)
TIMES = np.array([[0, 0], [0, 0.3], [0.3, 0.5], [0.5, 0.5], [0.5, 1.0], [1.0, 1.0]])
BABBLE = [*whole(), *[-1] * 40]


def guard_of(seed=5, **given):
    return Guard(((0, 0),), lambda _: SPOKEN, seed, **given)


class Heard(Utterance):
    """An utterance that attends to these places."""

    def __init__(self, places, *, stopped):
        self.codes, self.stopped = list(range(len(places) - stopped)), stopped
        self.latents = [np.array([number]) for number in range(len(places))]
        self.heads, self._rows = ((0, 0),), rows(places)

    def attention_by_head(self):
        return {(0, 0): self._rows}


def judged(piece, places, *, stopped=True):
    return piece.judge(Heard(places, stopped=stopped))


def sound(codes, quiet=5, speed=1.0):
    """Loud, except for the last codes."""
    samples = np.arange(round(codes * CODE_SECONDS * 24_000 / speed), dtype=np.float32) + 1e5
    samples[round((codes - quiet) * CODE_SECONDS * 24_000 / speed) :] *= 1e-6
    return samples


@pytest.mark.parametrize("first", [True, False])
def test_a_stream_holds_its_last_half_second_and_never_the_first_chunk(first):
    guard = guard_of()
    piece, given = GuardedPiece(guard, IDS, np, waits=False, is_first=first), sound(len(whole()))
    parts = np.split(given, [4_000, 20_000, 21_000])
    out = [piece.push(part) for part in parts]
    assert len(out[0]) == (4_000 if first else 0)
    assert sum(map(len, out)) == max(len(given) - HELD, 4_000 * first)
    assert not judged(piece, whole())
    assert np.array_equal(np.concatenate([*out, piece.end()]), given)
    assert guard.pieces[0].ending is Ending.GOOD and not guard.pieces[0].faulty


def test_a_stream_is_cut_in_what_is_held_and_takes_nothing_back():
    places = [*whole(), *[LAST + 1] * 14]
    guard, given = guard_of(), sound(len(places))
    piece = GuardedPiece(guard, IDS, np, waits=False)
    out = piece.push(given)
    assert not judged(piece, places)  # a stream cannot be spoken again
    rest = piece.end()
    end = len(out) + len(rest)
    assert len(out) == len(given) - HELD and end <= len(given)
    assert np.array_equal(out, given[: len(out)])
    assert guard.pieces[0].ending is Ending.CONTINUED
    # If babble is longer, too much has been sent: it is reported, and no more of it is sent.
    for places in (BABBLE, BABBLE[:-25]):
        guard, given = guard_of(), sound(len(places))
        piece = GuardedPiece(guard, IDS, np, waits=False)
        piece.push(given)
        judged(piece, places, stopped=False)
        assert (guard.pieces[0].cut_off, guard.pieces[0].faulty) == (False, True)
        assert len(piece.end()) == 0


@pytest.mark.parametrize(("speed", "codes"), [(1.0, len(whole())), (1.5, int(len(whole()) / 1.5))])
def test_a_piece_lasts_as_many_whole_codes_as_the_vocoder_speaks(speed, codes):
    """Subtitles of a long text would be seconds late."""
    guard = guard_of()
    piece = GuardedPiece(guard, IDS, np, waits=True, speed=speed)
    piece.push(sound(len(whole()), speed=speed))
    assert not judged(piece, whole())
    assert guard.pieces[0].seconds == pytest.approx(codes * CODE_SECONDS)


def test_when_nothing_helps_the_best_is_kept_and_told():
    guard = guard_of(retries=2)
    piece = GuardedPiece(guard, IDS, np, waits=True)
    assert judged(piece, spoken_at(1, 2, 3, 5, 6, 7, 9)) and not guard.pieces
    assert piece.next_seed == 5 + RETRY_SEED_STRIDE
    assert judged(piece, spoken_at(1, 2, 3)) and piece.next_seed == 5 + 2 * RETRY_SEED_STRIDE
    assert not judged(piece, spoken_at(1, 2, 3, 5))
    assert piece.has_earlier_best and len(piece.best.codes) == 13
    assert (guard.pieces[0].ending, guard.pieces[0].faulty) == (Ending.UNFINISHED, True)
    assert "of the text" in guard.pieces[0].reason


@pytest.mark.parametrize("speed", [1.0, 2.0, 0.5])
def test_sound_behind_the_last_word_of_a_whole_answer_is_cut_off(speed):
    guard = guard_of(retries=0)
    piece = GuardedPiece(guard, IDS, np, waits=True, speed=speed)
    piece.push(sound(len(BABBLE), speed=speed))
    assert not judged(piece, BABBLE, stopped=False)
    end, keep = piece.end(), piece.best.verdict.kept_codes
    assert len(end) == round(keep * CODE_SECONDS * 24_000 / speed) and end[-1] == 0.0
    assert len(piece.best.spoken_latents) == keep < len(BABBLE)
    told = guard.pieces[0]
    assert (told.cut_off, told.faulty) == (True, False)
    assert told.seconds == pytest.approx(keep * CODE_SECONDS / speed)


@pytest.mark.parametrize("mode", ["whole", "streamed"])
def test_words_begin_with_their_sound_however_it_comes(mode):
    given = sound(len(whole()))
    given[:5_000] = 0.0
    guard = guard_of()
    piece = GuardedPiece(guard, IDS, np, waits=mode != "streamed")
    for part in np.array_split(given, 7):
        piece.push(part)
    assert not judged(piece, whole())
    times, by_attention = guard.pieces[0].times, align(rows(whole()), SPOKEN).times() * CODE_SECONDS
    assert by_attention[1, 0] == 0.0 and times[1, 0] == pytest.approx(0.2)
    assert np.array_equal(times[5:], by_attention[5:])


def test_each_attempt_is_judged_by_its_own_sound():
    guard = guard_of()
    piece = GuardedPiece(guard, IDS, np, waits=True)
    piece.push(sound(len(whole()), quiet=0))
    assert judged(piece, whole())  # it stopped during loud sound
    piece.push(sound(len(whole())))
    assert not judged(piece, whole())
    assert (guard.pieces[0].ending, guard.pieces[0].attempts) == (Ending.GOOD, 2)


def noise(*parts: tuple[float, float]) -> np.ndarray:
    """Noise of the given (seconds, amplitude) parts."""
    normal = np.random.default_rng(0).standard_normal
    return np.concatenate([gain * normal(round(seconds * RATE)) for seconds, gain in parts])


def loud(wave: np.ndarray, chunk: int = 10**9) -> np.ndarray:
    log = LoudnessLog()
    for start in range(0, len(wave), chunk):
        log.push(wave[start : start + chunk].astype(np.float32))
    return log.find_loud_frames()


def test_silence_at_either_end_of_a_word_is_not_of_it():
    wave = noise((0.2, 1e-4), (0.3, 0.3), (0.15, 0), (0.25, 0.1), (0.3, 1e-4))
    times = trim_silence(TIMES, WORDS, loud(wave))
    assert times[[1, 2, 4]] == pytest.approx(np.array([[0.2, 0.3], [0.3, 0.5], [0.65, 0.9]]), abs=0.011)
    assert (np.diff(times[WORDS].ravel()) >= 0).all()


def test_a_closure_is_no_silence_and_a_word_of_silence_keeps_its_times():
    wave = noise((0.04, 0), (0.42, 0.3), (0.04, 0), (0.5, 1e-5))
    assert np.array_equal(trim_silence(TIMES, WORDS, loud(wave)), TIMES)
    assert np.array_equal(trim_silence(TIMES, WORDS, np.zeros(0, bool)), TIMES)


def test_the_vocoders_clicks_are_no_noise():
    wave = noise((0.03, 0.2), (0.17, 1e-4), (0.3, 0.3), (0.15, 0), (0.25, 0.1), (0.27, 0), (0.03, 0.2))
    times = trim_silence(TIMES, WORDS, loud(wave))
    assert times[1, 0] == pytest.approx(0.2, abs=0.011)
    assert times[4, 1] == pytest.approx(0.9, abs=0.011)


@pytest.mark.parametrize("chunk", [7, 239, 1_000, 24_000])
def test_chunks_make_no_difference(chunk):
    wave = noise((0.2, 1e-4), (0.3, 0.3), (0.25, 0), (0.25, 0.1))
    assert np.array_equal(loud(wave, chunk), loud(wave))


def test_at_another_speed_the_sound_lies_elsewhere():
    wave = noise((0.1, 0), (0.15, 0.3), (0.1, 0), (0.15, 0.1))
    times = trim_silence(TIMES, WORDS, loud(wave), speed=2.0)
    assert times[1, 0] == pytest.approx(0.2, abs=0.021)
    assert times[4, 0] == pytest.approx(0.7, abs=0.021)
