"""Which device the next child uses, given a fake machine and past failures."""

from dataclasses import replace
from typing import Any

import pytest

from api.engine.supervision import EngineCondition, RestartHistory, back_off_seconds, next_place
from machine.devices.cuda_errors import DeviceFault
from machine.devices.health import GpuHealth, OperationVerdict, Outcome
from machine.devices.selection import Environment, Place
from xtts.inference.compute_config import ComputeConfig
from xtts.workers.failures import WorkerFailed, failure_from_exit

CPU = Environment(4, False, 8 << 30, False)
GOOD = GpuHealth(0, "RTX", (8, 9), 24 << 30)
AUTO = ComputeConfig("auto")
FRESH = RestartHistory()


def condition(
    actual: Place, asked: ComputeConfig = AUTO, placed: Any = None, problem: str = "", once: bool = True
) -> EngineCondition:
    """An engine condition.

    placed: ONNX Runtime's report of its device, {} for a voice in torch. problem: used as its code
    too.
    """
    return EngineCondition(asked, actual, placed, once, problem, problem, FRESH)


def with_gpu(operation: str = "", outcome: Outcome = Outcome.OK) -> Environment:
    """A machine with a GPU that fails this operation, if any."""
    verdicts = (OperationVerdict(operation, False, reason="bad"),) if operation else ()
    gpu = replace(GOOD, outcome=outcome, reason="it is bad.", operations=verdicts)
    return replace(CPU, gpus=(gpu if operation else GOOD,))


FFT = DeviceFault(Outcome.BUILD, "fft", None, "")
CUDNN = DeviceFault(Outcome.BUILD, "convolution", None, "")


def dead(times: int, device: str = "cuda:0", *faults: DeviceFault) -> RestartHistory:
    history = FRESH
    for fault in faults or [None] * times:
        history = history.with_death(device, WorkerFailed("gpu_fault", "It broke.", fault), 100.0)
    return history


HINT = "DOCKER_RUNTIME=nvidia"


@pytest.mark.parametrize(
    ("machine", "wish", "history", "now", "device", "code", "told"),
    [
        (with_gpu(), "auto", FRESH, 0.0, "cuda:0", "", ""),
        # Until it has died four times in ten minutes.
        (with_gpu(), "auto", dead(3), 200.0, "cuda:0", "", ""),
        (with_gpu(), "auto", dead(4), 200.0, "cpu", "gpu_fault", "4 times in 10 minutes"),
        (with_gpu(), "auto", dead(4), 701.0, "cuda:0", "", ""),
        # Deaths on the CPU do not count against the GPU.
        (with_gpu(), "auto", dead(9, "cpu"), 200.0, "cuda:0", "", ""),
        (
            with_gpu("matrix_product", Outcome.STICKY),
            "auto",
            FRESH,
            0.0,
            "cpu",
            "gpu_failed_check",
            "it is bad",
        ),
        # Bad FFTs: only the mel moves to the CPU.
        (with_gpu("fft", Outcome.DEGRADED), "auto", FRESH, 0.0, "cuda:0", "", ""),
        (CPU, "auto", FRESH, 0.0, "cpu", "", ""),
        (CPU, "cuda", FRESH, 0.0, "cpu", "device_refused", ""),
        (CPU, "cuda:3", FRESH, 0.0, "cpu", "device_refused", ""),
        # A container without access to the GPU: the message gives the missing line.
        (
            replace(CPU, gpu_hint=f"Write {HINT} into .env."),
            "auto",
            FRESH,
            0.0,
            "cpu",
            "gpu_out_of_reach",
            HINT,
        ),
    ],
)
def test_the_next_child_computes_on_a_good_gpu_and_elsewhere_with_the_reason(
    machine, wish, history, now, device, code, told
):
    asked = ComputeConfig(wish)
    chosen = next_place(machine, wish, history, now)
    assert (chosen.value, chosen.code) == (device, code)
    assert chosen.mel_device == ("cpu" if machine == with_gpu("fft", Outcome.DEGRADED) else device)
    speaks = condition(chosen, asked, {})
    assert speaks.message and told in speaks.message
    assert speaks.placement == {
        "device": device,
        "execution_provider": f"torch:{device.partition(':')[0]}",
        "requested_provider": "torch:cuda" if code or device != "cpu" else "torch:cpu",
    }


def test_what_children_died_of_is_left_out_on_the_gpu():
    """Each fault goes one step down the ladder, as in training samples, before the CPU is used."""
    for faults, mel_device, cudnn in (
        ((FFT,), "cpu", True),
        ((CUDNN,), "cuda:0", False),
        ((FFT, CUDNN), "cpu", False),
        ((FFT, FFT), "cpu", True),
    ):
        chosen = next_place(with_gpu(), "auto", dead(0, "cuda:0", *faults), 200.0)
        assert (chosen.value, chosen.mel_device, chosen.cudnn) == ("cuda:0", mel_device, cudnn)
        assert "It broke" in condition(chosen, AUTO, {}).message and chosen.code == ""


def test_starts_that_come_to_nothing_get_rarer_and_speaking_ends_that():
    waits = [back_off_seconds(dead(times, "cpu")) for times in range(9)]
    assert waits == sorted(waits) and waits[0] == 0.0 and waits[-1] == 30.0
    assert sum(waits[:2]) < 1.0  # the first restart is immediate: back within ten seconds
    spoke = dead(9, "cpu").with_success()
    assert back_off_seconds(spoke) == 0.0 and spoke.restarts == 9


@pytest.mark.parametrize(
    ("placed", "once", "problem", "of_place", "state", "code"),
    [
        (None, False, "", "", "starting", "starting"),
        (None, True, "", "", "restarting", "starting"),
        (None, True, "voice_refused", "", "restarting", "starting"),
        ({}, True, "", "", "ready", ""),
        ({}, True, "", "gpu_fault", "degraded", "gpu_fault"),
        ({"reason_code": "missing_library"}, True, "", "gpu_fault", "degraded", "missing_library"),
        ({"reason_code": "missing_library"}, True, "voice_refused", "gpu_fault", "degraded", "voice_refused"),
    ],
)
def test_of_several_reasons_the_code_is_that_of_the_voice_then_of_the_library_then_of_the_gpu(
    placed, once, problem, of_place, state, code
):
    place = Place("cpu", "", code=of_place)
    told = condition(place, placed=placed, problem=problem, once=once)
    assert (told.state, told.reason_code) == (state, code)


def test_where_onnx_runtime_computes_is_told_with_its_reason_or_that_of_the_gpu():
    chosen = next_place(CPU, "cuda", FRESH, 0.0)
    missing = {"device": "cpu", "message": "The CUDA provider misses libcublasLt.so.13."}
    told = condition(chosen, placed=missing).message
    assert "ONNX Runtime computes on cpu" in told and "libcublasLt.so.13" in told
    told = condition(chosen, placed={"device": "cpu", "message": ""}).message
    assert chosen.reason.rstrip(".") in told
    asked = ComputeConfig("auto", backend="onnx")
    assert condition(next_place(CPU, "auto", FRESH, 0.0), asked).placement["requested_provider"] == (
        "onnx:cpu"
    )


def test_an_error_of_ours_is_no_fault_of_the_gpu():
    """Four requests whose text raised once moved the service to the CPU."""
    history, why = FRESH, failure_from_exit(1, "OverflowError in text.py:12")
    for at in range(10):
        history = history.with_death("cuda:0", why, float(at))
    assert history.gpu_deaths == () and history.restarts == 10
    assert failure_from_exit(-11, "").of_device and failure_from_exit(70, "").of_device is False
