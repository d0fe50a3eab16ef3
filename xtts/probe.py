"""The child process that really runs operations on each GPU: allocation, FFT, convolution, matrix
product, attention, drawing, a training step, at shapes that XTTS uses, compared with the CPU.

A driver fault may kill or hang whoever touches it, so the parent only starts the child, waits with
a limit and reads one JSON line. Run as `python -m xtts.probe`.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

LIMIT_SECONDS = 60.0
# Relative to the norm of the CPU's result, in float32 with TF32 off.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Gpu:
    """One CUDA device. verdict: "" when the probe ran everything, else its reason."""

    index: int
    name: str
    capability: tuple[int, int]
    total_bytes: int
    verdict: str = ""


def probe(command: tuple[str, ...] = (), limit_seconds: float = LIMIT_SECONDS) -> tuple[Gpu, ...]:
    """What the child found; a child that dies or hangs is a verdict, never an error."""
    child = subprocess.Popen(
        command or (sys.executable, "-m", "xtts.probe"),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    try:
        output, errors = child.communicate(timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        # In a driver call a process cannot be killed; waiting for it would hang us too.
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=5.0)
        return (_unusable(f"the check hung for {limit_seconds:g} s."),)
    if child.returncode < 0:
        name = signal.strsignal(-child.returncode)
        return (_unusable(f"the check was ended by {name}. {_last_line(errors)}"),)
    try:
        return tuple(
            Gpu(**{**found, "capability": tuple(found["capability"])})
            for found in json.loads(output.strip().splitlines()[-1])
        )
    except (IndexError, ValueError, TypeError):
        return (_unusable(f"the check failed. {_last_line(errors)}"),)


def _unusable(reason: str) -> Gpu:
    return Gpu(0, "the GPU", (0, 0), 0, reason)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def main() -> int:
    """Looks at every device and prints what was found as one JSON line."""
    import torch

    found: list[dict[str, Any]] = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        found.append(
            {
                "index": index,
                "name": properties.name,
                "capability": [properties.major, properties.minor],
                "total_bytes": properties.total_memory,
                "verdict": verdict(f"cuda:{index}"),
            }
        )
    print(json.dumps(found), flush=True)
    return 0


def verdict(device: str) -> str:
    """ "" when every operation on `device` equals the CPU's, else the first that does not."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    for name, operation in operations().items():
        try:
            ours, reference = operation(device).cpu(), operation("cpu")
        except Exception as error:
            return f"{name}: {(str(error).splitlines() or [type(error).__name__])[0]}"
        distance = float((ours - reference).norm() / reference.norm())
        if not distance <= TOLERANCE:
            return f"{name} is off by {distance:.1e}, allowed is {TOLERANCE:g}."
    return ""


def operations() -> dict[str, "Callable[[str], torch.Tensor]"]:
    """What XTTS asks of a device, each `device -> tensor`, the same numbers on each."""
    import torch
    from torch.nn import functional as F

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=torch.Generator().manual_seed(0))

    def fft(device: str) -> torch.Tensor:
        window = torch.hamming_window(400, device=device)
        sound = numbers(1, 96_000).to(device)
        return torch.stft(sound, 512, 160, 400, window, return_complex=True).abs()

    def convolution(device: str) -> torch.Tensor:
        return F.conv1d(numbers(1, 256, 96).to(device), numbers(64, 256, 7).to(device))

    def matrix_product(device: str) -> torch.Tensor:
        return numbers(64, 1024).to(device) @ numbers(1024, 256).to(device)

    def attention(device: str) -> torch.Tensor:
        queries = numbers(1, 16, 300, 64).to(device)
        return F.scaled_dot_product_attention(queries, queries, queries, is_causal=True)

    def drawing(device: str) -> torch.Tensor:
        certain = F.one_hot(torch.tensor(5), 1026).float().to(device)
        return torch.multinomial(certain, 1).float()

    def training_step(device: str) -> torch.Tensor:
        weight = numbers(32, 64).to(device).requires_grad_()
        loss = F.cross_entropy(numbers(8, 64).to(device) @ weight.t(), torch.arange(8).to(device))
        loss.backward()
        assert weight.grad is not None
        return weight.grad

    found = (fft, convolution, matrix_product, attention, drawing, training_step)
    return {operation.__name__.replace("_", " "): operation for operation in found}


if __name__ == "__main__":
    sys.exit(main())
