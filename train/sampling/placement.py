"""Decides where a sample is spoken: in process, GPU or CPU subprocess.

All functions are pure.

in_process       on the training GPU, if it passed the check
gpu_subprocess   on a GPU that can speak, if it is not reliable while it trains or if training
                 runs elsewhere
cpu_subprocess   in all other cases; overlaps the next epoch if a GPU trains
skipped          SAMPLE_DEVICE=off, or three failures in a row
"""

from dataclasses import dataclass, replace

from machine.devices import cuda_errors
from machine.devices.cuda_errors import DeviceFault, NotFinite
from machine.devices.health import Outcome
from machine.devices.recovery import step_down
from machine.devices.selection import Environment, Place, choose_place
from machine.errors import SotaqueError
from xtts.inference.compute_config import ComputeConfig
from xtts.workers.failures import WorkerFailed


@dataclass(frozen=True)
class SamplingPlan:
    """Where and how samples are spoken, and the reason.

    overlap: the next epoch does not wait; beside_gpu: training runs on a GPU.
    """

    mode: str
    compute: ComputeConfig
    reason: str
    overlap: bool = False
    beside_gpu: bool = False

    @property
    def device(self) -> str:
        """The device that speaks, for the sidecar."""
        return "none" if self.mode == "skipped" else self.compute.device

    @property
    def words(self) -> str:
        """The device that speaks, for the log."""
        if self.mode == "skipped":
            return "none"
        where = "the CPU" if self.device == "cpu" else self.device
        return f"on {where}" + (", in a separate process" if self.subprocess else "")

    @property
    def subprocess(self) -> bool:
        """Whether a worker speaks."""
        return self.mode.endswith("subprocess")


def plan(machine: Environment, wish: str, training_device: str, wanted: ComputeConfig) -> SamplingPlan:
    """Where to speak on this machine. wish: SAMPLE_DEVICE; training_device: cpu or cuda:N; wanted:
    the configuration apart from the device."""
    beside_gpu = training_device.startswith("cuda")
    if wish == "off":
        return SamplingPlan("skipped", wanted, "SAMPLE_DEVICE=off")
    place = choose_place(machine, wish, "SAMPLE_DEVICE", prefer=training_device)
    gpu = machine.gpu(place.value)
    if gpu is None:
        return _on_cpu(wanted, place, beside_gpu)
    compute, reason = wanted.at(place), place.reason
    if gpu.device != training_device:
        reason += f"; training runs on {training_device if beside_gpu else 'the CPU'}"
        return SamplingPlan("gpu_subprocess", compute, reason, beside_gpu, beside_gpu)
    if gpu.surprise:
        reason = f"{gpu.name} is not reliable while it trains: {gpu.surprise}"
        return SamplingPlan("gpu_subprocess", compute, reason, beside_gpu=True)
    return SamplingPlan("in_process", compute, reason, beside_gpu=True)


def after_fault(plan: SamplingPlan, failure: WorkerFailed) -> SamplingPlan | None:
    """Where to speak after a fault; None if no other place can help.

    Each fault of a GPU leads one step down: first without cuFFT or cuDNN if that failed, then in
    another process (not for lack of memory), then on the CPU.
    """
    if plan.device == "cpu" or not failure.elsewhere:
        return None
    why = f"speaking on {plan.device} ({plan.mode}) failed: {failure.first_line}"
    at = plan.compute
    here = Place(at.device, why, at.mel_device, at.cudnn)
    below, mode = step_down(here, why, failure.fault), plan.mode
    moved_mel = below.value == here.value and below.cudnn == here.cudnn
    if mode == "in_process" and not moved_mel and not failure.transient:
        # cuDNN can be turned off only in another process, without changing training.
        mode, below = "gpu_subprocess", here if below.value == "cpu" else below
    if below.value == "cpu":
        return _on_cpu(at, below, plan.beside_gpu)
    return replace(plan, mode=mode, compute=at.at(below), reason=below.reason)


def failure_of(error: Exception, poison: str = "") -> WorkerFailed:
    """Converts an error in speaking to a WorkerFailed without its stack frames.

    poison: the error of the device when it was checked again; "" if it works.
    """
    if isinstance(error, WorkerFailed) and not poison:
        return error.with_traceback(None)
    sentence, known = str(error) or type(error).__name__, cuda_errors.classify(error)
    if poison:
        code = known.code if known and known.sticky else None
        dead = DeviceFault(Outcome.STICKY, "context", code, poison)
        return WorkerFailed("gpu_fault", sentence, dead)
    if isinstance(error, NotFinite):
        return WorkerFailed("not_finite", sentence)
    if isinstance(error, SotaqueError):
        return WorkerFailed("error", sentence, elsewhere=False)
    return WorkerFailed("error", sentence, known)


def surprising(plan: SamplingPlan, failure: WorkerFailed) -> bool:
    """Whether the GPU check should have predicted this failure.

    Out-of-memory does not count, nor does a failure on the CPU.
    """
    if not plan.device.startswith("cuda") or not failure.elsewhere:
        return False
    return failure.fault is None or failure.fault.outcome not in (Outcome.TRANSIENT, Outcome.DATA)


def _on_cpu(wanted: ComputeConfig, place: Place, beside_gpu: bool) -> SamplingPlan:
    return SamplingPlan("cpu_subprocess", wanted.at(place), place.reason, beside_gpu, beside_gpu)
