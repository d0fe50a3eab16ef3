"""A byte ends a process that can no longer run Python."""

import subprocess
import sys
import time

import pytest

# Sleeps inside C with the GIL held: no Python thread and no signal handler runs.
STALLED = """
import ctypes, os, sys
from train.resilience.tripwire import tripwire
wire = tripwire(75)
child = os.fork()
if child == 0:
    import time
    time.sleep(float(sys.argv[1]))
    os.write(wire, b'x')
    os._exit(0)
ctypes.PyDLL(None).sleep(60)
"""

# As on glibc before 2.34, whose main library has no such read.
OLD_LIBRARY = """
import ctypes
class Old(ctypes.CDLL):
    def __getattr__(self, name):
        if name == 'aio_read' and self._name is None:
            raise AttributeError(name)
        return super().__getattr__(name)
ctypes.CDLL = Old
"""


@pytest.mark.parametrize("code", [STALLED, OLD_LIBRARY + STALLED], ids=["libc", "librt"])
def test_a_byte_ends_a_process_whose_interpreter_is_held(code):
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code, "0.2"], timeout=50, check=False)
    assert done.returncode == 75 and time.monotonic() - started < 40


def test_without_a_byte_nothing_happens():
    """Also if the process ends before the C library's thread starts to read."""
    code = "from train.resilience.tripwire import tripwire; assert tripwire(75) is not None"
    ended = [
        subprocess.run([sys.executable, "-c", code], timeout=50, check=False) for _ in range(20)
    ]
    assert [done.returncode for done in ended] == 20 * [0]
