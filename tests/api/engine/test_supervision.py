"""Where the next child computes: decided from a made-up machine and what happened."""

from dataclasses import replace
from typing import Any

import pytest

from api.engine.supervision import (
    ComputePlacement,
    EngineCondition,
    RestartHistory,
    back_off,
    place,
)
from machine.devices.health import GpuHealth as GpuFound
from machine.devices.health import OperationVerdict, Outcome
from machine.devices.selection import Environment
from xtts.inference.compute_config import ComputeConfig
from xtts.workers.failures import death

CPU = Environment(4, False, 8 << 30, False)
GOOD = GpuFound(0, "RTX", (8, 9), 24 << 30)
AUTO = ComputeConfig("auto")
# What ONNX Runtime says where it does not compute.
TORCH: dict[str, str] = {}
MACHINE = replace(CPU, gpus=(GOOD,))


def condition(
    found: ComputePlacement, asked: ComputeConfig = AUTO, placed: Any = TORCH, problem: str = "",
    once: bool = True,
) -> EngineCondition:  # fmt: skip
    """Of a voice that stands, where `placed` is not None; problem: also its code."""
    return EngineCondition(asked, found, placed, once, problem, problem, RestartHistory())


def providers(found: ComputePlacement, asked: ComputeConfig = AUTO) -> tuple[str, str]:
    told = condition(found, asked).placement
    return told["requested_provider"], told["execution_provider"]


def dead(times: int, *, at: float = 100.0) -> RestartHistory:
    happened = RestartHistory()
    for _ in range(times):
        happened = happened.died("cuda:0", "cuFFT error.", "gpu_fault", at)
    return happened


def test_a_good_gpu_is_used_until_it_died_four_times_in_ten_minutes() -> None:
    for times in range(4):
        assert place(MACHINE, AUTO, dead(times), 200.0).device == "cuda:0"
    found = place(MACHINE, AUTO, dead(4), 200.0)
    assert (found.device, found.reason_code) == ("cpu", "gpu_fault")
    assert "4 times" in found.reason and "cuFFT" in found.reason
    assert place(MACHINE, AUTO, dead(4), 701.0).device == "cuda:0"


def test_deaths_on_the_cpu_say_nothing_of_the_gpu() -> None:
    happened = RestartHistory()
    for _ in range(9):
        happened = happened.died("cpu", "killed", "killed", 1.0)
    assert place(MACHINE, AUTO, happened, 2.0).device == "cuda:0"


def test_a_gpu_that_fails_the_check_is_not_used_and_the_reason_is_told() -> None:
    bad = replace(
        GOOD, outcome=Outcome.STICKY, reason="the context is dead.",
        operations=(OperationVerdict("matrix_product", False, reason="dead"),),
    )  # fmt: skip
    found = place(replace(CPU, gpus=(bad,)), AUTO, RestartHistory(), 0.0)
    assert (found.device, found.reason_code) == ("cpu", "gpu_failed_check")
    assert providers(found) == ("torch:cuda", "torch:cpu")
    assert "the context is dead" in condition(found).message


def test_bad_ffts_leave_the_gpu_and_the_mel_goes_to_the_cpu() -> None:
    bad = replace(
        GOOD, outcome=Outcome.DEGRADED, reason="cuFFT fails.",
        operations=(OperationVerdict("fft", False, reason="cuFFT fails."),),
    )  # fmt: skip
    found = place(replace(CPU, gpus=(bad,)), AUTO, RestartHistory(), 0.0)
    assert (found.device, found.compute.mel_device) == ("cuda:0", "cpu")


def test_a_machine_without_a_gpu_has_what_was_asked_for() -> None:
    found = place(CPU, AUTO, RestartHistory(), 0.0)
    assert (found.device, found.reason_code) == ("cpu", "")
    assert providers(found) == ("torch:cpu", "torch:cpu")


@pytest.mark.parametrize("wish", ["cuda", "cuda:3"])
def test_a_gpu_that_is_asked_for_and_not_there_is_told(wish: str) -> None:
    found = place(CPU, ComputeConfig(wish), RestartHistory(), 0.0)
    assert (found.device, found.reason_code) == ("cpu", "device_refused")
    assert providers(found, ComputeConfig(wish)) == ("torch:cuda", "torch:cpu")
    assert condition(found).message


def test_a_container_that_was_given_no_gpu_says_which_line_is_missing() -> None:
    machine = replace(CPU, gpu_hint="Write DOCKER_RUNTIME=nvidia into .env.")
    found = place(machine, AUTO, RestartHistory(), 0.0)
    assert found.reason_code == "gpu_out_of_reach"
    assert "DOCKER_RUNTIME=nvidia" in condition(found).message


def test_starts_that_come_to_nothing_get_rarer_and_speaking_ends_that() -> None:
    waits, happened = [], RestartHistory()
    for _ in range(9):
        waits.append(back_off(happened))
        happened = happened.died("cpu", "", "crashed", 0.0)
    assert waits == sorted(waits) and waits[0] == 0.0 and waits[-1] == 30.0
    assert sum(waits[:2]) < 1.0  # the first restart is at once: back within ten seconds
    assert back_off(happened.spoke()) == 0.0
    assert happened.spoke().restarts == 9


@pytest.mark.parametrize(
    ("standing", "once", "code", "problem", "wanted"),
    [
        (False, False, "", "", "starting"),
        (False, True, "", "", "restarting"),
        (True, True, "", "", "ready"),
        (True, True, "gpu_fault", "", "degraded"),
        (True, True, "", "The voice is damaged.", "degraded"),
    ],
)
def test_the_state(standing: bool, once: bool, code: str, problem: str, wanted: str) -> None:
    found = ComputePlacement(ComputeConfig(), "", code)
    placed = {} if standing else None
    assert condition(found, placed=placed, problem=problem, once=once).state == wanted


def test_a_gpu_that_failed_is_told_also_where_onnx_runtime_was_only_given_the_cpu() -> None:
    found = place(CPU, ComputeConfig("cuda"), RestartHistory(), 0.0)
    placed = {"device": "cpu", "message": ""}
    told = condition(found, placed=placed).message
    assert found.reason.rstrip(".") in told and "what was asked for" not in told


@pytest.mark.parametrize(
    ("standing", "problem", "of_onnx", "of_place", "code"),
    [
        (True, "", "", "", ""),
        (True, "", "", "gpu_fault", "gpu_fault"),
        (True, "", "missing_library", "gpu_fault", "missing_library"),
        (True, "voice_refused", "missing_library", "gpu_fault", "voice_refused"),
        (False, "voice_refused", "", "", "starting"),
    ],
)
def test_of_several_reasons_the_code_is_that_of_the_voice_then_of_the_library_then_of_the_gpu(
    standing: bool, problem: str, of_onnx: str, of_place: str, code: str
) -> None:
    found = ComputePlacement(ComputeConfig(), "", of_place)
    placed = {"reason_code": of_onnx} if standing else None
    assert condition(found, placed=placed, problem=problem).reason_code == code


def test_another_backend_than_asked_for_is_told() -> None:
    found = place(CPU, AUTO, RestartHistory(), 0.0)
    placed = {"device": "cpu", "message": "The CUDA provider misses libcublasLt.so.13."}
    told = condition(found, placed=placed).message
    assert "ONNX Runtime computes on cpu" in told and "libcublasLt.so.13" in told
    assert condition(found, placed={"device": "cuda:0", "message": ""}).message
    assert providers(found, ComputeConfig("auto", backend="onnx"))[0] == "onnx:cpu"


def test_an_error_of_ours_is_no_fault_of_the_gpu() -> None:
    """Four requests whose text raised had moved the service to the CPU."""
    happened = RestartHistory()
    for at in range(10):
        why = death(1, "OverflowError in text.py:12")
        happened = happened.died(
            "cuda:0", str(why), why.reason_code, float(at), of_device=why.of_device
        )
    assert happened.gpu_deaths == () and happened.restarts == 10
    assert death(-11, "").of_device and death(70, "").of_device is False
