"""Pieces end and join in silence with every driver: whole, streamed, in a batch, ONNX.

`python -m pytest -s -m slow tests/xtts/inference/test_ends_of_pieces.py` measures the reporting
texts of the benchmarks; docs/develop/log.md has its output.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

import xtts
from benchmarks.texts import sentences
from tests.installed import has
from tests.models import as_onnx
from tests.xtts.inference.crowds import batcher_of, sounds_of
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model.shapes import VOCODER_RATE
from xtts.voices.base_models import DEMO

Sound = np.ndarray

END_SECONDS, BEFORE_SECONDS = 0.05, 0.2
# A piece ends in silence if its end is at most MAX_DB louder than the silence before it. Silence
# below UNHEARD_DBFS counts as UNHEARD_DBFS.
MAX_DB, UNHEARD_DBFS = 6.0, -56.0
# If all of the 0.2 s before its end is louder, a piece ends within speech.
SPEECH_DBFS = -50.0
# Chosen on the choosing texts: at most 14 dB without a click, at least 22 dB with a planted one,
# and at least 25 dB with zeros beyond the ends of the vocoder's input.
CLICK_DB = 18.0
BACKENDS = ("torch", "onnx") if has("onnx") else ("torch",)
JOINTS = 250 * len(BACKENDS)


@dataclass(frozen=True)
class End:
    """level: the loudest 20 ms of the last 50 ms of a piece; silence: the quietest 20 ms of the
    200 ms before them; both in dBFS."""

    level: float
    silence: float

    @property
    def over(self) -> float:
        """How much louder the end is, in dB, where that may be heard."""
        return self.level - max(self.silence, UNHEARD_DBFS)


def levels(sound: Sound) -> Sound:
    """Levels in dBFS of 20 ms, every 5 ms."""
    frames = np.lib.stride_tricks.sliding_window_view(sound.astype(np.float64), 480)[::120]
    return 10 * np.log10(np.maximum((frames**2).mean(1), 1e-12))


def joints(sound: Sound) -> list[int]:
    """The joints of two pieces, where both fades are 0."""
    return (np.flatnonzero((sound[:-1] == 0) & (sound[1:] == 0)) + 1).tolist()


def ends(sound: Sound) -> Iterator[End]:
    """The end of each piece; a pause, which is zeros, is not a piece."""
    end, before = int(END_SECONDS * VOCODER_RATE), int(BEFORE_SECONDS * VOCODER_RATE)
    for piece in np.split(sound, joints(sound)):
        if not piece.any():
            continue
        last, silence = piece[-end:], piece[-end - before : -end]
        yield End(float(levels(last).max()), float(levels(silence).min()))


def clicks(sound: Sound, places: Sequence[int]) -> list[int]:
    """The places with a click from 25 ms before to 2 ms after them: a millisecond of the second
    difference (high-passed sound) that is CLICK_DB louder than the loudest one from 100 to 50 ms
    before."""
    high = np.diff(sound.astype(np.float64), 2)
    frames = high[: len(high) // 24 * 24].reshape(-1, 24)
    powers = 10 * np.log10(np.maximum((frames**2).mean(1), 1e-12))
    heard = []
    for place in places:
        at = place // 24
        if powers[at - 25 : at + 3].max() > powers[at - 100 : at - 50].max() + CLICK_DB:
            heard.append(place)
    return heard


@pytest.fixture(scope="module")
def voices(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LoadedVoice]:
    loaded = {"torch": xtts.load_voice(precision="fp32")}
    if "onnx" in BACKENDS:
        folder = as_onnx(DEMO, tmp_path_factory.mktemp("onnx") / "demo", "fp32")
        loaded["onnx"] = xtts.load_voice(folder, precision="fp32")
    return loaded


def whole(voice: LoadedVoice, texts: Sequence[str]) -> list[Sound]:
    return [xtts.synthesize(voice, text) for text in texts]


def streamed(voice: LoadedVoice, texts: Sequence[str]) -> list[Sound]:
    return [np.concatenate(list(xtts.stream(voice, text))) for text in texts]


def among_others(voice: LoadedVoice, texts: Sequence[str]) -> list[Sound]:
    asked = {str(number): SynthesisRequest(text, "en") for number, text in enumerate(texts)}
    return list(sounds_of(batcher_of(voice, 4), voice.own_voice, asked).values())


DRIVERS = [
    pytest.param(backend, driver, id=f"{backend}, {driver.__name__}")
    for backend in BACKENDS
    for driver in (whole, streamed, among_others)
]


@pytest.mark.parametrize(("backend", "driver"), DRIVERS)
def test_a_piece_ends_in_the_silence_before_its_end(voices, backend, driver):
    whole, parts = driver(voices[backend], ["Good morning.", "It is cold.[pause:300ms]Open the door."])
    all_ends = [*ends(whole), *ends(parts)]
    assert len(all_ends) == 3
    for end in all_ends:
        assert end.silence < SPEECH_DBFS and end.over < MAX_DB
    assert levels(whole)[0] < SPEECH_DBFS  # it begins in silence, too


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("backend", "driver"), DRIVERS)
def test_all_reporting_texts_end_in_silence(voices, backend, driver):
    texts = sentences("reporting")
    all_ends = [end for sound in driver(voices[backend], texts) for end in ends(sound)]
    silent = [end for end in all_ends if end.silence < SPEECH_DBFS]
    over = [end.over for end in silent]
    loudest = max(end.level for end in silent)
    print(
        f"\n{backend}, {driver.__name__}: {len(texts)} texts, {len(all_ends)} pieces, "
        f"{len(all_ends) - len(silent)} end within speech; the last 50 ms over the silence before "
        f"them: median {np.median(over):.1f} dB, most {max(over):.1f}; loudest {loudest:.1f} dBFS"
    )
    assert len(all_ends) >= len(texts) == 60 and max(over) <= MAX_DB


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_five_hundred_joints_do_not_click(voices):
    """Planted clicks are found."""
    text = " ".join([*sentences("reporting"), *sentences("choosing")])
    clicking = planted = count = 0
    for param in DRIVERS:
        backend, driver = param.values
        (sound,) = driver(voices[backend], [text])
        places = joints(sound)
        clicking, count = clicking + len(clicks(sound, places)), count + len(places)
        for place in places:
            sound[place + 48] += 0.01
        planted += len(clicks(sound, places))
    print(f"\n{count} joints: {clicking} clicks; of {count} planted ones of 0.01: {planted} found")
    # A breath before the end hides a click.
    assert count >= JOINTS and not clicking and planted >= 0.7 * count
