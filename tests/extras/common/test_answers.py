"""A child that is asked once: its answer, or why there is none."""

import sys

import pytest

from extras.common.answers import ask_once, failure_message

ECHO = (
    "import json, sys; from machine.process import reserve_stdout, write_json_line;"
    "request, answers = json.load(sys.stdin), reserve_stdout(); print('a library says hello');"
    "write_json_line(answers, {'got': request})"
)


def test_a_child_is_asked_once():
    """Output of libraries is kept, but not as part of the answer."""
    found = ask_once((sys.executable, "-c", ECHO), 20, request=["a", 1])
    assert (found.answer, found.last_error) == ({"got": ["a", 1]}, "a library says hello")
    assert ask_once(("sh", "-c", "cat; echo greeting; echo 3"), 20).answer == 3


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exec sleep 60", "no answer within 0.5 s"),
        ("kill -SEGV $$", "Segmentation"),
        ("echo 1; echo why >&2; exit 3", "why"),
        ("exit 3", "exit status 3"),
        ("echo hello", "no JSON"),
        ("true", "no JSON"),
    ],
)
def test_a_child_that_gives_no_answer_is_explained(script, reason):
    found = ask_once(("sh", "-c", script), 0.5 if "sleep" in script else 20)
    assert found.answer is None and reason in found.last_error


@pytest.mark.parametrize(
    ("code", "stderr", "words"),
    [
        # An exception that nothing caught: its last line.
        (1, 'note\nTraceback (most recent call last):\n  File "x", line 1\nValueError: x\n', "ValueError: x"),
        # A message of ours, whatever it quotes.
        (
            2,
            "NUM_EPOCHS is 'many'.\nSEED is 'Traceback (most recent'.",
            "NUM_EPOCHS is 'many'. SEED is 'Traceback (most recent'.",
        ),
        (-11, "Fatal Python error: Segmentation fault\n\x1b[0m", "Fatal Python error: Segmentation fault"),
        (70, "x" * 900, "x" * 700),
        (1, "", ""),
    ],
)
def test_the_words_of_a_child_that_failed(code, stderr, words):
    assert failure_message(code, stderr) == words
