"""`import xtts` as in a notebook: the examples of the documentation are run."""

import contextlib
import doctest
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import xtts
from machine.errors import SotaqueError
from tests.datasets import a_sound
from tests.models import tiny_base, tiny_voice
from xtts.arguments import ArgumentError
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.takes import speak_takes
from xtts.voices.base_models import DEMO

ROOT = Path(__file__).parents[2]
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.binary(),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.builds(object),
    st.sampled_from(
        [
            10**5000,
            -(10**400),
            2**63,
            math.nan,
            math.inf,
            1e-300,
            np.float32("nan"),
            np.int64(-1),
            np.float32(1.5),
            np.zeros(2),
            "\0",
            "\ud800",
            "~nobody/x",
            "a" * 5000,
            Path("/"),
            "/dev/null",
        ]
    ),
)
JUNK_COUNT = settings(max_examples=20, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def demo() -> LoadedVoice:
    return xtts.load_voice("demo")


def test_the_examples_of_the_docstring_speak(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "anna.wav").write_bytes((DEMO / "reference.wav").read_bytes())
    played: list[np.ndarray] = []
    example = doctest.DocTestParser().get_doctest(
        str(xtts.__doc__), {"play": played.append}, "xtts", None, None
    )
    runner = doctest.DocTestRunner()
    assert runner.run(example, clear_globs=False) == (0, len(example.examples))
    samples, rate = soundfile.read("out.wav")
    assert rate == 24_000 and len(samples) > 12_000 and np.abs(samples).max() > 0.01
    assert len(played) > 1 and played[0].dtype == np.float32


def test_the_example_of_the_docs_is_the_docstrings():
    told = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    lines = [line[4:] for line in str(xtts.__doc__).splitlines() if line[:4] in (">>> ", "... ")]
    assert lines and [line for line in lines if line not in told] == []


def test_it_is_the_waveform_of_the_command_line(demo, tmp_path):
    from xtts.__main__ import main

    out = tmp_path / "out.wav"
    assert main(["speak", "--text", "Yes.", "--seed", "3", "--out", str(out)]) == 0
    spoken, _ = soundfile.read(out, dtype="float32")
    assert np.abs(xtts.synthesize(demo, "Yes.", seed=3) - spoken).max() < 1e-4


def test_seed_and_speed_are_heard_and_chunks_join(demo):
    speech, same, other = (xtts.synthesize(demo, "Yes.", seed=seed, temperature=1.0) for seed in (1, 1, 2))
    assert np.array_equal(speech, same) and not np.array_equal(speech, other)
    speech = xtts.synthesize(demo, "Good morning.", seed=1)
    assert np.allclose(np.concatenate(list(xtts.stream(demo, "Good morning.", seed=1))), speech, atol=1e-4)
    for fast in (
        xtts.synthesize(demo, "Good morning.", seed=1, speed=2.0),
        np.concatenate(list(xtts.stream(demo, "Good morning.", seed=1, speed=2.0))),
    ):
        assert len(fast) == pytest.approx(len(speech) / 2, abs=2_000)


@pytest.mark.slow
def test_a_take_is_one_of_those_spoken_together_and_one_take_is_as_before(tmp_path):
    voice = xtts.load_voice(tiny_voice(tmp_path / "voice"))
    asked = SynthesisRequest("Uma.", "pt", seed=2)
    together = [take.waveform for take in speak_takes(voice, asked, 3)]
    best = xtts.synthesize(voice, "Uma.", "pt", seed=2, takes=3)
    assert any(np.array_equal(best, take) for take in together)
    assert np.array_equal(best, xtts.synthesize(voice, "Uma.", "pt", seed=2, takes=np.int64(3)))
    single, plain = (xtts.synthesize(voice, "Uma.", "pt", seed=2, **kw) for kw in ({"takes": 1}, {}))
    assert np.array_equal(single, plain)
    for junk in (0, 17, 1.5, "2", None, True):
        with pytest.raises(ArgumentError, match="takes is"):
            xtts.synthesize(voice, "Uma.", "pt", takes=junk)


def test_a_base_without_a_recording_speaks_as_the_reference(tmp_path):
    base = tiny_base(tmp_path / "base")
    with pytest.raises(SotaqueError, match="Pass reference="):
        xtts.load_voice(base)
    reference = tmp_path / "who.wav"
    soundfile.write(reference, a_sound(2.0, 22_050), 22_050)
    voice = xtts.load_voice(base, reference=reference)
    assert voice.languages == ("en", "pt") and len(xtts.synthesize(voice, "One.")) > 0
    with pytest.raises(SotaqueError, match="not one of this model's"):
        xtts.synthesize(voice, "One.", "xx")


def test_several_recordings_are_one_speaker(tmp_path):
    base, paths = tiny_base(tmp_path / "base"), [tmp_path / f"{n}.wav" for n in range(3)]
    for number, path in enumerate(paths):
        soundfile.write(path, a_sound(5.0, 22_050, seed=number, pitch=90 + 40 * number), 22_050)
    of = [xtts.load_voice(base, reference=reference).own_voice for reference in (paths[0], paths[:1], paths)]
    alone, listed, several = (voice.latents for voice in of)
    assert np.array_equal(alone, listed) and not np.array_equal(alone, several)
    folder = xtts.load_voice(base, reference=tmp_path).own_voice
    assert np.array_equal(folder.latents, several) and np.array_equal(folder.speaker, of[2].speaker)
    with pytest.raises(SotaqueError, match="contains no recording"):
        xtts.load_voice(base, reference=base)


# A hang fails here.
@pytest.mark.timeout(60)
@pytest.mark.parametrize("argument", ["voice", "text", "language", "seed", "speed", "temperature"])
def test_junk_is_refused_with_a_sentence_or_spoken(demo, argument):
    @JUNK_COUNT
    @given(JUNK)
    @example(0)
    @example(-1)
    @example(math.nan)
    @example(None)
    @example("x")
    def speak(junk: Any) -> None:
        if isinstance(junk, str) and len(junk) > 100:
            return  # a long text would be long speech
        asked: dict[str, Any] = {"voice": demo, "text": "Yes.", argument: junk}
        for spoken in (xtts.synthesize, lambda **asked: next(xtts.stream(**asked))):
            with contextlib.suppress(SotaqueError):
                assert len(spoken(**asked)) > 0

    speak()


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "argument",
    ["name", "reference", "base", "device", "precision", "low_memory", "pronunciations", "tos_agreed"],
)
def test_junk_is_refused_with_a_sentence_or_loaded(argument):
    @JUNK_COUNT
    @given(JUNK)
    @example("int3")
    @example("cuda:99")
    def load(junk: Any) -> None:
        with contextlib.suppress(SotaqueError):
            assert xtts.load_voice(**{argument: junk}).own_voice is not None

    load()


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("speed", 0),
        ("speed", -1),
        ("speed", math.nan),
        ("speed", 1000),
        ("temperature", -1),
        ("temperature", math.nan),
        ("temperature", 2.5),
        ("seed", -1),
        ("seed", "x"),
        ("seed", 2**63),
        ("seed", 1.5),
        ("text", None),
        ("language", 3),
        ("voice", "demo"),
    ],
)
def test_what_is_out_of_bounds_is_named(demo, argument, value):
    asked: dict[str, Any] = {"voice": demo, "text": "Yes.", argument: value}
    for call in (xtts.synthesize, xtts.stream):  # a stream raises at once, not at its first chunk
        with pytest.raises(ArgumentError, match=f"^{argument} is .*; allowed: "):
            call(**asked)
