"""The completion scripts, run in their shells."""

import shutil
import subprocess

import pytest

from extras.cli import completion
from machine import console

COMPLETE = """
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sotaque; printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(*words: str) -> list[str]:
    """The completions that bash offers for the last word."""
    done = subprocess.run(
        ["bash", "-c", completion.script("bash") + COMPLETE, "bash", "sotaque", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["sp"], ["speak"]),
        (["speak", "--prec"], ["--precision"]),
        (["speak", "--precision", "int"], ["int8", "int4"]),
        (["train", "--precision", ""], ["auto", "fp32", "bf16", "fp16"]),
        (["train", "--early"], ["--early-stopping"]),
        (["serve", "--backend", ""], ["torch", "onnx"]),
        (["export", "--onnx", "in"], ["int8", "int4"]),
        (["completion", ""], ["bash", "zsh"]),
        (["speak", "--lines", ""], []),  # bash completes file names
        (["nothing", "--"], []),
    ],
)
def test_bash_offers_verbs_flags_and_the_words_of_a_flag(words, offered):
    assert completed(*words) == offered


def test_bash_offers_every_verb():
    assert completed("") == list(console.verbs())


def test_zsh_reads_its_script(tmp_path):
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed here")
    script = tmp_path / "_sotaque"
    script.write_text(completion.script("zsh"))
    subprocess.run(["zsh", "-n", script], check=True)
