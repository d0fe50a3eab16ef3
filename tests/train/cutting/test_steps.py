"""Steps in their order, chunks that are heard ahead, and Ray's workers, one of which is killed."""

import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.train.cutting.recordings import demo_texts, hashes, join_demo
from train.__main__ import main
from train.cutting import by_words
from train.cutting.by_words import TextListener
from train.cutting.manuscript import Cue, manuscript_of
from train.cutting.profile import SpokenChunk
from train.cutting.recogniser import HeardWord
from train.cutting.recordings import CuttingError, SourceRecording
from train.cutting.steps import HeardJournal, Steps, in_order, ray_workers, steps_for

NUM_WORDS, WORDS_A_CHUNK = 4000, 40
NUM_CLIPS = 40
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is 200 MB: .venv/bin/python -m pip install -e '.[ray]'",
)


class AheadSteps(Steps):
    """Computes at once what is begun, as workers do."""

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        self.num_begun = 0

    def begin(self, step: Callable[..., Any], *arguments: object) -> Callable[[], Any]:
        self.num_begun += 1
        found = step(*arguments)
        return lambda: found


def test_results_come_in_their_order_and_so_many_are_begun_ahead() -> None:
    begun = list[int]()

    def steps() -> Any:
        for number in range(6):
            begun.append(number)
            yield lambda number=number: number

    found = in_order(steps(), 2)
    assert next(found) == 0 and begun == [0, 1, 2]
    assert [*found] == [1, 2, 3, 4, 5]


def test_what_is_heard_ahead_with_another_expectation_is_heard_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"w{number}" for number in range(NUM_WORDS)]
    monkeypatch.setattr(by_words, "text_recogniser", lambda: None)

    def heard(expected: list[str], samples: np.ndarray, start: float) -> list[HeardWord]:
        # Depends on what is expected: its first word is among what is heard.
        first = int(samples[0])
        said = [*words[first : first + WORDS_A_CHUNK], expected[0]]
        return [HeardWord(word, start + number, start + number + 1)
                for number, word in enumerate(said)]  # fmt: skip

    monkeypatch.setattr(by_words, "heard_words", heard)

    def listened(steps: Any, name: str) -> tuple[list[HeardWord], bytes]:
        text = manuscript_of([Cue(" ".join(words) + ".")], "en")
        journal = HeardJournal(tmp_path / name, "a fingerprint")
        listener = TextListener(text, journal, steps)
        tape = SourceRecording("tape", tmp_path / "tape.wav", 16_000, 16_000, (0, 0))
        for place in range(NUM_WORDS // WORDS_A_CHUNK):
            samples = np.array([place * WORDS_A_CHUNK], np.float32)
            listener.hear(tape, SpokenChunk(100.0 * place, samples))
        listener.finish()
        journal.close()
        return listener.heard, (tmp_path / name).read_bytes()

    ahead = AheadSteps(4)
    expected = listened(Steps(), "own")
    assert listened(ahead, "ahead") == expected
    assert len({word.text for word in expected[0]} & {"w0"}) == 1
    # The expectation moved on, and what had been begun by then was begun again.
    assert ahead.num_begun > NUM_WORDS // WORDS_A_CHUNK
    # All of it is known: nothing is begun.
    again = AheadSteps(4)
    assert listened(again, "ahead") == expected and again.num_begun == 0


def test_nobody_asked_for_ray() -> None:
    assert ray_workers(False, None, {}, 4) is None
    assert ray_workers(False, None, {"RAY_ADDRESS": " "}, 4) is None
    with pytest.raises(CuttingError, match="--workers 2 is for Ray: add --ray"):
        ray_workers(False, 2, {}, 4)


def test_where_ray_computes() -> None:
    assert ray_workers(True, None, {}, 4) == ("local", 4)
    assert ray_workers(True, 2, {}, 4) == ("local", 2)
    assert ray_workers(False, None, {"RAY_ADDRESS": "local"}, 4) == ("local", 4)
    assert ray_workers(False, None, {"RAY_ADDRESS": "10.0.0.7:6379"}, 4) == ("10.0.0.7:6379", None)
    with pytest.raises(CuttingError, match="at least one worker"):
        ray_workers(True, 0, {}, 4)


def test_without_ray_a_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "ray" else find(name)
    )
    assert steps_for(False, None) is Steps
    join_demo(tmp_path / "tape.wav", [1])
    assert main(["cut", str(tmp_path / "tape.wav"), "--to", str(tmp_path / "out"), "--ray"]) == 2
    assert "pip install -e '.[ray]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_two_workers_give_the_bytes_of_one_process(tmp_path: Path, killed: bool) -> None:
    pytest.importorskip("pocketsphinx", reason="it has wheels for Python 3.11 and 3.13")
    join_demo(tmp_path / "tape.wav", list(range(1, NUM_CLIPS + 1)))
    (tmp_path / "tape.txt").write_text(" ".join(demo_texts()[:NUM_CLIPS]))

    def command(to: str, *more: str) -> list[str]:
        asked = [str(tmp_path / "tape.wav"), "--text", str(tmp_path / "tape.txt")]
        return [sys.executable, "-m", "train", "cut", *asked, "--to", str(tmp_path / to), *more]

    subprocess.run(command("own"), check=True, capture_output=True)
    child = subprocess.Popen(
        command("ray", "--ray", "--workers", "2"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        if killed:
            kill_a_worker(child, tmp_path / "ray/.cutting/heard.jsonl")
        assert child.wait(280) == 0
    finally:
        child.kill()
        child.wait()
    assert hashes(tmp_path / "ray") == hashes(tmp_path / "own")


@needs_ray
@pytest.mark.slow
def test_recordings_without_a_text_are_measured_by_workers(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        join_demo(tmp_path / f"tape-{number}.wav", [number, number + 3, number + 6])
    tapes = [str(tmp_path / f"tape-{number}.wav") for number in (1, 2, 3)]
    for to, more in (("own", []), ("ray", ["--ray", "--workers", "2"])):
        command = [sys.executable, "-m", "train", "cut", *tapes, "--to", str(tmp_path / to), *more]
        subprocess.run(command, check=True, capture_output=True)
    assert hashes(tmp_path / "ray") == hashes(tmp_path / "own")


def kill_a_worker(child: subprocess.Popen[bytes], journal: Path) -> None:
    """When a few chunks were heard, the worker that hears another one."""
    end = time.monotonic() + 200
    while child.poll() is None and time.monotonic() < end:
        if journal.exists() and len(journal.read_bytes().splitlines()) > 3:
            for one in psutil.Process(child.pid).children(recursive=True):
                if "ray::heard_words" in " ".join(one.cmdline()):
                    os.kill(one.pid, signal.SIGKILL)
                    return
        time.sleep(0.05)
    raise AssertionError("no worker was found at work")
