"""The page's arithmetic in a real browser, against numpy and figures by hand."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.api.page.fake import serving
from tests.api.page.world import World, speech, wav

pytestmark = pytest.mark.system

Run = Callable[..., Any]
# The page's policy forbids functions made from text; a test may bypass it.
CODE = """async ([file, code, v]) =>
  new Function("m", "v", `return (${code})`)(await import(file), v)"""


@pytest.fixture(scope="module")
def run(chromium: Any) -> Iterator[Run]:
    """run(module, expression, value): the result, with the module as m and the value as v."""
    with serving(World()) as (url, _):
        context = chromium.new_context(bypass_csp=True)
        page = context.new_page()
        page.goto(f"{url}/status")
        yield lambda module, code, value=None: page.evaluate(
            CODE, [f"{url}/page/{module}.js", code, value]
        )
        context.close()


@pytest.mark.parametrize("length", [2, 8, 64, 1024])
def test_the_fft_is_numpys(run, length):
    noise = np.random.default_rng(length).normal(size=(2, length))
    code = """((re, im) => (m.fft(re, im), [Array.from(re), Array.from(im)]))
      (Float64Array.from(v[0]), Float64Array.from(v[1]))"""
    real, imaginary = run("fourier", code, noise.tolist())
    expected = np.fft.fft(noise[0] + 1j * noise[1])
    assert np.allclose(np.array(real) + 1j * np.array(imaginary), expected, atol=1e-9)


BANDS = "m.bands(128, v, 24000, 50, 11000).map((b) => b.weights.reduce((a, w) => a + w))"
EVENT = {"event": "epoch", "data": "{}"}


@pytest.mark.parametrize(
    ("module", "code", "value", "expected"),
    [
        # Slaney's mel scale, both directions; the weights of all bands sum to one.
        ("fourier", "v.map(m.toMel)", [0, 200, 1000, 6400], [0, 3, 15, 42]),
        ("fourier", "v.map((h) => m.toHertz(m.toMel(h)))", [60, 999, 5000], [60, 999, 5000]),
        ("fourier", BANDS, "mel", [1] * 128),
        ("fourier", BANDS, "linear", [1] * 128),
        # Ticks are round and inside the range. A range is never empty and ignores non-finite
        # values.
        ("scales", "m.ticks(...v)", [0, 10, 5], [0, 2, 4, 6, 8, 10]),
        ("scales", "m.ticks(...v)", [0.61, 0.89, 5], [0.65, 0.7, 0.75, 0.8, 0.85]),
        ("scales", "m.ticks(...v)", [3, 3, 5], [3]),
        ("scales", "m.rangeOf(v)", [], [0, 1]),
        ("scales", "m.rangeOf([NaN, 2, Infinity, 4], 0.1)", None, [1.8, 4.2]),
        ("scales", "m.rangeOf(v).map((edge) => Math.sign(edge - 5))", [5], [-1, 1]),
        ("scales", "v.map(m.linear(1, 3, 100, 0))", [1, 2, 3], [100, 50, 0]),
        ("scales", "m.linear(2, 2, 0, 10)(v)", 2, 5),
        # Smoothing starts without bias.
        ("scales", "m.smoothed(v.map((y, x) => ({x, y}))).map((p) => p.y)", [4] * 5, [4] * 5),
        # A clock; an invalid time or number is a dash.
        ("wording", "v.map((s) => m.clock(s))", [0, 4.24, 59.96, 61, 3604.2],
         ["0:00.0", "0:04.2", "1:00.0", "1:01.0", "1:00:04.2"]),
        ("wording", "[NaN, -1, undefined, Infinity].map((s) => m.clock(s))", None, ["–"] * 4),
        ("wording", "[null, undefined, NaN].map((n) => m.figure(n))", None, ["–"] * 3),
        ("wording", "v.map(m.spokenTime)", [1, 64.2], ["1 second", "1 minute 4 seconds"]),
        # A file name contains no path.
        ("wording", "m.fileName(...v)", ["a/../b", "c d.wav"], "a-..-b_c-d.wav"),
        # Matching only reduces levels.
        ("sound", "m.matchingGains(v)", [0.1, 0.4, 0], [1, 0.25, 1]),
        ("sound", "m.loudness(Float32Array.from(v))", [0] * 100, 0),
        ("sound", "Array.from(m.fromPcm(Uint8Array.from(v)))", [0, 0, 255, 127, 0, 128],
         [0, 32767 / 32768, -1]),
        # Event blocks.
        ("events", "m.parsed(v)", "event: epoch\ndata: {}", EVENT),
        ("events", "m.parsed(v)", "data: a\ndata: b", {"event": "message", "data": "a\nb"}),
        ("events", "m.parsed(v)", "event:x\ndata", {"event": "x", "data": ""}),
        ("events", "[': still here', 'retry: 2000'].map(m.parsed)", None, [None, None]),
    ],
)  # fmt: skip
def test_the_page_counts_and_words_things_right(run, module, code, value, expected):
    found = run(module, code, value)
    numbers = isinstance(expected, list) and not isinstance(expected[0], str | None)
    assert found == (pytest.approx(expected) if numbers else expected)


@pytest.mark.parametrize("scale", ["mel", "linear"])
@pytest.mark.parametrize("hertz", [300, 1500, 5000])
def test_a_tone_stands_at_its_frequency_and_a_full_one_near_0_decibels(run, scale, hertz):
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


def test_thinning_keeps_the_mean(run):
    points = [{"x": i, "y": i % 7} for i in range(5000)]
    thin = run("scales", "m.thinned(v, 400)", points)
    assert len(thin) == 400
    assert np.mean([p["y"] for p in thin]) == pytest.approx(np.mean([p["y"] for p in points]), 0.01)


def test_steps_that_were_told_twice_stand_once(run):
    def row(step, kind="train", of="old"):
        return {"step": step, "kind": kind, "of": of}

    old = [row(1), row(2), row(2, "validation"), row(3)]
    fresh = [row(2, of="new"), row(3, of="new")]
    found = run("scales", "m.joined(...v)", [old, fresh])
    trained = [(row["step"], row["of"]) for row in found if row["kind"] == "train"]
    assert trained == [(1, "old"), (2, "new"), (3, "new")]
    # The validation row of step 2 follows its training row: it is not a repetition.
    later = run("scales", "m.joined(...v)", [[row(1), row(2)], [row(2, "validation", "new")]])
    assert len(later) == 3


def test_loudness_leaves_out_the_pauses(run):
    tone = (0.5 * np.sin(np.arange(24000) / 5)).tolist()
    for sound in (tone, tone + [0.0] * 48000):
        found = run("sound", "m.loudness(Float32Array.from(v))", sound)
        assert found == pytest.approx(0.5 / np.sqrt(2), rel=0.01)


def test_pcm_becomes_a_wav_and_comes_out_of_one_again(run):
    samples = speech(0.1, 150)
    file = wav(samples)
    pcm = run("sound", "Array.from(m.pcmOf(Uint8Array.from(v)))", list(file))
    assert bytes(pcm) == file[44:]
    # Some writers put a chunk before the samples.
    odd = file[:36] + b"LIST\x03\x00\x00\x00abc\x00" + file[36:]
    assert bytes(run("sound", "Array.from(m.pcmOf(Uint8Array.from(v)))", list(odd))) == file[44:]
    code = "m.wavOf([Uint8Array.from(v)]).arrayBuffer().then((b) => Array.from(new Uint8Array(b)))"
    assert bytes(run("sound", code, pcm)) == file
