"""`train queue` with a training that takes no time: order, cancellation, kills of either side."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from extras.studio.jobs import job_work, trainer
from extras.studio.training_jobs import JobFolder, TrainingQueue, TrainingState, run_folder_of
from machine.errors import SotaqueError
from machine.settings.loading import with_extras
from machine.storage import locks
from machine.storage.files import WriteError
from tests.extras.studio.jobs import FAKE
from tests.processes import gone
from train.resilience.at_work import at_work
from train.settings import TrainSettings, load
from xtts.voices.run_folder import RunFolder
from xtts.voices.run_lock import lock

# Including the studio's settings.
SETTINGS: Any = with_extras(TrainSettings)

KILLS = int(os.environ.get("QUEUE_KILLS", "3"))
SEED = int(os.environ.get("KILLS_SEED", "1"))


class Ground:
    """A folder with a queue, a dataset and trained runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data" / "ana"
        self.data.mkdir(parents=True)
        self.settings = SETTINGS(
            queue_dir=folder / "queue",
            output_dir=folder / "output",
            datasets_dir=folder / "datasets",
            dataset_roots=(str(folder / "data"),),
            cache_dir=folder / "cache",
        )
        self.queue = TrainingQueue(self.settings.queue_dir)

    def ask(self, run: str, **settings: str) -> JobFolder:
        found = self.queue.get(self.queue.ask(run, str(self.data), settings).id)
        assert found is not None
        return found

    def work(self) -> None:
        assert trainer.run(self.settings, once=True, module=FAKE) == 0

    def calls(self) -> list[list[str]]:
        """Verb, run and process of each call of the training."""
        path = self.settings.output_dir / "calls.txt"
        return [line.split()[:3] for line in path.read_text().splitlines()] if path.exists() else []

    def epochs(self, run: str) -> int:
        return len(list((run_folder_of(self.settings.output_dir, run)).glob("checkpoints/*.pt")))

    def program(self) -> subprocess.Popen[bytes]:
        words = [
            f"--{name.replace('_', '-')}={getattr(self.settings, name)}"
            for name in ("queue_dir", "output_dir", "datasets_dir", "cache_dir")
        ]
        words.append(f"--dataset-roots={self.folder / 'data'}")
        return subprocess.Popen([sys.executable, "-m", "tests.extras.studio.jobs.queue_program", *words])


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    monkeypatch.setattr(job_work, "_RESTART_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(job_work, "_POLL_SECONDS", 0.02)
    return Ground(tmp_path)


@contextlib.contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Runs `work` in a thread: the queue needs the main thread for its signals."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join(30)


def until(true: Callable[[], Any], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_jobs_are_trained_one_at_a_time_in_the_order_in_which_they_came(ground):
    jobs = [ground.ask(run, NUM_EPOCHS="1") for run in ("first", "second", "third")]
    ground.work()
    assert [job.state().state for job in jobs] == ["done"] * 3
    assert [call[:2] for call in ground.calls()] == [
        [verb, run] for run in ("first", "second", "third") for verb in ("check", "run")
    ]
    assert all(job.state().started and job.state().ended for job in jobs)
    assert "epoch 1/1" in jobs[0].log_file.read_text()


def test_a_job_of_an_existing_run_goes_on_with_it(ground):
    ground.ask("ana", NUM_EPOCHS="1")
    ground.work()
    ground.ask("ana", NUM_EPOCHS="3")
    ground.work()
    assert ground.epochs("ana") == 3


def test_a_dataset_that_is_refused_is_not_trained_on(ground, monkeypatch):
    monkeypatch.setenv("FAKE_TRAINING", "refuse")
    job = ground.ask("ana")
    ground.work()
    state = job.state()
    assert (state.state, state.code) == ("failed", 2)
    assert state.message == "metadata.csv has no clip that can be read."
    assert [call[0] for call in ground.calls()] == ["check"]


def test_a_value_that_the_setting_refuses_runs_nothing(ground):
    job = ground.ask("ana", NUM_EPOCHS="many", LORA_RANK="-3")
    ground.work()
    assert job.state().state == "failed"
    assert "NUM_EPOCHS is 'many'" in job.state().message and "LORA_RANK" in job.state().message
    assert ground.calls() == []


def test_a_value_is_one_argument_whatever_is_in_it(ground, tmp_path):
    """No shell reads it, and it cannot become another flag."""
    text = f"--output-dir={tmp_path / 'else'} $(touch {tmp_path / 'made'}); `touch made` | sh &"
    job = ground.ask("ana", SAMPLE_TEXT=text, NUM_EPOCHS="1")
    flags = job_work.flags_of(job.read(), ground.settings)
    assert f"--sample-text={text}" in flags
    read, _ = load(flags, {}, None)
    run = run_folder_of(ground.settings.output_dir, "ana")
    assert (read.sample_text, read.output_dir, read.num_epochs) == (text, run, 1)
    ground.work()
    assert job.state().state == "done" and ground.epochs("ana") == 1
    assert not (tmp_path / "made").exists() and not (tmp_path / "else").exists()


def test_a_log_that_is_a_link_is_not_written_through(ground, tmp_path):
    job = ground.ask("ana")
    victim = tmp_path / "victim.txt"
    victim.write_text("Mine.")
    job.log_file.symlink_to(victim)
    with pytest.raises(WriteError):
        job_work.Training(job, ground.settings, FAKE, threading.Event()).work()
    assert victim.read_text() == "Mine." and ground.calls() == []


def test_a_base_that_is_not_offered_runs_nothing(ground, tmp_path):
    job = ground.ask("ana", BASE_MODEL=str(tmp_path))
    ground.work()
    assert job.state().state == "failed" and "BASE_MODEL" in job.state().message
    assert ground.calls() == []


def test_what_was_cancelled_in_the_queue_never_starts(ground):
    first, second = ground.ask("first"), ground.ask("second")
    first.cancel()
    ground.work()
    assert (first.state().state, second.state().state) == ("cancelled", "done")
    assert {call[1] for call in ground.calls()} == {"second"}


def test_cancelling_keeps_the_checkpoint_and_the_run_can_go_on(ground, monkeypatch):
    monkeypatch.setenv("FAKE_EPOCH", "0.2")
    job = ground.ask("ana", NUM_EPOCHS="100")

    def cancel() -> None:
        until(lambda: ground.epochs("ana") >= 2)
        job.cancel()

    with meanwhile(cancel):
        ground.work()
    state, kept = job.state(), ground.epochs("ana")
    assert (state.state, state.code) == ("cancelled", 143) and kept >= 2
    assert "Stopped; the state is saved." in job.log_file.read_text()
    ground.ask("ana", NUM_EPOCHS=str(kept + 1))
    ground.work()
    assert ground.epochs("ana") == kept + 1


def test_a_killed_training_goes_on_from_its_checkpoint(ground, monkeypatch):
    monkeypatch.setenv("FAKE_EPOCH", "0.15")
    job = ground.ask("ana", NUM_EPOCHS=str(2 * KILLS + 1))

    def kill() -> None:
        drawn = random.Random(SEED)
        for number in range(KILLS):
            until(lambda at=number: ground.epochs("ana") > 2 * at)
            time.sleep(drawn.uniform(0, 0.15))
            pid = int(ground.calls()[-1][2])
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            until(lambda at=pid: int(ground.calls()[-1][2]) != at or not job.state().is_open)

    with meanwhile(kill):
        ground.work()
    assert job.state().state == "done"
    assert ground.epochs("ana") == 2 * KILLS + 1
    assert sum(call[0] == "run" for call in ground.calls()) == KILLS + 1


def test_what_is_killed_again_and_again_ends_with_a_sentence(ground, monkeypatch):
    monkeypatch.setenv("FAKE_TRAINING", "deadly")
    job = ground.ask("ana")
    ground.work()
    state = job.state()
    assert (state.state, state.deaths, state.code) == ("failed", 2, -9)
    assert "memory ran out" in state.message and "3 times in a row" in state.message


def test_a_killed_trainer_loses_nothing(ground, monkeypatch):
    """At random moments; the training dies with the trainer, and the next trainer resumes."""
    monkeypatch.setenv("FAKE_EPOCH", "0.1")
    jobs = [ground.ask("first", NUM_EPOCHS="3"), ground.ask("second", NUM_EPOCHS="3")]
    drawn = random.Random(SEED)
    for _ in range(KILLS):
        program = ground.program()
        with contextlib.suppress(AssertionError):
            until(ground.queue.has_trainer, 20)
        time.sleep(drawn.uniform(0, 0.6))
        trained = psutil.Process(program.pid).children(recursive=True)
        program.kill()
        program.wait()
        assert all(gone(child.pid) for child in trained)
        assert all(job.read().run for job in jobs)
    assert ground.program().wait(60) == 0
    assert [job.state().state for job in jobs] == ["done", "done"]
    assert ground.epochs("first") == ground.epochs("second") == 3
    runs = [call[1] for call in ground.calls() if call[0] == "run"]
    assert runs == sorted(runs)  # the first ended before the second began


def test_a_stopped_trainer_hands_the_job_to_the_next(ground, monkeypatch):
    monkeypatch.setenv("FAKE_EPOCH", "0.3")
    job = ground.ask("ana", NUM_EPOCHS="4")
    program = ground.program()
    until(lambda: ground.epochs("ana") >= 1)
    program.terminate()
    assert program.wait(30) == 0
    assert job.state().state == "interrupted" and "next start" in job.state().message
    ground.work()
    assert job.state().state == "done" and ground.epochs("ana") == 4
    assert [call[0] for call in ground.calls()] == ["check", "run", "run"]


@pytest.mark.parametrize("where", ["device", "output", "run"])
def test_a_job_waits_for_a_training_that_somebody_else_started(where, ground, tmp_path):
    """In OUTPUT_DIR itself, in the job's run, or elsewhere with the same CACHE_DIR."""
    others = tmp_path / "others"
    run = run_folder_of(ground.settings.output_dir, "ana")
    held = {"output": ground.settings.output_dir, "run": run}.get(where)
    job = ground.ask("ana", NUM_EPOCHS="1")
    ended = threading.Event()

    def train() -> None:
        with lock(RunFolder(held)) if held else at_work(ground.settings.cache_dir, "cpu", others):
            began.set()
            until(lambda: job.state().waits_for)
            told = f"It waits until other work ends, in {held or others}."
            assert job.state().sentence == told and job.state().state == "queued"
            assert ground.calls() == []
        ended.set()

    began = threading.Event()
    with meanwhile(train):
        began.wait(30)
        ground.work()
    assert ended.is_set()  # the thread has not failed
    assert (job.state().state, job.state().sentence) == ("done", "")


def test_a_job_tells_again_why_it_was_started_again_once_nothing_is_in_its_way(ground):
    """Whatever its message says, and although the trainer was killed while the job waited."""
    job = ground.ask("ana")
    message = "It waits until other work ends, said somebody. It was started again."
    job.write_state(state="running", message=message, waits_for="a folder that is gone")
    work = job_work.Training(job, ground.settings, "tests.none", threading.Event())
    run = RunFolder(run_folder_of(ground.settings.output_dir, "ana"))
    assert work._wait_for_others(run)
    assert (job.state().sentence, job.state().state) == (message, "running")


def test_what_waits_can_be_cancelled_and_the_trainer_stopped(ground, tmp_path):
    first, second = ground.ask("first"), ground.ask("second")
    with at_work(ground.settings.cache_dir, "cuda:0", tmp_path):
        program = ground.program()
        until(lambda: first.state().waits_for)
        first.cancel()
        until(lambda: second.state().waits_for)
        program.terminate()
        assert program.wait(30) == 0
    assert (first.state().state, second.state().state) == ("cancelled", "queued")
    assert "next start" in second.state().sentence
    ground.work()
    assert second.state().state == "done" and {call[1] for call in ground.calls()} == {"second"}


def test_a_second_trainer_of_the_same_queue_is_refused(ground):
    ground.queue.folder.mkdir()
    with locks.exclusive(ground.queue.lock_file), pytest.raises(SotaqueError, match="one at a time"):
        ground.work()


def test_a_log_stays_small_and_keeps_its_end(ground, monkeypatch):
    monkeypatch.setenv("FAKE_TRAINING", "loud")
    monkeypatch.setenv("FAKE_EPOCH", "0.03")
    job = ground.ask("ana", NUM_EPOCHS="30")
    ground.work()
    assert job.log_file.stat().st_size < job_work.MAX_LOG_BYTES + (1 << 19)
    assert "epoch 30/30" in job.log_file.read_text()


def test_a_job_whose_folder_cannot_be_written_does_not_hold_up_the_others(ground, monkeypatch):
    first, second = ground.ask("first"), ground.ask("second")
    write = JobFolder.write_state

    def refuse(job: JobFolder, **changed: Any) -> TrainingState:
        if job.id == first.id:
            raise WriteError("It cannot be written.")
        return write(job, **changed)

    monkeypatch.setattr(JobFolder, "write_state", refuse)
    ground.work()
    assert first.state().state == "queued"
    assert second.state().state == "done"
    assert {call[1] for call in ground.calls()} == {"second"}


@pytest.mark.slow
def test_two_clips_of_the_demo_are_trained_and_the_run_goes_on_with_more(tmp_path, monkeypatch):
    """The real training, cancelled halfway and continued."""
    settings = SETTINGS(queue_dir=tmp_path / "queue", output_dir=tmp_path / "output")
    for name in ("CACHE_DIR", "RUNS_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    queue = TrainingQueue(settings.queue_dir)
    settings_of_job = {"MAX_TRAIN_SAMPLES": "2", "NUM_EPOCHS": "1", "LEARN_DECODER": "off", "BLEND": "off"}
    for epochs in ("1", "2"):
        made = queue.ask("demo", "train/data/demo", {**settings_of_job, "NUM_EPOCHS": epochs})
        assert trainer.run(settings, once=True) == 0
        job = queue.get(made.id)
        assert job and job.state().state == "done", job and job.log_file.read_text()[-2000:]
    run = run_folder_of(settings.output_dir, "demo")
    assert (run / "checkpoints" / "checkpoint_epoch_2.pt").is_file()
    assert (run / "samples" / "epoch_2_output.wav").is_file()
