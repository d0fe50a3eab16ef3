"""Children that run in parallel: their answers, and their ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from machine.parallel_process import ChildProcess, JsonLineProcess
from tests.processes import gone, written

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
        "from machine.parallel_process import ChildProcess;"
        "from machine.process import module_command; import time;"
        f"ChildProcess(module_command('sleeper', {str(note)!r}, 'a b')); time.sleep(60)"
    )
    paths = os.pathsep.join((str(tmp_path), str(Path.cwd())))
    parent = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths})
    pid, told = written(note).split(" ", 1)
    assert told == "__main__ ['a b']" and not gone(int(pid), 0.1)
    parent.kill()
    parent.wait()
    assert gone(int(pid))
