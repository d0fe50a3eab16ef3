"""Sentences about errors."""

import pickle

import pytest
import torch

from machine.text import first_line, load_error, quantity


class Other:
    pass


def test_torchs_advice_to_load_unsafely_is_not_passed_on(tmp_path):
    """torch's first line says how to execute any code in the file."""
    for content in (pickle.dumps(Other(), protocol=2), b"no weights", b"x" * 99):
        path = tmp_path / "bad.pth"
        path.write_bytes(content)
        with pytest.raises(Exception) as caught:
            torch.load(path, weights_only=True)
        error = load_error(caught.value)
        assert "weights_only" not in error and "option" not in error and len(error) < 200
    assert load_error(ValueError("a\nb")) == "a" and load_error(EOFError()) == "EOFError"


def test_one_has_no_plural():
    counts = [quantity(number, "clip") for number in (0, 1, 2, 2000)]
    assert counts == ["0 clips", "1 clip", "2 clips", "2,000 clips"]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("It is bad.\nA hint follows."), "It is bad"),
        (ValueError(""), "ValueError"),
        (OSError("\n "), "OSError"),
        (RuntimeError("x" * 999), "x" * 300),
    ],
)
def test_the_first_line_of_an_error_is_never_empty_or_endless(error, line):
    assert first_line(error) == line
