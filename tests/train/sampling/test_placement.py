"""Where a sample is spoken: each state of a GPU, each SAMPLE_DEVICE, each training device."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from machine.devices.cuda_errors import DeviceFault
from machine.devices.health import GpuHealth, Outcome
from tests.machines import GPUS, SOUND, failing, machine
from train.sampling.sampler import SamplingPlan, failure_of, is_surprising, plan_after_fault, sampling_plan
from xtts import audio
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.torch_backend import DecodingError
from xtts.workers.failures import WorkerFailed

# state of the GPU: where to speak while training runs on it, and while training runs on the CPU.
# in = in process, gpu = GPU subprocess, cpu = CPU subprocess; -mel: the speaker's mel on the CPU;
# -dnn: without cuDNN.
PLACES = {
    "sound": ("in", "gpu"),
    "fft": ("in-mel", "gpu-mel"),
    "convolution": ("cpu", "cpu"),
    "convolution, right without cuDNN": ("in-dnn", "gpu-dnn"),
    "bf16": ("in", "gpu"),
    "bf16, right without cuDNN": ("in-dnn", "gpu-dnn"),
    "16 bits": ("in", "gpu"),
    "sampling": ("cpu", "cpu"),
    "train step": ("in", "gpu"),
    "everything": ("cpu", "cpu"),
    "driver": ("cpu", "cpu"),
    "full": ("cpu", "cpu"),
    "dead": ("cpu", "cpu"),
    "hang": ("cpu", "cpu"),
    "surprise": ("gpu", "gpu"),
}
MODES = {"in": "in_process", "gpu": "gpu_subprocess", "cpu": "cpu_subprocess"}


ASKED = ComputeConfig(precision="bf16", guard=False)


def changed(chosen: SamplingPlan, mode: str = "", **compute: Any) -> SamplingPlan:
    return replace(chosen, mode=mode or chosen.mode, compute=replace(chosen.compute, **compute))


@pytest.mark.parametrize("training", ["cuda:0", "cpu"])
@pytest.mark.parametrize("wish", ["auto", "cuda", "cuda:0", "cpu", "off"])
@pytest.mark.parametrize("state", GPUS)
def test_where_a_sample_is_spoken(state, wish, training):
    gpu, beside = GPUS[state], training == "cuda:0"
    found = sampling_plan(machine(gpu), wish, training, ASKED)
    assert PLACES.keys() == GPUS.keys()
    assert (found.compute.precision, found.compute.guard) == ("bf16", False)
    place, _, change = PLACES[state][not beside].partition("-")
    if wish in ("cpu", "off"):
        mode = "skipped" if wish == "off" else "cpu_subprocess"
        assert (found.mode, found.reason) == (mode, f"SAMPLE_DEVICE={wish}")
        assert found.overlaps_training is (wish == "cpu" and beside)
        return
    assert found.mode == MODES[place]
    assert found.device == ("cpu" if place == "cpu" else "cuda:0")
    assert found.compute.mel_device == ("cpu" if place == "cpu" or change == "mel" else "cuda:0")
    assert found.compute.cudnn is (change != "dnn")
    assert found.overlaps_training is (place == "cpu" and beside) and found.trains_on_gpu is beside
    # The reason names the finding of the check or a run, and a SAMPLE_DEVICE that is not used.
    assert gpu.name in found.reason and gpu.reason in found.reason
    assert gpu.surprise in found.reason or not beside
    unfulfilled = wish.startswith("cuda") and place == "cpu"
    assert found.reason.startswith(f"SAMPLE_DEVICE={wish}, but ") is unfulfilled


@pytest.mark.parametrize("wish", ["auto", "cuda"])
def test_no_gpu_is_told(wish):
    found = sampling_plan(machine(), wish, "cpu", ASKED)
    assert (found.mode, found.overlaps_training) == ("cpu_subprocess", False) and "no GPU" in found.reason
    hint = "Write DOCKER_RUNTIME=nvidia into .env."
    assert sampling_plan(machine(hint=hint), wish, "cpu", ASKED).reason.endswith(hint)


SECOND = GpuHealth(1, "RTX 4090", (8, 9), 24 << 30)


@pytest.mark.parametrize(
    ("first", "second", "training", "device", "mode", "overlap"),
    [
        (SOUND, SECOND, "cuda:1", "cuda:1", "in_process", False),
        (failing("fft", "attention_bf16"), None, "cpu", "cuda:0", "gpu_subprocess", False),
        (GPUS["dead"], SECOND, "cuda:0", "cuda:1", "gpu_subprocess", True),
        (GPUS["surprise"], SECOND, "cuda:0", "cuda:1", "gpu_subprocess", True),
        (GPUS["fft"], SECOND, "cpu", "cuda:1", "gpu_subprocess", False),
        (GPUS["driver"], SECOND, "cpu", "cuda:1", "gpu_subprocess", False),
        (GPUS["fft"], replace(GPUS["hang"], index=1), "cpu", "cuda:0", "gpu_subprocess", False),
    ],
)
def test_of_two_gpus(first, second, training, device, mode, overlap):
    found = sampling_plan(machine(*filter(None, (first, second))), "auto", training, ASKED)
    assert (found.device, found.mode, found.overlaps_training) == (device, mode, overlap)
    assert second or found.compute.mel_device == "cpu"


@pytest.mark.parametrize(
    ("wish", "device", "mode", "overlap"),
    [
        ("cuda:0", "cuda:0", "in_process", False),
        ("cuda:1", "cuda:1", "gpu_subprocess", True),
        ("cuda", "cuda:0", "in_process", False),
        ("cuda:7", "cpu", "cpu_subprocess", True),
    ],
)
def test_a_gpu_named_by_its_number_speaks(wish, device, mode, overlap):
    found = sampling_plan(machine(SOUND, SECOND), wish, "cuda:0", ASKED)
    assert (found.device, found.mode, found.overlaps_training) == (device, mode, overlap)
    assert (f"SAMPLE_DEVICE={wish}, but" in found.reason) is (device == "cpu")


def test_a_named_gpu_that_failed_is_not_replaced_by_the_one_that_trains():
    bad = replace(GPUS["dead"], index=1)
    found = sampling_plan(machine(SOUND, bad), "cuda:1", "cuda:0", ASKED)
    assert found.device == "cpu" and bad.reason in found.reason


ON_GPU = replace(ASKED, device="cuda:0", mel_device="cuda:0")
IN = SamplingPlan("in_process", ON_GPU, "", trains_on_gpu=True)
BESIDE = replace(IN, mode="gpu_subprocess")
GPU = replace(BESIDE, trains_on_gpu=False)
CPU = SamplingPlan("cpu_subprocess", ASKED, "no GPU")
FFT = WorkerFailed(
    "error", "cuFFT error: CUFFT_INVALID_SIZE\nand more", DeviceFault(Outcome.BUILD, "fft", None, "")
)
DNN = WorkerFailed("error", "cuDNN error", DeviceFault(Outcome.BUILD, "convolution", None, ""))
FULL = WorkerFailed(
    "out_of_memory", "CUDA out of memory.", DeviceFault(Outcome.TRANSIENT, "memory", None, "")
)
DEAD = WorkerFailed("gpu_fault", "CUDA error", DeviceFault(Outcome.STICKY, "context", 710, ""))
CRASH, HANG = (WorkerFailed("crashed", "The worker ended by SIGSEGV."), WorkerFailed("hang", "The worker…"))
NAN = WorkerFailed("not_finite", "The vocoder's waveform is not finite.")
REFUSED = WorkerFailed("refused", "The reference is silent.")


@pytest.mark.parametrize(
    ("chosen", "failure", "changes"),
    [
        (IN, FFT, {"mel_device": "cpu"}),
        (changed(IN, mel_device="cpu"), FFT, {"mode": "gpu_subprocess"}),
        (BESIDE, FFT, {"mel_device": "cpu"}),
        (IN, DNN, {"mode": "gpu_subprocess", "cudnn": False}),
        (BESIDE, DNN, {"cudnn": False}),
        (changed(BESIDE, cudnn=False), DNN, "cpu"),
        (IN, FULL, "cpu"),
        (BESIDE, FULL, "cpu"),
        (IN, NAN, {"mode": "gpu_subprocess"}),
        (BESIDE, NAN, "cpu"),
        (GPU, DEAD, "cpu"),
        (GPU, CRASH, "cpu"),
        (GPU, HANG, "cpu"),
        *((CPU, failure, None) for failure in (FFT, DNN, FULL, DEAD, CRASH, HANG, NAN, REFUSED)),
        *((chosen, REFUSED, None) for chosen in (IN, BESIDE, GPU)),
    ],
)
def test_where_to_speak_after_a_fault(chosen, failure, changes):
    found = plan_after_fault(chosen, failure)
    if changes is None:
        assert found is None
        return
    assert found is not None
    why = f"speaking on cuda:0 ({chosen.mode}) failed: {failure.first_line}"
    assert found.reason.startswith(why) and "\n" not in found.reason
    if changes == "cpu":
        beside = chosen.trains_on_gpu
        assert found == SamplingPlan(
            "cpu_subprocess", ASKED, why, overlaps_training=beside, trains_on_gpu=beside
        )
    else:
        assert found == replace(changed(chosen, **changes), reason=found.reason)


@pytest.mark.parametrize("failure", [FFT, DNN, FULL, DEAD, CRASH, HANG, NAN])
@pytest.mark.parametrize("chosen", [IN, BESIDE, GPU])
def test_faults_end_somewhere(chosen, failure):
    """One step at a time, at most four to the CPU, and from there no further."""
    steps = [chosen]
    while (following := plan_after_fault(steps[-1], failure)) is not None:
        steps.append(following)
    assert steps[-1].mode == "cpu_subprocess" and len(steps) <= 5


def sticky() -> Exception:
    error = torch.AcceleratorError("CUDA error: device-side assert triggered\nmore")
    error.error_code = 710
    return error


@pytest.mark.parametrize(
    ("error", "poison", "code", "outcome", "elsewhere"),
    [
        (RuntimeError("cuFFT error: CUFFT_INVALID_SIZE"), "", "error", Outcome.BUILD, True),
        (sticky(), "", "error", Outcome.STICKY, True),
        (sticky(), "CUDA error: device-side assert", "gpu_fault", Outcome.STICKY, True),
        (ValueError("a shape"), "CUDA error: unspecified launch failure", "gpu_fault", Outcome.STICKY, True),
        (audio.AudioError("gone"), "CUDA error: unspecified", "gpu_fault", Outcome.STICKY, True),
        (torch.OutOfMemoryError("CUDA out of memory."), "", "error", Outcome.TRANSIENT, True),
        (ValueError("a shape"), "", "error", None, True),
        (DecodingError("not a number"), "", "not_finite", None, True),
        (audio.AudioError("The reference is gone."), "", "error", None, False),
        (WorkerFailed("hang", "…"), "", "hang", None, True),
        (WorkerFailed("refused", "…"), "", "refused", None, False),
        (WorkerFailed("interrupted", "…"), "", "interrupted", None, False),
    ],
)
def test_what_an_error_is(error, poison, code, outcome, elsewhere):
    found = failure_of(error, poison)
    assert (found.reason_code, found.elsewhere) == (code, elsewhere)
    assert (found.fault.outcome if found.fault else None) is outcome
    assert str(found) == str(error)


def test_what_the_check_should_have_foretold():
    assert all(is_surprising(GPU, failure) for failure in (FFT, DNN, DEAD, CRASH, HANG, NAN))
    assert not is_surprising(GPU, FULL) and not is_surprising(GPU, REFUSED)
    assert not any(is_surprising(CPU, failure) for failure in (FFT, DEAD, CRASH))
    data = WorkerFailed("error", "", DeviceFault(Outcome.DATA, "fft", None, ""))
    assert not is_surprising(GPU, data)
