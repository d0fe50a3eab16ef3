"""The precision of training, by the checks of the hardware."""

from machine.devices.selection import Choice, DeviceError, Environment


def choose_precision(machine: Environment, device: str, wish: str) -> Choice:
    """Chooses the precision.

    `auto` is bf16 if the hardware multiplies it and passed its check. A GPU from compute capability
    8.0 on that failed it gets fp16 if that passed; an older one, such as a T4, gets fp32, because
    nobody has measured training in fp16 there. All else gets fp32.

    Raises DeviceError for fp16 on a CPU.
    """
    gpu = machine.gpu(device)
    failed = gpu.failed if gpu else frozenset()
    if wish == "fp16" and gpu is None:
        raise DeviceError(
            "PRECISION=fp16 is for GPUs. This run is on the CPU, where fp16 is slower than fp32 "
            "and less exact. Set PRECISION=auto."
        )
    if wish != "auto":
        check = f"attention_{wish}"
        although = f", although {check} failed the check" if check in failed else ""
        return Choice(wish, f"PRECISION={wish}{although}")
    if gpu is None:
        if machine.cpu_has_bf16:
            return Choice("bf16", "this CPU multiplies bf16 in hardware")
        return Choice("fp32", "this CPU has no bf16 instructions (AMX or AVX512-BF16)")
    if gpu.capability < (8, 0):
        major, minor = gpu.capability
        return Choice(
            "fp32",
            f"{gpu.name} has compute capability {major}.{minor}, and bf16 needs 8.0; fp16 is not "
            "measured on such a GPU, and PRECISION=fp16 tries it",
        )
    if "attention_bf16" not in failed:
        return Choice("bf16", f"{gpu.name} multiplies bf16 in hardware")
    if "attention_fp16" not in failed:
        return Choice("fp16", f"{gpu.name} failed bf16 and passed fp16")
    return Choice("fp32", f"{gpu.name} failed bf16 and fp16")
