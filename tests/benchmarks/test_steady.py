"""Memory stays as it is while 200 sentences of mixed length are spoken, with either back end."""

from pathlib import Path

import pytest

from benchmarks import steady
from benchmarks.steady_child import ROWS, sentence
from xtts.voices.base_models import DEMO


def test_growth_is_told_from_the_second_quarter_on() -> None:
    seen = [100.0, 130.0, 150.0, 140.0, 151.0, 150.0, 155.0, 152.0]
    found = steady.told({"resident_mb": seen, "audio_seconds": 1.0, "seconds": 2.0})
    assert found["quarters_mb"] == [130.0, 150.0, 151.0, 155.0] and found["grown_mb"] == 5.0


def test_sentences_are_of_mixed_length_in_each_quarter() -> None:
    for quarter in range(4):
        texts = [sentence(number)[0].split() for number in range(50 * quarter, 50 * quarter + 50)]
        lengths = {len(words) for words in texts}
        assert min(lengths) <= 2 and max(lengths) > 80 and len(lengths) > 25


def test_a_child_that_fails_is_no_figure(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"onnx: .* ended with 1: .*is missing"):
        steady.started("onnx", tmp_path, tmp_path / "voice.safetensors", 1, 1)


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return steady.voice_of(DEMO, tmp_path_factory.mktemp("steady") / "onnx")


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_memory_is_flat_over_200_sentences_of_mixed_length(row: str, voice: Path) -> None:
    found = steady.told(steady.started(row, DEMO, voice, sentences=200, threads=1))
    assert found["audio_seconds"] > 200
    assert found["grown_mb"] < 15, found
