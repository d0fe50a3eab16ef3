"""Decides where a sample is spoken: in process, GPU or CPU subprocess.

All functions are pure.

in_process       on a GPU that passed the check, beside the model that trains there
gpu_subprocess   on a GPU that can speak, if it is not reliable beside training or if training
                 runs on the CPU
cpu_subprocess   in all other cases; beside a training GPU it overlaps the next epoch
skipped          SAMPLE_DEVICE=off, or three failures in a row
"""

from dataclasses import dataclass, replace

from machine.devices import cuda_errors
from machine.devices.cuda_errors import DeviceFault, NotFinite
from machine.devices.health import GpuHealth, Outcome
from machine.devices.selection import Environment, distrusted, gpu_at, passed
from machine.errors import SotaqueError
from xtts.inference.compute_config import ComputeConfig
from xtts.workers.failures import WorkerFailed


@dataclass(frozen=True)
class SamplingPlan:
    """Where and how samples are spoken, and the reason.

    overlap: the next epoch does not wait; beside_gpu: training runs on a GPU; exclusive:
    that GPU lets no second process in.
    """

    mode: str
    compute: ComputeConfig
    reason: str
    overlap: bool = False
    beside_gpu: bool = False
    exclusive: bool = False

    @property
    def device(self) -> str:
        """Where it is spoken, as a sidecar says."""
        return "none" if self.mode == "skipped" else self.compute.device

    @property
    def words(self) -> str:
        """Where it is spoken, for the log."""
        if self.mode == "skipped":
            return "none"
        where = "the CPU" if self.device == "cpu" else self.device
        return f"on {where}" + (", in a process of its own" if self.subprocess else "")

    @property
    def subprocess(self) -> bool:
        """Whether a worker speaks."""
        return self.mode.endswith("subprocess")


def plan(
    machine: Environment, wish: str, training_device: str, wanted: ComputeConfig
) -> SamplingPlan:
    """Where to speak on this machine. wish: SAMPLE_DEVICE; training_device: cpu or cuda:N; wanted:
    what is asked for on whatever device."""
    own = gpu_at(machine, training_device)
    beside_gpu = training_device.startswith("cuda")
    named = gpu_at(machine, wish)
    if wish == "off":
        return SamplingPlan("skipped", wanted, "SAMPLE_DEVICE=off")
    if wish == "cpu":
        return _on_cpu(wanted, "SAMPLE_DEVICE=cpu", beside_gpu)
    if ":" in wish:
        if named is None:
            return _on_cpu(wanted, f"SAMPLE_DEVICE={wish}, but there is no such GPU", beside_gpu)
        machine = replace(machine, gpus=(named,))
    if own and own in machine.gpus and own.speaks() and not own.surprise:
        return _on(own, wanted, "in_process", passed(own), own)
    if gpu := _for_worker(machine, own):
        return _on(gpu, wanted, "gpu_subprocess", _why_worker(gpu, own), own)
    but = f"SAMPLE_DEVICE={wish}, but " if wish.startswith("cuda") else ""
    return _on_cpu(wanted, but + _why_cpu(machine, own), beside_gpu)


def after_fault(plan: SamplingPlan, failure: WorkerFailed) -> SamplingPlan | None:
    """Where to speak after a fault; None if no other place can help.

    It goes one step down at a time: first without the part that failed, then in another process,
    then on the CPU.
    """
    if plan.device == "cpu" or not failure.elsewhere:
        return None
    why = f"speaking on {plan.device} ({plan.mode}) failed: {failure.first_line}"
    compute, fault = plan.compute, failure.fault
    library = fault.part if fault and fault.outcome is Outcome.BUILD else ""
    if library == "fft" and compute.mel_device != "cpu":
        on_cpu = replace(compute, mel_device="cpu")
        return replace(plan, compute=on_cpu, reason=f"{why}; the speaker's mel is on the CPU")
    without = replace(compute, cudnn=compute.cudnn and library != "convolution")
    # Not in process: it would change the convolutions of training too.
    if without != compute and plan.mode == "gpu_subprocess":
        return replace(plan, compute=without, reason=f"{why}; without cuDNN")
    if plan.mode == "in_process" and not plan.exclusive and not failure.transient:
        return replace(plan, mode="gpu_subprocess", compute=without, reason=why)
    return _on_cpu(compute, why, plan.beside_gpu)


def failure_of(error: Exception, poison: str = "") -> WorkerFailed:
    """The WorkerFailed of an error in speaking, without its stack frames.

    poison: the device's error when it is checked again.
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

    Out-of-memory does not count, nor a device that the plan does not use.
    """
    if not plan.device.startswith("cuda") or not failure.elsewhere:
        return False
    return failure.fault is None or failure.fault.outcome not in (Outcome.TRANSIENT, Outcome.DATA)


def _for_worker(machine: Environment, own: GpuHealth | None) -> GpuHealth | None:
    """The best GPU for a separate process, if any allows one."""
    return min(
        (
            gpu
            for gpu in machine.gpus
            if gpu.speaks_in_own_process() and not (gpu is own and gpu.exclusive)
        ),
        key=lambda gpu: (not gpu.speaks(), bool(gpu.surprise), bool(gpu.verdict)),
        default=None,
    )


def _on(
    gpu: GpuHealth, wanted: ComputeConfig, mode: str, reason: str, own: GpuHealth | None
) -> SamplingPlan:
    return SamplingPlan(
        mode, wanted.on(gpu), reason, overlap=own is not None and gpu is not own,
        beside_gpu=own is not None, exclusive=gpu is own and gpu.exclusive,
    )  # fmt: skip


def _on_cpu(wanted: ComputeConfig, reason: str, beside_gpu: bool) -> SamplingPlan:
    return SamplingPlan("cpu_subprocess", wanted.on_cpu(), reason, beside_gpu, beside_gpu)


def _why_worker(gpu: GpuHealth, own: GpuHealth | None) -> str:
    if not gpu.speaks():
        return f"{gpu.name} passed only without foreign libraries: {gpu.verdict}"
    if gpu is own:
        return f"{gpu.name} is not reliable beside training: {gpu.surprise}"
    where = f"{own.name} (cuda:{own.index})" if own else "the CPU"
    return f"{passed(gpu)}; training runs on {where}"


def _why_cpu(machine: Environment, own: GpuHealth | None) -> str:
    if not machine.gpus:
        return machine.gpu_hint or "no GPU on this machine"
    gpu = own if own and own in machine.gpus else machine.gpus[0]
    if gpu is own and gpu.exclusive and gpu.speaks_in_own_process():
        why = gpu.surprise or gpu.verdict
        return f"{gpu.name} allows one process, and that is the training; beside it: {why}"
    return distrusted(gpu)
