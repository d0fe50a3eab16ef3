"""Freeing memory: pages of a file are read again on use, anonymous memory is kept."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from machine.memory import MappedFiles


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@pytest.mark.parametrize("offset", [0, 4_000], ids=["at a page", "within a page"])
def test_pages_of_a_file_are_given_back_and_read_again(tmp_path, offset):
    """A tensor in a safetensors file begins anywhere."""
    path = tmp_path / "numbers"
    values = np.arange(8_000_000, dtype=np.float32)
    values.tofile(path)
    pages = np.memmap(path, np.float32, mode="c", offset=offset)
    values = values[offset // 4 :]
    assert float(pages.sum(dtype=np.float64)) == float(values.sum(dtype=np.float64))
    before, address = resident(), pages.ctypes.data
    assert MappedFiles.look().forget(address, pages.nbytes)
    # The look itself takes a few MB of it.
    assert before - resident() > 0.75 * pages.nbytes
    assert np.array_equal(pages, values)


def test_memory_of_our_own_is_left_alone():
    values = np.ones(4_000_000, np.float32)
    assert not MappedFiles.look().forget(values.ctypes.data, values.nbytes)
    assert values.min() == 1.0


def test_code_and_memory_without_a_name_are_no_files(tmp_path):
    maps = tmp_path / "maps"
    maps.write_text(
        "10000-20000 r--p 00000000 fe:00 7 /data/model.pth\n"
        "30000-40000 r-xp 00000000 fe:00 8 /lib/lib.so\n"
        "50000-60000 rw-p 00000000 00:00 0 \n"
        "70000-80000 rw-p 00000000 00:00 0                          [heap]\n"
    )
    assert MappedFiles.look(maps).ranges == ((0x10000, 0x20000),)
    assert MappedFiles.look(tmp_path / "none").ranges == ()  # a system without maps


@pytest.mark.parametrize(
    ("limited", "reused"),
    # The second case proves that the first one would notice oneDNN's default cache.
    [(True, False), pytest.param(False, True, marks=pytest.mark.slow)],
)
@pytest.mark.slow
def test_onednn_keeps_the_code_of_few_shapes(limited, reused):
    """After 150 widths (600 shapes with the reorders), oneDNN compiles the first one again if our
    limit is set, and still has it in its default cache if not."""
    program = (
        "import sys; from machine.memory import limit_onednn_cache\n"
        f"if {limited}: limit_onednn_cache()\n"
        "import torch\n"
        "conv = torch.nn.Conv2d(16, 16, (1, 7)).requires_grad_(False)\n"
        # torch computes a small one with a single row without oneDNN.
        "for width in range(16, 166): conv(torch.zeros(2, 16, 1, width))\n"
        "with torch.backends.mkldnn.verbose(2): conv(torch.zeros(2, 16, 1, 16))\n"
    )
    # An earlier test may have set the limit.
    inherited = {name: value for name, value in os.environ.items() if "ONEDNN" not in name}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env=inherited,
    )
    made = [line for line in done.stdout.splitlines() if ",convolution," in line]
    assert made and any("cache_hit" in line for line in made) is reused, done.stdout
