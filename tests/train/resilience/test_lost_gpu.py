"""GPU faults during training and speech, in whole runs of a tiny model: training continues bit for
bit, or exits with 70 and resumes bit for bit at the next start."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from machine.devices import recovery
from machine.devices.recovery import GpuLost
from machine.errors import SotaqueError
from tests.train.test_run import Workshop, assert_same_end, losses
from train import setup, step
from train.resilience.lost_gpu import lost_gpu
from train.sampling import sampler
from train.sampling.sampler import Sampler, SamplingPlan
from train.step import Learner
from xtts.inference.compute_config import ComputeConfig
from xtts.voices.run_folder import RunFolder
from xtts.workers import tasks
from xtts.workers.file_worker import Worker
from xtts.workers.requests import SpeakRequest

QUICK, FAULTY = "tests.xtts.workers.quick_worker", "tests.xtts.workers.faulty_worker"
EPOCHS = 2


def accelerator_error(code: int) -> Exception:
    error = torch.AcceleratorError(f"CUDA error: number {code}\nCUDA kernel errors might be …")
    error.error_code = code
    return error


# --- the message


@pytest.mark.parametrize(
    ("error", "says", "words", "reported"),
    [
        (accelerator_error(710), "", "CUDA error: number 710. Nothing was saved from it", True),
        (accelerator_error(700), "dead", "CUDA error: number 700. Nothing was saved", True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), "", "EXECUTION_FAILED.", True),
        (KeyError("x"), "CUDA error: unspecified launch failure", "unspecified launch", True),
        (torch.OutOfMemoryError("CUDA out of memory."), "", "does not have enough memory", False),
        (torch.OutOfMemoryError("CUDA out of memory."), "dead", "Nothing was saved from it", True),
    ],
)
def test_a_lost_gpu_says_how_to_go_on(gpu_says, error, says, words, reported):
    gpu_says[0] = says
    told: list[tuple[str, str]] = []
    with pytest.raises(GpuLost) as found, lost_gpu("cuda:0", lambda *one: told.append(one)):
        raise error
    assert words in str(found.value) and "the same command again" in str(found.value)
    assert str(found.value).startswith("cuda:0") and "\n" not in str(found.value)
    assert found.value.exit_code == 70 and found.value.__cause__ is error
    assert [device for device, _ in told] == ["cuda:0"] * reported


@pytest.mark.parametrize(
    "error",
    [
        KeyError("gpt.x"),
        SotaqueError("A sentence."),
        GpuLost("Told already."),
        KeyboardInterrupt(),
        RuntimeError("Argument #4: Padding size should be less than the corresponding input"),
    ],
)
def test_what_is_no_fault_of_the_gpu_passes(gpu_says, error):
    told: list[Any] = []
    with pytest.raises(type(error)) as found, lost_gpu("cuda:0", lambda *one: told.append(one)):
        raise error
    assert found.value is error and not told


def test_the_cpu_is_not_lost_for_want_of_memory():
    with pytest.raises(MemoryError), lost_gpu("cpu"):
        raise MemoryError


# --- whole runs


@pytest.fixture(scope="module")
def straight(workshop: Workshop) -> RunFolder:
    """Two epochs without a fault and without a sample."""
    return workshop.run("straight", EPOCHS)


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The faults reported to the cache of GPU checks; this machine's cache is not touched."""
    told: list[tuple[str, str]] = []
    for function in (Sampler.__init__, lost_gpu.__wrapped__):
        keywords = function.__kwdefaults__ or {}
        if "report" in keywords:
            monkeypatch.setitem(keywords, "report", lambda *one: told.append(one))
        else:
            monkeypatch.setattr(function, "__defaults__", (lambda *one: told.append(one),))
    return told


def sidecars(run: RunFolder) -> list[dict[str, Any]]:
    paths = [run.samples / f"epoch_{epoch}_output.json" for epoch in range(1, EPOCHS + 1)]
    return [json.loads(path.read_text()) for path in paths]


# fault -> the code at the start of the sidecar's reason, and words in the reason.
SAMPLER_FAULTS = {
    "cuFFT error: CUFFT_INVALID_SIZE": ("gpu_fault", "CUFFT_INVALID_SIZE"),
    "700": ("gpu_fault", "CUDA error: number 700"),
    "710": ("gpu_fault", "CUDA error: number 710"),
    "gpu memory": ("out_of_memory", "CUDA out of memory"),
    "memory": ("out_of_memory", "ran out of memory"),
    "SIGSEGV": ("crashed", "SIGSEGV"),
    "SIGKILL": ("killed", "SIGKILL"),
    "hang": ("hang", "was still speaking after 2 s"),
    "nan": ("not_finite", "waveform is not finite"),
}


FAULTS = [
    pytest.param(worker, fault, marks=pytest.mark.slow)
    for worker, faults in (
        ("quick", ("cuFFT error: CUFFT_INVALID_SIZE", "710", "SIGKILL", "hang")),
        ("real", SAMPLER_FAULTS),
    )
    for fault in faults
]


@pytest.mark.parametrize(("worker", "fault"), FAULTS)
def test_training_goes_on_bit_for_bit_when_samples_fail(
    workshop, straight, monkeypatch, caplog, worker, fault
):
    """With a worker without a model, and with the real one."""

    def quick(chosen: SamplingPlan, *_: object, **__: object) -> Worker:
        return Worker(Path("base"), chosen.compute, module=QUICK)

    if worker == "quick":
        monkeypatch.setattr(sampler, "new_speaker", quick)
    else:
        monkeypatch.setitem(Worker.__init__.__kwdefaults__, "module", FAULTY)
    if fault == "hang":
        monkeypatch.setattr(sampler, "SPEAK_TIMEOUT_SECONDS", 2.0)
    monkeypatch.setenv("SOTAQUE_WORKER_FAULT", fault)
    name = f"{worker}-{list(SAMPLER_FAULTS).index(fault)}"
    run = workshop.run(name, EPOCHS, SAMPLE_DEVICE="cpu", SAMPLE_TEXT="One.")
    assert_same_end(straight, run, EPOCHS)
    code, words = SAMPLER_FAULTS[fault]
    for told in sidecars(run):
        assert told["mode"] == "skipped" and told["audio_seconds"] is None
        assert told["reason"].startswith(f"{code}: ") and words in told["reason"]
    assert f"No sample of epoch 2 ({code})" in caplog.text and words in caplog.text
    assert not list(run.samples.glob("*_output.wav"))


@pytest.mark.slow
def test_after_a_fault_the_next_sample_is_spoken(workshop, straight, monkeypatch, reports):
    """The FFT fails once in process: only the mel moves to the CPU, and the epoch is spoken."""
    mel_devices: list[str] = []

    class Fails(sampler.InProcessSpeaker):
        def __init__(self, base: Path, compute: ComputeConfig) -> None:
            super().__init__(base, replace(compute, device="cpu", mel_device="cpu"))
            self.mel_device = compute.mel_device

        def ask(self, request: Any, *more: Any) -> Any:
            if isinstance(request, SpeakRequest):  # not the evaluation's requests
                mel_devices.append(self.mel_device)
                if self.mel_device != "cpu":
                    raise RuntimeError("cuFFT error: CUFFT_INVALID_SIZE")
            return super().ask(request, *more)

    compute = ComputeConfig("cuda:0", "cuda:0")
    chosen = SamplingPlan("in_process", compute, "passed", trains_on_gpu=True)
    monkeypatch.setattr(sampler, "sampling_plan", lambda *_: chosen)
    monkeypatch.setattr(sampler, "InProcessSpeaker", Fails)
    monkeypatch.setattr(recovery, "remaining_fault", lambda _device: "")
    run = workshop.run("mel", EPOCHS, SAMPLE_TEXT="One.")
    assert_same_end(straight, run, EPOCHS)
    # The fault, its repetition, the second epoch, and the best weights at the end of the run.
    assert mel_devices == ["cuda:0", "cpu", "cpu", "cpu"]
    for told in sidecars(run):
        assert told["mode"] == "in_process" and "CUFFT_INVALID_SIZE" in told["reason"]
    assert reports == [("cuda:0", "cuFFT error: CUFFT_INVALID_SIZE")]


@pytest.mark.slow
@pytest.mark.parametrize("code", [700, 710])
def test_a_dead_context_while_speaking_ends_the_run_and_the_next_goes_on(
    workshop, straight, monkeypatch, capfd, reports, code
):
    def dies(*_: object) -> None:
        raise accelerator_error(code)

    name = f"dead-{code}"
    with monkeypatch.context() as patched:
        chosen = SamplingPlan("in_process", ComputeConfig(), "a test")
        patched.setattr(sampler, "sampling_plan", lambda *_: chosen)
        patched.setattr(tasks, "speak", dies)
        run = workshop.run(name, EPOCHS, expect=70, SAMPLE_TEXT="One.")
        told = capfd.readouterr().err
        assert f"number {code}" in told and "Give the same command again" in told
        # The epoch saved before the sample is intact, and its sidecar explains the missing sample.
        assert run.epochs() == [1] and run.newest_verified().epoch == 1
        sidecar = json.loads((run.samples / "epoch_1_output.json").read_text())
        assert sidecar["mode"] == "skipped" and f"number {code}" in sidecar["reason"]
    assert_same_end(straight, workshop.run(name, EPOCHS), EPOCHS)


def failing_step(at: int, errors: list[Exception]) -> Callable[..., Any]:
    """A step whose gradients fail with each of `errors` in turn."""
    real = step.forward_backward

    def backward(learner: Learner, batch: Any) -> Any:
        if learner.step == at and errors:
            # Fail after some gradients exist: a half-done step must not count.
            real(learner, batch)
            raise errors.pop(0)
        return real(learner, batch)

    return backward


@pytest.mark.parametrize("code", [pytest.param(700, marks=pytest.mark.slow), 710])
def test_a_sticky_error_in_a_step_saves_nothing_exits_70_and_goes_on(
    workshop, straight, monkeypatch, capfd, reports, code
):
    steps = [step for kind, _, step, *_ in losses(straight) if kind == "train"]
    name, at = f"step-{code}", len(steps) - 2
    with monkeypatch.context() as patched:
        patched.setattr(step, "forward_backward", failing_step(at, [accelerator_error(code)] * 2))
        run = workshop.run(name, EPOCHS, expect=70)
    told = capfd.readouterr().err
    assert told.strip().count("\n") == 0 and f"number {code}" in told and "DEVICE=cpu" in told
    assert run.epochs() == [1] and not run.interrupted.exists()
    assert reports == []  # a CPU's faults are not reported
    assert_same_end(straight, workshop.run(name, EPOCHS), EPOCHS)


def test_a_gpu_that_is_lost_since_its_check_ends_the_start_with_70(workshop, monkeypatch, capfd, reports):
    def lost(_device: str) -> None:
        raise accelerator_error(999)

    monkeypatch.setattr(setup.current_gpu, "make_current", lost)
    workshop.run("stale", EPOCHS, expect=70)
    assert "number 999" in capfd.readouterr().err


def test_short_memory_in_a_step_costs_one_more_try_and_no_bit(workshop, straight, monkeypatch, caplog):
    errors: list[Exception] = [torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GB")]
    monkeypatch.setattr(step, "forward_backward", failing_step(3, errors))
    run = workshop.run("short", EPOCHS)
    assert not errors and "is repeated after: CUDA out of memory" in caplog.text
    assert_same_end(straight, run, EPOCHS)
