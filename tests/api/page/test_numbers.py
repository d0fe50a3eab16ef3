"""The page's arithmetic, in the browser that will do it, against numpy and by hand."""

import io
import wave
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.api.page.fake import serving
from tests.api.page.world import World, speech, wav

pytestmark = pytest.mark.system

Run = Callable[..., Any]
# The page itself may not make functions out of text; a test may.
CODE = """async ([file, code, v]) =>
  new Function("m", "v", `return (${code})`)(await import(file), v)"""


@pytest.fixture(scope="module")
def run(chromium: Any) -> Iterator[Run]:
    """run(module, expression, value): the expression, with the module as m and the value as v."""
    with serving(World()) as (url, _):
        context = chromium.new_context(bypass_csp=True)
        page = context.new_page()
        page.goto(f"{url}/status")
        yield lambda module, code, value=None: page.evaluate(
            CODE, [f"{url}/page/{module}.js", code, value]
        )
        context.close()


@pytest.mark.parametrize("length", [2, 8, 64, 1024])
def test_the_fft_is_numpys(run: Run, length: int) -> None:
    noise = np.random.default_rng(length).normal(size=(2, length))
    code = """((re, im) => (m.fft(re, im), [Array.from(re), Array.from(im)]))
      (Float64Array.from(v[0]), Float64Array.from(v[1]))"""
    real, imaginary = run("fourier", code, noise.tolist())
    expected = np.fft.fft(noise[0] + 1j * noise[1])
    assert np.allclose(np.array(real) + 1j * np.array(imaginary), expected, atol=1e-9)


def test_the_mel_scale_is_slaneys(run: Run) -> None:
    mels = run("fourier", "v.map(m.toMel)", [0, 200, 1000, 6400])
    assert mels == pytest.approx([0, 3, 15, 42])
    assert run("fourier", "v.map((h) => m.toHertz(m.toMel(h)))", [60, 999, 5000]) == pytest.approx(
        [60, 999, 5000]
    )


@pytest.mark.parametrize("scale", ["mel", "linear"])
@pytest.mark.parametrize("hertz", [300, 1500, 5000])
def test_a_tone_stands_at_its_frequency_and_a_full_one_near_0_decibels(
    run: Run, scale: str, hertz: int
) -> None:
    code = f"""(() => {{
      const at = (_, i) => Math.sin(2 * Math.PI * {hertz} * i / 24000);
      const tone = Float32Array.from({{ length: 12000 }}, at);
      const range = {{ scale: "{scale}", lowest: 50, highest: 11000 }};
      const {{ decibels, count }} = m.spectrogram(tone, 24000, range);
      const frame = Array.from(decibels.slice(20 * count, 21 * count));
      const best = frame.indexOf(Math.max(...frame));
      return [best / (count - 1), m.placeOf({hertz}, "{scale}", 50, 11000), frame[best]];
    }})()"""
    found, expected, level = run("fourier", code)
    assert found == pytest.approx(expected, abs=0.015)
    assert -8 < level < 1


def test_every_band_has_weights_that_sum_to_one(run: Run) -> None:
    for scale in ("mel", "linear"):
        bands = run("fourier", f'm.bands(128, "{scale}", 24000, 50, 11000)')
        assert [sum(band["weights"]) for band in bands] == pytest.approx([1] * 128)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (0.61, 0.89, [0.65, 0.7, 0.75, 0.8, 0.85]), (3, 3, [3])],
)
def test_ticks_are_round_and_inside(
    run: Run, low: float, high: float, expected: list[float]
) -> None:
    assert run("scales", "m.ticks(...v)", [low, high, 5]) == pytest.approx(expected)


def test_a_range_is_never_empty_and_leaves_out_what_is_no_number(run: Run) -> None:
    assert run("scales", "m.rangeOf([])") == [0, 1]
    assert run("scales", "m.rangeOf([NaN, 2, Infinity, 4], 0.1)") == pytest.approx([1.8, 4.2])
    low, high = run("scales", "m.rangeOf([5])")
    assert low < 5 < high


def test_a_place_on_a_scale(run: Run) -> None:
    assert run("scales", "[1, 2, 3].map(m.linear(1, 3, 100, 0))") == [100, 50, 0]
    assert run("scales", "m.linear(2, 2, 0, 10)(2)") == 5


def test_thinning_keeps_the_mean_and_smoothing_starts_fair(run: Run) -> None:
    points = [{"x": i, "y": i % 7} for i in range(5000)]
    thin = run("scales", "m.thinned(v, 400)", points)
    assert len(thin) == 400
    assert np.mean([p["y"] for p in thin]) == pytest.approx(np.mean([p["y"] for p in points]), 0.01)
    smooth = run("scales", "m.smoothed(v)", [{"x": i, "y": 4} for i in range(5)])
    assert [p["y"] for p in smooth] == pytest.approx([4] * 5)


def test_steps_that_were_told_twice_stand_once(run: Run) -> None:
    def row(step: int, kind: str = "train", of: str = "old") -> dict[str, Any]:
        return {"step": step, "kind": kind, "of": of}

    old = [row(1), row(2), row(2, "validation"), row(3)]
    fresh = [row(2, of="new"), row(3, of="new")]
    found = run("scales", "m.joined(...v)", [old, fresh])
    assert [(r["step"], r["of"]) for r in found if r["kind"] == "train"] == [
        (1, "old"),
        (2, "new"),
        (3, "new"),
    ]
    # The validation of step 2 comes after its training row: it is no repetition.
    later = run("scales", "m.joined(...v)", [[row(1), row(2)], [row(2, "validation", "new")]])
    assert len(later) == 3


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0:00.0"), (4.24, "0:04.2"), (59.96, "1:00.0"), (61, "1:01.0"), (3604.2, "1:00:04.2")],
)
def test_a_clock(run: Run, seconds: float, expected: str) -> None:
    assert run("wording", "m.clock(v)", seconds) == expected


def test_what_is_no_time_or_number_is_a_dash(run: Run) -> None:
    assert run("wording", "[NaN, -1, undefined, Infinity].map((s) => m.clock(s))") == ["–"] * 4
    assert run("wording", "[null, undefined, NaN].map((n) => m.figure(n))") == ["–"] * 3
    assert run("wording", "m.spokenTime(1)") == "1 second"
    assert run("wording", "m.spokenTime(64.2)") == "1 minute 4 seconds"


def test_a_file_name_holds_no_path(run: Run) -> None:
    assert run("wording", "m.fileName('a/../b', 'c d.wav')") == "a-..-b_c-d.wav"


def test_loudness_leaves_out_the_pauses_and_matching_only_turns_down(run: Run) -> None:
    tone = (0.5 * np.sin(np.arange(24000) / 5)).tolist()
    code = "m.loudness(Float32Array.from(v))"
    alone = run("sound", code, tone)
    assert alone == pytest.approx(0.5 / np.sqrt(2), rel=0.01)
    assert run("sound", code, tone + [0.0] * 48000) == pytest.approx(alone, rel=0.01)
    assert run("sound", code, [0.0] * 100) == 0
    assert run("sound", "m.matchingGains([0.1, 0.4, 0])") == pytest.approx([1, 0.25, 1])


def test_pcm_becomes_a_wav_and_comes_out_of_one_again(run: Run) -> None:
    samples = speech(0.1, 150)
    file = wav(samples)
    pcm = run("sound", "Array.from(m.pcmOf(Uint8Array.from(v)))", list(file))
    assert bytes(pcm) == file[44:]
    # A chunk before the samples, as some writers put one.
    odd = file[:36] + b"LIST\x03\x00\x00\x00abc\x00" + file[36:]
    assert bytes(run("sound", "Array.from(m.pcmOf(Uint8Array.from(v)))", list(odd))) == file[44:]
    code = "m.wavOf([Uint8Array.from(v)]).arrayBuffer().then((b) => Array.from(new Uint8Array(b)))"
    with wave.open(io.BytesIO(bytes(run("sound", code, pcm)))) as reader:
        assert (reader.getframerate(), reader.getnchannels(), reader.getsampwidth()) == (
            24000,
            1,
            2,
        )
        assert reader.readframes(10**6) == file[44:]
    floats = run("sound", "Array.from(m.fromPcm(Uint8Array.from(v)))", [0, 0, 255, 127, 0, 128])
    assert floats == pytest.approx([0, 32767 / 32768, -1])


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("event: epoch\ndata: {}", {"event": "epoch", "data": "{}"}),
        ("data: a\ndata: b", {"event": "message", "data": "a\nb"}),
        (": still here", None),
        ("retry: 2000", None),
        ("event:x\ndata", {"event": "x", "data": ""}),
    ],
)
def test_a_block_of_events(run: Run, block: str, expected: dict[str, str] | None) -> None:
    assert run("events", "m.parsed(v)", block) == expected
