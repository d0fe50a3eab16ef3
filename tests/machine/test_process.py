"""Child programs: their answers, their failures and their ends."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from machine.process import ChildProcess, JsonLineProcess, end_awaited, module_command, run_with_timeout
from tests.processes import gone, written


def test_an_answer_is_kept_whole():
    result = run_with_timeout((sys.executable, "-c", "import sys; print(1); sys.exit('no')"), 20)
    assert (result.code, result.out, result.last_error) == (1, "1\n", "no")


def test_no_command_to_the_terminal_comes_through():
    """A program's output is shown, so it must not clear the screen, rename the window or ring."""
    output = "\\033[2J\\033]0;mine\\007red: \\033[1;31mGPU\\033[0m\\tis\\a lost\\b\\r\\n\\302\\233 0\\n"
    result = run_with_timeout(("sh", "-c", f"printf '{output}'; printf '{output}' >&2; exit 9"), 20)
    assert result.out == result.errors == "red: GPU\tis lost\n 0\n"


def test_ctrl_c_ends_what_was_asked_too(tmp_path):
    """The program runs in a separate process group, which the terminal's signal does not reach."""
    note = tmp_path / "pid"
    program = f"echo $$ > {note}.part; mv {note}.part {note}; exec sleep 60"
    # Ctrl-C while it waits, which under load is later than the program's first line. A shell starts
    # background jobs with SIGINT ignored; undo that, as on a terminal.
    code = f"""
import os, signal, threading, time
from machine import process

def interrupt():
    while not (process._awaited and os.path.exists({str(note)!r})):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt, daemon=True).start()
process.run_with_timeout(("sh", "-c", {program!r}), 50)
"""
    caller = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    assert caller.wait(40) != 0 and gone(int(note.read_text()))


def test_a_hang_is_ended_with_what_was_said_before_it():
    result = run_with_timeout(("sh", "-c", "echo begun; echo why >&2; exec sleep 60"), 0.5)
    assert result.hung and result.code is None and result.seconds < 10
    assert (result.out, result.errors) == ("begun\n", "why\n")
    assert result.last_error == "no answer within 0.5 s"


def test_a_process_that_ends_waits_for_no_program():
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run_with_timeout, ("sleep", "60"), 60)
        until = time.monotonic() + 30
        while not waiting.done() and time.monotonic() < until:
            end_awaited()
            time.sleep(0.01)
        assert waiting.result().code == -signal.SIGKILL and waiting.result().seconds < 30


def test_what_a_program_leaves_behind_ends_with_it():
    """It is not waited for, although it holds the program's output open."""
    result = run_with_timeout(("sh", "-c", "sleep 60 & echo $!"), 20)
    assert result.code == 0 and result.seconds < 10 and gone(int(result.out))


def test_a_program_that_is_not_there_is_no_hang():
    result = run_with_timeout(("/nowhere/program",), 5)
    assert result.code is None and not result.hung and "cannot be started" in result.last_error


def test_programs_run_where_no_file_can_be_written(monkeypatch):
    """The doctor runs programs on a full disk, too."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    assert run_with_timeout(("sh", "-c", "echo yes"), 20).out == "yes\n"


def test_a_child_whose_parent_died_before_it_could_ask_ends_itself():
    command = list(module_command("this"))
    command[3] = "1"  # its parent has died: it now belongs to init
    result = run_with_timeout(command, 20)
    assert (result.code, result.out) == (1, "")


# Depending on the word: two answers at once, a late one, one in parts, no JSON object, or a crash.
WORKER = """
read line
case "$line" in
    *two*) echo '{"n": 1}'; echo '{"n": 2}'; read line;;
    *slow*) sleep 0.4; echo '{"n": 3}'; read line;;
    *parts*) printf '{"n":'; sleep 0.2; echo ' 4}'; read line;;
    *garbled*) echo 'what?'; read line;;
    *list*) echo '[1]'; read line;;
    *die*) echo 'the last words' >&2; exit 7;;
esac
"""


def worker(word: str) -> JsonLineProcess:
    child = JsonLineProcess(("sh", "-c", WORKER))
    child.send({"do": word})
    return child


def test_a_worker_answers_line_by_line():
    child = worker("two")
    assert [child.receive(20), child.receive(20)] == [{"n": 1}, {"n": 2}]
    child.end()
    child = worker("parts")
    assert child.receive(20) == {"n": 4}
    child.end()


def test_an_answer_that_came_too_late_can_be_waited_for_again():
    child = worker("slow")
    with pytest.raises(TimeoutError):
        child.receive(0.05)
    assert child.receive(20) == {"n": 3}
    child.end()


@pytest.mark.parametrize("word", ["garbled", "list", "die"])
def test_what_is_no_answer_is_the_end(word):
    child = worker(word)
    with pytest.raises(EOFError):
        child.receive(20)
    if word == "die":
        assert (child.wait(20), child.errors.last_line()) == (7, "the last words")
        with pytest.raises(EOFError):
            child.send({"do": "two"})
    child.end()


def test_the_end_of_a_child_is_that_of_its_group(tmp_path):
    note = tmp_path / "pid"
    child = ChildProcess(("sh", "-c", f"sleep 60 & echo $! > {note}.part; mv {note}.part {note}"))
    child.wait(20)  # the leader has ended, its child has not
    pid = int(written(note))
    assert not gone(pid, 0.1)
    child.end()
    assert child.code == 0 and gone(pid)


def test_a_module_runs_with_its_arguments_and_dies_with_its_parent(tmp_path):
    note = tmp_path / "pid"
    (tmp_path / "sleeper.py").write_text(
        "import os, sys, time, pathlib; part = pathlib.Path(sys.argv[1] + '.part');"
        "part.write_text(f'{os.getpid()} {__name__} {sys.argv[2:]}'); part.rename(sys.argv[1]);"
        "time.sleep(60)"
    )
    code = (
        "from machine.process import ChildProcess, module_command; import time;"
        f"ChildProcess(module_command('sleeper', {str(note)!r}, 'a b')); time.sleep(60)"
    )
    paths = os.pathsep.join((str(tmp_path), str(Path.cwd())))
    parent = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths})
    pid, told = written(note).split(" ", 1)
    assert told == "__main__ ['a b']" and not gone(int(pid), 0.1)
    parent.kill()
    parent.wait()
    assert gone(int(pid))
