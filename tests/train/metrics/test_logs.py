"""One record per step in three places, no step twice after a resume, a working TensorBoard."""

import contextlib
import errno
import json
import math
import socket
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer.event_file_writer import AtomicCounter

from machine.storage.files import WriteError
from tests.machine.storage.test_files import full_after
from tests.train.evaluation.spoken import base, candidate, facts, verdict_of
from tests.train.test_step import a_batch
from tests.xtts.workers.test_file_worker import gone
from train.dataset.batches import Batch
from train.metrics import tensorboard_server
from train.metrics.curves import spectrogram
from train.metrics.logs import DeferredMetrics, Logs, TrainedStep
from train.metrics.metrics_file import cut_back
from train.metrics.tensorboard_server import TensorBoard, free_port
from train.sampling.samples import SampleSidecar
from train.step import DeferredStepResult, StepResult
from xtts import encoding
from xtts.voices.evaluation_file import Evaluation
from xtts.voices.run_folder import RunFolder

NUM_EPOCHS, STEPS_PER_EPOCH = 2, 4


def batch() -> Batch:
    rows: Any = None
    return Batch(rows, (0, 1, 2, 3), 8.0)


def result(step: int, loss: float = 2.0) -> StepResult:
    losses = {"text_loss": 3.0, "audio_loss": loss / step}
    return StepResult(losses, loss, 1.5, 1e-4, math.isfinite(loss))


def a_step(result: StepResult, waited: float = 0.0, **changes: Any) -> TrainedStep:
    usual = {"epoch": 1, "number": 1, "step": 1, "names": ["a", "b"]}
    return TrainedStep(
        **usual | changes, batch=batch(), result=result, waited_seconds=waited, step_seconds=2.0
    )


def logs(folder: Path, first_step: int = 0, **options: Any) -> Logs:
    return Logs(
        RunFolder(folder / "output"),
        folder / "runs",
        num_epochs=NUM_EPOCHS,
        steps_per_epoch=STEPS_PER_EPOCH,
        first_step=first_step,
        log_every=10,
        **options,
    )


def train(found: Logs, first: int, last: int) -> None:
    for step in range(first, last + 1):
        epoch, number = divmod(step - 1, STEPS_PER_EPOCH)
        one = a_step(result(step), 0.5, epoch=epoch + 1, number=number + 1, step=step)
        found.log_step(one, result(step), 2.0)


def records(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "output" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def curves(folder: Path) -> EventAccumulator:
    found = EventAccumulator(str(folder / "runs"), {"scalars": 0, "images": 0, "audio": 0})
    found.Reload()
    return found


def test_a_step_is_told_the_same_way_in_the_file_and_as_curves(tmp_path):
    with logs(tmp_path) as found:
        train(found, 1, 4)
        found.log_epoch(1, 4, {"text_loss": 2.5, "audio_loss": 1.25})
    *steps, validation = records(tmp_path)
    assert [record["step"] for record in steps] == [1, 2, 3, 4]
    assert steps[1] == {
        "kind": "train",
        "epoch": 1,
        "step": 2,
        "loss": 2.0,
        "text_loss": 3.0,
        "audio_loss": 1.0,
        "gradient_norm": 1.5,
        "learning_rate": 1e-4,
        "clips_per_second": 2.0,
        "audio_seconds_per_second": 4.0,
        "data_wait_share": 0.25,
        "memory_bytes": steps[1]["memory_bytes"],
        "progress": steps[1]["progress"],
    }
    assert steps[1]["memory_bytes"] > 1 << 20
    left = steps[1]["progress"].pop("seconds_left")
    assert steps[1]["progress"] == {"epochs": 2, "epoch_step": 2, "epoch_steps": 4}
    assert 0 <= left < 60
    assert validation == {"kind": "validation", "epoch": 1, "step": 4, "text_loss": 2.5, "audio_loss": 1.25}
    shown = curves(tmp_path)
    for record in (*steps, validation):
        for name, value in record.items():
            if name not in ("kind", "epoch", "step", "progress"):
                points = {p.step: p.value for p in shown.Scalars(f"{record['kind']}/{name}")}
                assert points[record["step"]] == pytest.approx(value, rel=1e-6)


def test_what_a_run_does_between_steps_is_in_the_file_and_on_no_curve(tmp_path):
    with logs(tmp_path) as found:
        train(found, 1, 4)
        found.log_phase(1, 4, "judging")
        train(found, 5, 5)
    rows = records(tmp_path)
    assert rows[4] == {"kind": "phase", "epoch": 1, "step": 4, "phase": "judging"}
    assert [row["kind"] for row in rows] == ["train"] * 4 + ["phase", "train"]
    assert not any("phase" in tag for tag in curves(tmp_path).Tags()["scalars"])


def test_a_step_has_the_figures_of_an_extra(tmp_path):
    with logs(tmp_path, step_figures=lambda rows, seconds: {"mfu": seconds / 10}) as found:
        found.log_step(a_step(result(1), 0.5), result(1), 2.0)
    (record,) = records(tmp_path)
    assert record["mfu"] == pytest.approx(0.2)


def test_the_console_tells_first_last_and_what_is_left(tmp_path, caplog):
    with logs(tmp_path) as found:
        found.remaining.conclusion_seconds = 106.0
        train(found, 1, 4)  # of 2 s each; 7 more remain, and the judging
    lines = [message for message in caplog.messages if message.startswith("epoch")]
    assert len(lines) == 2  # not every step: LOG_EVERY=10
    assert lines[0].startswith("epoch 1/2  step 1/4  audio loss 2.000  text loss 3.000")
    assert lines[0].endswith("left 0:02:00")
    assert "step 4/4" in lines[1]


def test_a_skipped_step_names_its_clips_and_writes_no_nan(tmp_path, caplog):
    with logs(tmp_path) as found:
        skipped = result(1, math.nan)
        found.log_step(a_step(skipped, names=["clip_7", "clip_9"]), skipped, 1.0)
    assert "clip_7, clip_9" in caplog.text
    record = records(tmp_path)[0]
    assert record["loss"] is None and record["skipped_clips"] == ["clip_7", "clip_9"]
    assert "NaN" not in (tmp_path / "output" / "metrics.jsonl").read_text()


def test_after_a_resume_no_step_stands_twice(tmp_path, monkeypatch):
    # Within a second, TensorBoard numbers the files of a process and reads them in the order of
    # their names: .10 before .9. A resumed run is another process.
    monkeypatch.setattr("tensorboard.summary.writer.event_file_writer._global_uid", AtomicCounter(0))
    with logs(tmp_path) as found:
        train(found, 1, 7)
    with (tmp_path / "output" / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "step": 3, "lo')  # killed within a line
    with logs(tmp_path, first_step=4) as found:  # the newest checkpoint is of step 4
        train(found, 5, 8)
    assert [record["step"] for record in records(tmp_path)] == list(range(1, 9))
    points = curves(tmp_path).Scalars("train/loss")
    assert [point.step for point in points] == list(range(1, 9))


def test_cutting_back_leaves_a_sound_file_alone(tmp_path):
    path = tmp_path / "metrics.jsonl"
    cut_back(path, 5)
    assert not path.exists()
    path.write_text('{"step": 1}\n{"step": 5}\n')
    before = path.stat()
    cut_back(path, 5)
    after = path.stat()  # not the access time, which reading changes
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    cut_back(path, 1)
    assert path.read_text() == '{"step": 1}\n'


def test_a_full_disk_costs_records_and_not_the_run(tmp_path, caplog, monkeypatch):
    with logs(tmp_path) as found:
        train(found, 1, 1)
        with monkeypatch.context() as patched:
            full_after(patched, 20)
            train(found, 2, 3)
        train(found, 4, 4)
    told = [message for message in caplog.messages if "No space left" in message]
    assert len(told) == 1 and told[0].startswith("metrics.jsonl") and "Training continues" in told[0]
    # The half line is removed, so the lines before and after it can be read.
    assert [record["step"] for record in records(tmp_path)] == [1, 4]


def test_curves_come_back_with_the_space(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("train.metrics.curves.STEPS_BEFORE_ANOTHER", 3)
    with logs(tmp_path) as found:
        train(found, 1, 1)

        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(found._curves._writer, "add_scalar", full)
        train(found, 2, 2)
        assert found._curves._writer is None
        train(found, 3, 6)
    told = [message for message in caplog.messages if "No space left" in message]
    assert len(told) == 1 and told[0].startswith("The curves")
    assert [record["step"] for record in records(tmp_path)] == [1, 2, 3, 4, 5, 6]
    assert curves(tmp_path).Scalars("train/loss")[-1].step == 6


@pytest.mark.parametrize("where", ["output", "runs"])
def test_a_place_that_cannot_be_written_is_told_at_the_start(tmp_path, where):
    (tmp_path / where).touch()
    with pytest.raises(WriteError, match="could not be written") as raised:
        logs(tmp_path)
    assert raised.value.exit_code == 2


def sidecar(epoch: int, mode: str, similarity: float | None = None) -> SampleSidecar:
    seconds = None if mode == "skipped" else 1.0
    return SampleSidecar(epoch, "abc", "hello", "cpu", mode, "", seconds, seconds, 24_000, similarity)


def tone(samples: int) -> torch.Tensor:
    """A sine of 3 kHz at 24 kHz."""
    return torch.sin(torch.arange(samples) * (2 * math.pi * 3000 / 24_000))


def test_a_sample_is_heard_and_seen(tmp_path):
    run = RunFolder(tmp_path / "output")
    for what in ("output", "reference"):
        encoding.write_wav(run.samples / f"epoch_3_{what}.wav", 0.5 * tone(24_000))
    with logs(tmp_path) as found:
        found.log_sample(3, sidecar(3, "cpu_subprocess", 0.75))
        found.log_sample(4, sidecar(4, "skipped"))
    shown = curves(tmp_path)
    for what in ("output", "reference"):
        (heard,) = shown.Audio(f"sample/{what}")
        assert (heard.step, heard.sample_rate) == (3, 24_000.0)
        (seen,) = shown.Images(f"sample/{what}_spectrogram")
        assert (seen.step, seen.height) == (3, 513)
    (likeness,) = shown.Scalars("sample/similarity")
    assert likeness.value == 0.75


def test_the_base_is_the_first_point_of_a_curve_whichever_epoch_is_judged_first(tmp_path):
    """With SAVE_EVERY=2, epoch 1 is never judged."""
    told, verdict = verdict_of(base(), candidate(facts(2, lost=0.3), epoch=2))
    found = Evaluation("", "en", {}, "set", {}, {}, {}, list(told.values()), verdict)
    with logs(tmp_path) as shown:
        shown.log_evaluation(found, found.candidates[1])
    assert [point.step for point in curves(tmp_path).Scalars("evaluation/voice")] == [0, 2]


def test_a_spectrogram_is_brightest_where_the_tone_is():
    picture = spectrogram(tone(24_000))
    assert picture.shape[:2] == (1, 513)
    assert 0.0 <= float(picture.min()) and float(picture.max()) <= 1.0
    row = int(picture.sum(0).mean(1).argmax())
    assert 512 - row == 3000 * 1024 // 24_000  # low frequencies at the bottom
    assert torch.isfinite(spectrogram(torch.zeros(10))).all()


def test_tensorboard_answers_with_the_runs_scalars_and_ends_with_it(tmp_path):
    with logs(tmp_path) as found:
        train(found, 1, 3)
    board = TensorBoard(tmp_path / "runs", free_port(16_006, "127.0.0.1"))
    with contextlib.closing(board):
        assert answers(board)
        points, pid = _shown(board, "scalars", "train/audio_loss", 3), board._child.pid
    assert [(step, loss) for _, step, loss in points] == [(1, 2.0), (2, 1.0), (3, pytest.approx(2 / 3))]
    assert gone(pid)
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", board.port))


def test_tensorboard_plays_every_sample_and_shows_every_picture(tmp_path):
    """With TensorBoard's default loader, which classifies a tag by its first value."""
    epochs = 12  # more than TensorBoard's default of ten
    run = RunFolder(tmp_path / "output")
    with logs(tmp_path) as found:
        for epoch in range(1, epochs + 1):
            for what in ("output", "reference"):
                encoding.write_wav(run.samples / f"epoch_{epoch}_{what}.wav", 0.5 * tone(2_400))
            found.log_sample(epoch, sidecar(epoch, "cpu_subprocess"))
    server = TensorBoard(tmp_path / "runs", free_port(16_106, "127.0.0.1"))
    with contextlib.closing(server):
        assert answers(server)
        for what in ("output", "reference"):
            for one in _shown(server, "audio", f"sample/{what}", epochs):
                assert _fetched(server, f"audio/individualAudio?{one['query']}")[:4] == b"RIFF"
            for one in _shown(server, "images", f"sample/{what}_spectrogram", epochs):
                assert _fetched(server, f"images/individualImage?{one['query']}")[1:4] == b"PNG"
        tags = json.loads(_fetched(server, "audio/tags"))["."]
        assert sorted(tags) == ["sample/output", "sample/reference"]


def answers(server: TensorBoard) -> bool:
    """Waits until it answers over HTTP; False if it died or took too long."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + 60
    while time.monotonic() < end and server._child.code is None:
        with contextlib.suppress(OSError), direct.open(server.address, timeout=2):
            return True
        time.sleep(0.25)
    return False


def _shown(server: TensorBoard, plugin: str, tag: str, count: int) -> list[Any]:
    """TensorBoard's values for a tag, once it has read the files."""
    query = urllib.parse.urlencode({"run": ".", "tag": tag, "sample": 0})
    path = {"scalars": "scalars/scalars", "audio": "audio/audio", "images": "images/images"}[plugin]
    found: list[Any] = []
    for _ in range(100):
        with contextlib.suppress(urllib.error.HTTPError):  # 404 until it has read the files
            found = json.loads(_fetched(server, f"{path}?{query}"))
        if len(found) == count:
            break
        time.sleep(0.1)
    assert len(found) == count, (plugin, tag, found)
    return found


def _fetched(server: TensorBoard, path: str) -> bytes:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(f"{server.address}/data/plugin/{path}") as answer:
        return answer.read()


def test_a_taken_port_is_not_waited_for(caplog, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = TensorBoard(tmp_path / "runs", port)
        server.close()
    assert server.port > port
    assert f"Port {port} is in use. TensorBoard uses {server.port}." in caplog.messages


def test_a_tensorboard_that_does_not_start_is_told_at_once(caplog, tmp_path, monkeypatch):
    monkeypatch.setattr(tensorboard_server, "module_command", lambda *_: ("sh", "-c", "exit 1"))
    with contextlib.closing(TensorBoard(tmp_path / "runs", 36_006)):
        end = time.monotonic() + 20
        while "did not start" not in caplog.text and time.monotonic() < end:
            time.sleep(0.01)
    assert "TensorBoard did not start. `make tensorboard` shows why." in caplog.messages


@pytest.mark.slow
def test_tensorboard_dies_with_a_run_that_is_killed(tmp_path):
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(f"""
            import time
            from pathlib import Path
            from train.metrics.tensorboard_server import TensorBoard
            server = TensorBoard(Path({str(tmp_path)!r}), 26006)
            print(server._child.pid, flush=True)
            time.sleep(60)
        """),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(pid)


@pytest.mark.slow
def test_logging_imports_neither_tensorflow_nor_matplotlib():
    code = (
        "import sys, train.metrics.logs; from torch.utils.tensorboard import SummaryWriter; "
        "sys.exit(any(name in sys.modules for name in ('tensorflow', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Steps are reported at once if reading their numbers is free, else together at the log interval


def taken(step: int, result: StepResult | DeferredStepResult) -> TrainedStep:
    return TrainedStep(1, step, step, a_batch(), result, 0.0, 0.1, [])


def deferred(step: int) -> DeferredStepResult:
    return DeferredStepResult(torch.tensor([float(step), 0.5]), 1e-4)


Told = list[tuple[int, float, float]]


def some_metrics(log_every: int) -> tuple[DeferredMetrics, list[int], Told]:
    """Metrics that record how many steps are read at a time, and each step's number, loss and
    seconds."""
    looks: list[int] = []
    told: Told = []

    def read(steps: list[DeferredStepResult]) -> list[StepResult]:
        looks.extend([len(steps)] if steps else [])
        return [StepResult({}, *one.numbers.tolist(), one.learning_rate, True) for one in steps]

    def step(one: TrainedStep, result: StepResult, took: float) -> None:
        told.append((one.step, result.loss, took))

    learner, logs = SimpleNamespace(read_deferred=read), SimpleNamespace(log_step=step)
    return DeferredMetrics(learner, logs, log_every), looks, told


def test_what_is_known_is_told_at_once():
    metrics, looks, told = some_metrics(log_every=10)
    metrics.add(taken(1, StepResult({}, 3.0, 0.5, 1e-4, True)))
    assert [one[:2] for one in told] == [(1, 3.0)] and looks == []


def test_the_device_is_looked_at_once_an_interval_and_no_step_is_lost():
    metrics, looks, told = some_metrics(log_every=4)
    for step in range(1, 11):
        metrics.add(taken(step, deferred(step)))
        assert len(told) == step // 4 * 4
    for _ in range(2):
        metrics.flush()  # an epoch ends or is stopped
        assert looks == [4, 4, 2]
        assert [one[:2] for one in told] == [(step, float(step)) for step in range(1, 11)]


def test_what_happens_between_two_intervals_is_no_steps_time(monkeypatch):
    """A validation of 1,000 s follows the third of four steps of 2 s."""
    now = 0.0
    monkeypatch.setattr("train.metrics.logs.time.perf_counter", lambda: now)
    metrics, _, told = some_metrics(log_every=100)
    for step in range(1, 5):
        now += 2.0
        metrics.add(replace(taken(step, deferred(step)), step_seconds=2.0))
        if step == 3:
            metrics.flush()
            now += 1000.0
    metrics.flush()
    assert [seconds for *_, seconds in told] == [2.0] * 4


def test_all_settings_are_kept_with_the_curves(tmp_path):
    with logs(tmp_path) as found:
        found.log_settings({"SEED": "5", "DEVICE": "auto"})
    shown = EventAccumulator(str(tmp_path / "runs")).Reload()
    (kept,) = shown.Tensors("settings/text_summary")
    assert b"| SEED | 5 |" in kept.tensor_proto.string_val[0]
