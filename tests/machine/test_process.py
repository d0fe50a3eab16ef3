"""Programs that are asked something, and what is left of them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from machine.process import run_with_timeout


def test_an_answer_is_kept_whole() -> None:
    found = run_with_timeout((sys.executable, "-c", "import sys; print(1); sys.exit('no')"), 20)
    assert (found.code, found.out, found.last_error) == (1, "1\n", "no")


def test_no_command_to_the_terminal_comes_through() -> None:
    """A program's answer is shown: it may not clear the screen, rename the window or ring."""
    said = (
        "\\033[2J\\033]0;mine\\007red: \\033[1;31mGPU\\033[0m\\tis\\a lost\\b\\r\\n\\302\\233 0\\n"
    )
    found = run_with_timeout(("sh", "-c", f"printf '{said}'; printf '{said}' >&2; exit 9"), 20)
    assert found.out == found.errors == "red: GPU\tis lost\n 0\n"


def test_ctrl_c_ends_what_was_asked_too(tmp_path: Path) -> None:
    """It stands in a group of its own, which the terminal's signal does not reach."""
    note = tmp_path / "pid"
    asked = f"echo $$ > {note}.part; mv {note}.part {note}; exec sleep 60"
    # Tests that a shell starts in the background have SIGINT ignored; a person's terminal has not.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = (
        f"{heard}; from machine.process import run_with_timeout;"
        f"run_with_timeout(('sh', '-c', {asked!r}), 50)"
    )
    asking = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    end = time.monotonic() + 20
    while not note.exists() and time.monotonic() < end:
        time.sleep(0.02)
    asking.send_signal(signal.SIGINT)
    assert asking.wait(20) != 0
    pid = int(note.read_text())
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.02)
    state = Path(f"/proc/{pid}/stat")
    alive = state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"
    if alive:
        os.kill(pid, signal.SIGKILL)
    assert not alive
