"""docs/errors.md: every entry can be found by its text, is complete, and matches the programs."""

import re
from pathlib import Path

import pytest

from machine.devices import cuda_errors
from machine.devices.health import Outcome
from train.resilience.lost_gpu import lost_error, out_of_memory

PAGE = (Path(__file__).parents[1] / "docs/errors.md").read_text(encoding="utf-8")
INDEX, *_ENTRIES = re.split(r"^## ", PAGE, flags=re.MULTILINE)
ENTRIES = {text.partition("\n")[0]: text for text in _ENTRIES}


def test_the_ten_commonest_and_the_users_own_are_there():
    assert len(ENTRIES) >= 11
    assert "CUFFT_INVALID_SIZE" in ENTRIES["cuFFT"]


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_quotes_the_error_and_says_cause_conduct_and_command(name):
    quoted = ENTRIES[name].partition("```\n")[2].partition("```")[0]
    parts = [ENTRIES[name].find(f"**{part}**") for part in ("Cause.", "What Sotaque does.", "What to type.")]
    assert quoted.strip() and -1 not in parts and parts == sorted(parts)
    anchor = f"[{name}](#{name.lower().replace(' ', '-')})"
    (row,) = [line for line in INDEX.splitlines() if anchor in line]
    texts = re.findall(r"`([^`]+)`", row.partition(" | ")[0])
    assert texts and any(text in quoted for text in texts)


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("cuFFT", Outcome.BUILD),
        ("No kernel image", Outcome.BUILD),
        ("GPU memory", Outcome.TRANSIENT),
        ("NVIDIA driver", Outcome.DRIVER),
        ("Lost CUDA context", Outcome.STICKY),
        ("Driver mismatch", Outcome.DRIVER),
    ],
)
def test_a_quoted_error_is_known_to_the_programs(name, outcome):
    for line in ENTRIES[name].partition("```\n")[2].partition("```")[0].splitlines():
        found = cuda_errors.classify(RuntimeError(line))
        assert found is not None and found.outcome is outcome, line


def test_whoever_meets_one_is_sent_here():
    assert "docs/errors.md" in str(lost_error("cuda:0", "CUDA error: unspecified launch failure"))
    assert "docs/errors.md" in str(out_of_memory("cuda:0", "CUDA out of memory"))
