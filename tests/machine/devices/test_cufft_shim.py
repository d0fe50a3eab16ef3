"""A libcufft that refuses every plan, without a GPU, is loaded before the real one."""

import ctypes
import os
import subprocess
import sys

import pytest

from tests.gpu import faults


@pytest.mark.system
def test_the_shim_precedes_the_real_library(tmp_path):
    """After torch's libcufft is loaded too, torch still resolves the function to the shim."""
    shim = faults.build_shim(tmp_path)
    assert ctypes.CDLL(str(shim)).cufftXtMakePlanMany() == 8
    code = (
        "import ctypes, torch; from pathlib import Path;"
        "maps = Path('/proc/self/maps').read_text();"
        "assert 'cufft_shim.so' in maps and 'libcufft.so' in maps;"
        "print(ctypes.CDLL(None).cufftXtMakePlanMany())"
    )
    environ = {**os.environ, "LD_PRELOAD": str(shim)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "8"
