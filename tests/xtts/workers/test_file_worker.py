"""The worker may crash, hang or run out of memory; its parent always gets an answer or a reason."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import soundfile
import torch

from machine.devices import recovery
from machine.devices.health import Outcome
from machine.errors import SotaqueError
from machine.storage.checksums import sha256_of
from tests.processes import gone
from tests.processes import open_files as open_files
from xtts import audio, encoding
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model import loading as model
from xtts.workers.failures import WorkerFailed, answer_to_error, failure_from_answer, failure_from_exit
from xtts.workers.file_worker import Worker
from xtts.workers.requests import SpeakRequest, TunedVoice

HELLO = SynthesisRequest("hello", "en", 1)
QUICK = "tests.xtts.workers.quick_worker"


@pytest.fixture
def worker() -> Iterator[Worker]:
    with contextlib.closing(Worker(Path("base"), ComputeConfig(), module=QUICK)) as opened:
        yield opened


def request(folder: Path, text: str = "hello") -> SpeakRequest:
    voice = TunedVoice(folder / "reference.wav")
    return SpeakRequest(SynthesisRequest(text, "en"), voice, folder / "out.wav")


def failure(worker: Worker, asked: SpeakRequest, timeout_seconds: float = 30.0) -> WorkerFailed:
    with pytest.raises(WorkerFailed) as caught:
        worker.ask(asked, timeout_seconds)
    return caught.value


def test_start_does_not_wait_and_prints_do_not_break_the_protocol(worker, tmp_path):
    begun = time.monotonic()
    worker.start()
    assert time.monotonic() - begun < 0.2
    first = worker.pid
    for _ in range(2):
        spoken = worker.ask(request(tmp_path), 30)
        assert (spoken.audio_seconds, spoken.device, spoken.similarity) == (0.1, "cpu", 0.5)
    assert worker.pid == first  # warm: the same process spoke both
    assert soundfile.info(tmp_path / "out.wav").samplerate == 24_000
    worker.close()
    assert first is not None and gone(first)


def test_a_refusal_is_an_answer_and_the_child_lives_on(worker, tmp_path):
    failed = failure(worker, request(tmp_path, "refuse"))
    assert (failed.reason_code, str(failed)) == ("refused", "The reference is silent.")
    assert worker.pid is not None


@pytest.mark.parametrize(
    ("fault", "reason_code", "words", "outcome"),
    [
        ("exit 7", "crashed", "exit status 7. Its last line: the last words", None),
        ("SIGSEGV", "crashed", "SIGSEGV", None),
        ("SIGKILL", "killed", "SIGKILL", None),
        ("memory", "out_of_memory", "ran out of memory", Outcome.TRANSIENT),
        pytest.param(
            "gpu memory",
            "out_of_memory",
            "Tried to allocate 2.00 GiB",
            Outcome.TRANSIENT,
            marks=pytest.mark.slow,
        ),
        ("cuFFT error: CUFFT_INVALID_SIZE", "gpu_fault", "CUFFT_INVALID_SIZE", Outcome.BUILD),
        pytest.param(
            "700",
            "gpu_fault",
            "failed on cpu: CUDA error: number 700.",
            Outcome.STICKY,
            marks=pytest.mark.slow,
        ),
        ("a mistake of ours", "crashed", "Its last line: RuntimeError: a mistake of ours", None),
    ],
)
def test_a_fault_is_told_and_the_next_call_has_a_new_child(
    monkeypatch, worker, tmp_path, fault, reason_code, words, outcome
):
    exits = fault.startswith("exit")
    monkeypatch.setenv("SOTAQUE_WORKER_FAULT", "" if exits else fault)
    failed = failure(worker, request(tmp_path, fault))
    assert failed.reason_code == reason_code
    assert words in str(failed)
    assert (failed.fault.outcome if failed.fault else None) is outcome
    assert worker.pid is None  # its CUDA context is not used again
    monkeypatch.delenv("SOTAQUE_WORKER_FAULT")
    assert worker.ask(request(tmp_path), 30).audio_seconds == 0.1


def test_a_refusal_by_a_dead_gpu_is_a_fault(monkeypatch):
    says = [""]
    monkeypatch.setattr(recovery, "remaining_fault", lambda _device: says[0])
    error = SotaqueError("The reference is silent.")
    for says[0], code in (("", "refused"), ("CUDA error: unspecified launch failure", "gpu_fault")):
        answer = answer_to_error(error, "cuda:0")
        assert answer is not None and answer["reason_code"] == code
    told = failure_from_answer(json.loads(json.dumps(answer)))
    assert told.fault is not None and told.fault.sticky and "launch failure" in str(told)
    says[0] = ""
    assert answer_to_error(KeyError("a mistake of ours"), "cpu") is None


def test_how_a_child_is_to_compute_is_passed_on(tmp_path):
    compute = ComputeConfig("cpu", precision="bf16", cudnn=False)
    with contextlib.closing(Worker(Path("base"), compute, module=QUICK)) as worker:
        message = str(failure(worker, request(tmp_path, "compute")))
    assert message == " ".join(compute.command_line())


@pytest.mark.parametrize("fault", ["hang", "SIGSTOP"])
def test_a_child_that_hangs_is_killed(monkeypatch, worker, tmp_path, fault):
    monkeypatch.setenv("SOTAQUE_WORKER_FAULT", fault)
    worker.start()
    pid = worker.pid
    failed = failure(worker, request(tmp_path), timeout_seconds=0.5)
    assert failed.reason_code == "hang" and "0.5 s" in str(failed)
    assert pid is not None and gone(pid)


@pytest.mark.slow
def test_a_child_that_says_how_far_it_is_does_not_hang(worker, tmp_path):
    """The limit is for silence: a long set of sentences may take longer."""
    began = time.monotonic()
    assert worker.ask(request(tmp_path, "steps 120"), 1.0).audio_seconds
    assert time.monotonic() - began > 1.0


def test_what_a_hanging_child_started_ends_with_it(worker, tmp_path):
    left = tmp_path / "pid"
    failure(worker, request(tmp_path, f"grandchild {left}"), timeout_seconds=2.0)
    assert gone(int(left.read_text()))


@pytest.mark.parametrize(
    ("base", "code", "words"),
    [("slow", "hang", "getting ready"), ("refused", "refused", "model.pth is missing.")],
)
def test_a_child_that_does_not_get_ready_says_why(tmp_path, base, code, words):
    seconds = 0.5 if base == "slow" else 60.0
    made = Worker(Path(base), ComputeConfig(), module=QUICK, start_seconds=seconds)
    with contextlib.closing(made) as worker:
        failed = failure(worker, request(tmp_path))
    assert failed.reason_code == code and words in str(failed)


def test_a_child_killed_between_two_requests_is_replaced(worker, tmp_path):
    worker.ask(request(tmp_path), 30)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    while worker.pid is not None:
        time.sleep(0.01)
    assert worker.ask(request(tmp_path), 30).audio_seconds == 0.1


def test_a_child_tells_how_far_it_is(worker, tmp_path):
    told: list[float] = []
    answer = worker.ask(request(tmp_path, "steps 4"), 30, progress=told.append)
    assert told == [0.25, 0.5, 0.75, 1.0] and answer.audio_seconds == 0.1


@pytest.mark.parametrize("doing", ["when never", "steps 100000"])
def test_a_stop_does_not_wait_for_the_sample(worker, tmp_path, doing):
    begun = time.monotonic()
    with pytest.raises(WorkerFailed) as caught:
        worker.ask(request(tmp_path, doing), 30, lambda: True)
    assert caught.value.reason_code == "interrupted"
    assert time.monotonic() - begun < 5 and worker.pid is None


def test_the_child_dies_with_a_parent_that_is_killed(tmp_path):
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(f"""
            import time
            from pathlib import Path
            from xtts.workers.file_worker import Worker
            from xtts.inference.compute_config import ComputeConfig
            worker = Worker(Path("base"), ComputeConfig(), module={QUICK!r})
            worker.start()
            worker._receive("getting ready", 30, lambda: False, print)
            print(worker.pid, flush=True)
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


def test_death_by_the_kernels_memory_killer():
    assert failure_from_exit(-signal.SIGKILL, "", oom_killed=True).reason_code == "out_of_memory"
    # Another process may have raised the count.
    assert failure_from_exit(-signal.SIGSEGV, "", oom_killed=True).reason_code == "crashed"
    told = failure_from_exit(1, "RuntimeError: [enforce fail at alloc_cpu.cpp:124] can't allocate memory")
    assert told.reason_code == "out_of_memory"
    assert failure_from_exit(-40, "").reason_code == "crashed"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recording") / "reference.wav"
    noise = torch.randn(48_000, generator=torch.Generator().manual_seed(0))
    encoding.write_wav(path, 0.2 * noise, audio.VOCODER_RATE)
    return path


def speaking(base: Path) -> contextlib.closing[Worker]:
    """The worker, started as in a run."""
    return contextlib.closing(Worker(base, ComputeConfig(threads=1), keep_weights=False))


def checkpoint(base: Path, path: Path, change: float) -> Path:
    """Saves the base's GPT with `change` added, as a file that `xtts.voices.run_folder` reads."""
    weights = {
        name: tensor + change
        for name, tensor in model.read_tensors(base / "model.pth").items()
        if name.startswith("gpt.")
    }
    torch.save({"model": weights, "provenance": {}}, path)
    return path


@pytest.mark.slow
def test_the_tiny_model_speaks_with_the_weights_it_is_given(base_folder, recording, tmp_path):
    moved = checkpoint(base_folder, tmp_path / "moved.pt", 0.02)
    broken = checkpoint(base_folder, tmp_path / "broken.pt", float("nan"))
    out, hashes = tmp_path / "out.wav", []
    with speaking(base_folder) as worker:
        for weights in (None, moved, None):
            spoken = worker.ask(SpeakRequest(HELLO, TunedVoice(recording, weights), out), 120)
            assert spoken.audio_seconds == soundfile.info(out).frames / 24_000 > 0
            assert spoken.similarity is not None and -1.001 <= spoken.similarity <= 1.001
            hashes.append(sha256_of(out))
        assert hashes[0] == hashes[2] != hashes[1]
        failed = failure(worker, SpeakRequest(HELLO, TunedVoice(recording, broken), out), 120)
        assert failed.reason_code == "not_finite"
        assert worker.pid is not None


@pytest.mark.slow
def test_all_but_the_new_weights_is_ready_before_anything_is_asked(base_folder, recording, tmp_path):
    """An epoch's sample only waits for its weights and for speech. Imports and frozen parts are
    loaded before the first request, while the first epoch is trained."""
    moved = checkpoint(base_folder, tmp_path / "moved.pt", 0.02)
    began = time.monotonic()
    with speaking(base_folder) as worker:
        worker.start()
        worker._receive("getting ready", 120, lambda: False, print)
        worker._is_ready = True
        ready = time.monotonic()
        mapped = Path(f"/proc/{worker.pid}/maps").read_text(encoding="utf-8")
        assert "libtorch" in mapped and "soundfile" in mapped
        spoken = worker.ask(SpeakRequest(HELLO, TunedVoice(recording, moved), tmp_path / "out.wav"), 120)
        answered = time.monotonic()
    assert spoken.seconds <= answered - ready < ready - began
