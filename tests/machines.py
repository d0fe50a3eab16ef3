"""GPUs that no test machine has, by name, each with a different fault."""

from dataclasses import replace

from machine.devices.health import GpuHealth, OperationVerdict, Outcome
from machine.devices.selection import Environment

# In the order in which the probe runs them.
OPERATIONS = (
    "fft",
    "convolution",
    "matrix_product",
    "attention_fp32",
    "attention_fp16",
    "attention_bf16",
    "sampling",
    "train_step",
)
SOUND = GpuHealth(
    0, "RTX 3090", (8, 6), 24 << 30, operations=tuple(OperationVerdict(name, True) for name in OPERATIONS)
)


def failing(*bad: str, outcome: Outcome = Outcome.DEGRADED, **others: object) -> GpuHealth:
    """An RTX 3090 on which these operations fail."""
    operations = tuple(
        OperationVerdict(name, name not in bad, f"{name} failed." * (name in bad)) for name in OPERATIONS
    )
    reason = " ".join(f"{name} failed." for name in bad)
    return replace(SOUND, outcome=outcome, operations=operations, reason=reason, **others)  # type: ignore[arg-type]


def without_cudnn(*which: str) -> GpuHealth:
    """An RTX 3090 on which these operations pass only without cuDNN."""
    gpu = failing(*which)
    operations = tuple(
        replace(operation, ok=True, cudnn=operation.name not in which) for operation in gpu.operations
    )
    return replace(gpu, operations=operations)


GPUS: dict[str, GpuHealth] = {
    "sound": SOUND,
    "fft": failing("fft"),
    "convolution": failing("convolution"),
    "convolution, right without cuDNN": without_cudnn("convolution", "train_step"),
    "bf16": failing("attention_bf16"),
    "bf16, right without cuDNN": without_cudnn("attention_bf16"),
    "16 bits": failing("attention_fp16", "attention_bf16"),
    "sampling": failing("sampling"),
    "train step": failing("train_step"),
    "everything": failing(*OPERATIONS, outcome=Outcome.BUILD),
    "driver": GpuHealth(0, "the GPU", (0, 0), 0, Outcome.DRIVER, reason="no driver."),
    "full": failing("fft", outcome=Outcome.TRANSIENT),
    "dead": failing("sampling", outcome=Outcome.STICKY),
    "hang": GpuHealth(0, "RTX 3090", (8, 6), 24 << 30, Outcome.HANG, reason="the check hung."),
    "surprise": replace(SOUND, surprise="CUDA error: an illegal memory access"),
}


def machine(*gpus: GpuHealth, bf16: bool = False, hint: str = "") -> Environment:
    """A machine with eight cores, 32 GB and these GPUs."""
    return Environment(8, bf16, 32 << 30, False, gpus, hint)
