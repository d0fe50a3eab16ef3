"""The probe's child process: runs each operation on one device and compares it with the CPU.

Run it as `python -m machine.devices.probe_child --device cuda:0`; `--device cpu` needs no GPU. It
writes one JSON object per line, so that the parent knows the operation in which it died or hung:
device or refused, then doing and operation for each operation.

An operation has several parts, `ProbePlace -> tensor`, at XTTS-v2's shapes, with the same inputs on
every device. The inputs of a 16-bit part are exact in 16 bits, so that float32 on the CPU gives the
reference result.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from machine import commands
from machine.devices import cuda_errors
from machine.devices.health import OperationVerdict, Outcome
from machine.process import reserve_stdout, write_json_line
from machine.storage.files import JsonObject
from machine.text import first_line

# The largest relative L2 distance from the CPU's float32 result (TF32 off). The limits come from
# rounding errors and published comparisons; on an H200 the largest distance was an eighth of its
# limit (`python -m benchmarks gpu --only probe`).
TOLERANCES: Mapping[str, float] = {
    "fft": 1e-5,
    "convolution": 1e-4,
    "matrix_product": 1e-5,
    "attention_fp32": 1e-4,
    "attention_fp16": 5e-3,
    "attention_bf16": 2e-2,
    "sampling": 1e-5,
    "train_step": 1e-4,
}
# The operations that run through cuDNN.
USES_CUDNN = frozenset({"convolution", "attention_fp16", "attention_bf16", "train_step"})
BF16_CAPABILITY = [8, 0]
AUDIO_IDS = 1026
WIDTH = 1024
HEADS = 16
# With 2,000 draws and odds of 1 to 4 each share lies within 0.05: over four standard deviations.
NUM_DRAWS = 2000
MAX_SHARE_ERROR = 0.05


def main() -> int:
    """Checks one device; exits with 0 if the check ran to its end, whatever it found."""
    parser = argparse.ArgumentParser(
        prog=commands.program("machine.devices.probe_child"), description=__doc__
    )
    parser.add_argument("--device", required=True)
    device = parser.parse_args().device
    answers = reserve_stdout()
    for event in check(device):
        write_json_line(answers, event)
    return 0


def check(device: str) -> Iterator[JsonObject]:
    """Yields every event of one check as it happens."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    try:
        facts = device_facts(device)
    except Exception as error:
        fault = cuda_errors.classify(error)
        outcome = fault.outcome if fault else Outcome.COULD_NOT_RUN
        reason = f"the GPU cannot be used: {first_line(error)}."
        yield {"event": "refused", "outcome": outcome, "reason": reason}
        return
    yield {"event": "device", **facts}
    for name, parts in operations().items():
        if name == "attention_bf16" and [0, 0] < facts["capability"] < BF16_CAPABILITY:
            continue
        yield {"event": "doing", "operation": name}
        result = verdict(name, parts, device)
        yield {"event": "operation", **asdict(result)}
        if result.outcome is Outcome.STICKY:  # every later operation would fail the same way
            break


def device_facts(device: str) -> JsonObject:
    """The properties of a device. Raises CUDA's own error if the device cannot be used."""
    if not device.startswith("cuda"):
        return {"count": 1, "name": device, "capability": [0, 0], "total_bytes": 0}
    torch.cuda.init()
    properties = torch.cuda.get_device_properties(device)
    return {
        "count": torch.cuda.device_count(),
        "name": properties.name,
        "capability": [properties.major, properties.minor],
        "total_bytes": properties.total_memory,
    }


def verdict(name: str, parts: "Mapping[str, Part]", device: str) -> OperationVerdict:
    """The verdict on an operation; one that fails through cuDNN gets a second try without it."""
    first = _compare(name, parts, device)
    if first.ok or first.outcome is Outcome.STICKY or name not in USES_CUDNN:
        return first
    with torch.backends.cudnn.flags(enabled=False):
        second = _compare(name, parts, device)
    if not second.ok:
        return first
    reason = f"{first.reason} It passes without cuDNN, so Sotaque uses it that way."
    return replace(first, ok=True, reason=reason, cudnn=False)


def _compare(name: str, parts: "Mapping[str, Part]", device: str) -> OperationVerdict:
    """Runs every part on `device` and on the CPU; stops at the first wrong one."""
    for part_name, part in parts.items():
        try:
            error_size = distance(part(ProbePlace(device)), part(REFERENCE))
        except Exception as error:
            fault = cuda_errors.classify(error, cuda_errors.free_bytes(device))
            # The input is known to be valid: an error about data here means a faulty library.
            of_device = fault is not None and fault.outcome is not Outcome.DATA
            outcome = fault.outcome if fault and of_device else Outcome.BUILD
            reason = f"{name} failed ({part_name}): {first_line(error)}."
            return OperationVerdict(name, False, reason, outcome)
        if not error_size <= TOLERANCES[name]:
            deviation = "a non-finite value" if error_size == float("inf") else f"{error_size:.1e}"
            reason = (
                f"{name} differs from the CPU's result by {deviation} ({part_name}); allowed is "
                f"{TOLERANCES[name]:g}."
            )
            return OperationVerdict(name, False, reason, Outcome.DEGRADED)
    return OperationVerdict(name, True)


def distance(ours: Tensor, reference: Tensor) -> float:
    """Relative L2 distance; infinite for another shape or a non-finite value."""
    ours, reference = ours.detach().cpu().double(), reference.detach().cpu().double()
    if ours.shape != reference.shape or not bool(torch.isfinite(ours).all()):
        return float("inf")
    return float((ours - reference).norm() / reference.norm().clamp(min=1e-30))


# --- the operations


@dataclass(frozen=True)
class ProbePlace:
    """Where a part computes.

    Attributes:
        device: "cpu" or "cuda:N".
        exact: Whether 16-bit parts compute in float32.
        seed: Another seed gives other inputs, for measurements.
    """

    device: str
    exact: bool = False
    seed: int = 0

    def numbers(self, *shape: int, seed: int = 0, kind: torch.dtype = torch.float32) -> Tensor:
        """Normally distributed values that depend on shape and seed only, rounded to `kind`."""
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + seed + sum(shape))
        tensor = torch.randn(*shape, generator=generator).to(kind)
        return tensor.float() if self.exact else tensor.to(self.device)


Part = Callable[[ProbePlace], Tensor]
REFERENCE = ProbePlace("cpu", exact=True)


def operations() -> dict[str, dict[str, Part]]:
    """Operation -> name of a part -> part, in the order of `TOLERANCES`."""
    return {
        "fft": {
            # The speaker encoder's mel, of 6 and 30 s at 16 kHz; the DVAE's; the conditioning's.
            "512/160, 6 s": lambda at: _spectrum(at, 512, 160, 400, 96_000),
            "512/160, 30 s": lambda at: _spectrum(at, 512, 160, 400, 480_000),
            "1024/256": lambda at: _spectrum(at, 1024, 256, 1024, 132_300),
            "2048/256": lambda at: _spectrum(at, 2048, 256, 1024, 132_300),
            "4096/1024": lambda at: _spectrum(at, 4096, 1024, 4096, 132_300),
        },
        "convolution": _convolutions(),
        "matrix_product": {
            "prefill": lambda at: at.numbers(500, WIDTH) @ at.numbers(WIDTH, 4 * WIDTH),
            "next code": lambda at: at.numbers(1, WIDTH) @ at.numbers(WIDTH, 3 * WIDTH),
        },
        "attention_fp32": _attention(torch.float32),
        "attention_fp16": _attention(torch.float16) | _sixteen_bits(torch.float16),
        "attention_bf16": _attention(torch.bfloat16) | _sixteen_bits(torch.bfloat16),
        "sampling": {"probabilities": _probabilities, "many draws": _many_draws},
        "train_step": {"gradients and weights": _train_step},
    }


def _spectrum(at: ProbePlace, size: int, hop: int, window: int, samples: int) -> Tensor:
    shape = torch.hann_window(window, device=at.device)
    sound = at.numbers(1, samples)
    return torch.stft(sound, size, hop, window, shape, return_complex=True).abs()


def _convolutions() -> dict[str, Part]:
    """The vocoder's and the speaker encoder's convolutions: each may load another part of cuDNN."""
    return {
        # torchaudio's kernel for 22,050 -> 16,000 Hz: 441 samples in, 320 phases out.
        "22.05 to 16 kHz": lambda at: F.conv1d(
            at.numbers(1, 1, 132_300), at.numbers(320, 1, 463), stride=441
        ),
        "vocoder's first": lambda at: F.conv1d(
            at.numbers(1, WIDTH, 96), at.numbers(512, WIDTH, 7), padding=3
        ),
        "vocoder's upsampling": lambda at: F.conv_transpose1d(
            at.numbers(1, 512, 96), at.numbers(512, 256, 16), stride=8, padding=4
        ),
        "dilated": lambda at: F.conv1d(
            at.numbers(1, 32, 24_576), at.numbers(32, 32, 11), padding=25, dilation=5
        ),
        "speaker's 3 x 3": lambda at: F.conv2d(
            at.numbers(1, 32, 64, 600), at.numbers(32, 32, 3, 3), padding=1
        ),
    }


def _attention(kind: torch.dtype) -> dict[str, Part]:
    """A prefill of 300 tokens, one code after 600 others, and the perceiver's mask."""

    def prefill(at: ProbePlace) -> Tensor:
        q, k, v = (at.numbers(1, HEADS, 300, 64, seed=seed, kind=kind) for seed in range(3))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).float()

    def next_code(at: ProbePlace) -> Tensor:
        k, v = (at.numbers(1, HEADS, 600, 64, seed=seed, kind=kind) for seed in range(2))
        return F.scaled_dot_product_attention(k[:, :, :1], k, v).float()

    def perceiver(at: ProbePlace) -> Tensor:
        q, k = at.numbers(1, 8, 32, 64, kind=kind), at.numbers(1, 8, 300, 64, kind=kind)
        mask = (torch.arange(300) < 250).expand(32, 300).to(at.device)
        return F.scaled_dot_product_attention(q, k, k, attn_mask=mask).float()

    return {"prefill": prefill, "next code": next_code, "perceiver": perceiver}


def _sixteen_bits(kind: torch.dtype) -> dict[str, Part]:
    """Other 16-bit operations; a 3 x 3 in bf16 reveals an incomplete cuDNN (pytorch #185512)."""

    def backward(at: ProbePlace) -> Tensor:
        """The gradient of clips in a padded grid, as in a training step."""
        parts = [at.numbers(3, HEADS, 140, 64, seed=seed, kind=kind) for seed in range(4)]
        q, k, v = (part.requires_grad_() for part in parts[:3])
        # The padding's gradient is zero, as if its rows were left out.
        valid = (torch.arange(140) < torch.tensor([[140], [77], [12]]))[:, None, :, None]
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        (attended * parts[3] * valid.to(at.device)).sum().backward()
        return torch.stack([part.grad.float() for part in (q, k, v) if part.grad is not None])

    def product(at: ProbePlace) -> Tensor:
        return (at.numbers(64, WIDTH, kind=kind) @ at.numbers(WIDTH, 256, kind=kind)).float()

    def convolution(at: ProbePlace) -> Tensor:
        sound = at.numbers(1, 8, 32, 32, kind=kind)
        return F.conv2d(sound, at.numbers(8, 8, 3, 3, kind=kind)).float()

    return {"backward": backward, "product": product, "3 x 3": convolution}


def _probabilities(at: ProbePlace) -> Tensor:
    likely, _ = at.numbers(1, AUDIO_IDS).softmax(-1).sort(descending=True)
    return torch.cat((likely, likely.cumsum(-1)), -1)


def _many_draws(at: ProbePlace) -> Tensor:
    """Whether each share is near its odds: single draws differ between devices."""
    odds = torch.tensor([1.0, 2.0, 3.0, 4.0])
    drawn = torch.multinomial(odds.to(at.device), NUM_DRAWS, replacement=True).cpu()
    shares = torch.bincount(drawn, minlength=4)[:4] / NUM_DRAWS
    return ((shares - odds / 10).abs() < MAX_SHARE_ERROR).float()


def _train_step(at: ProbePlace) -> Tensor:
    """Forward, backward and one step of fused AdamW, on layers like those of a block."""
    shapes = ((16, 80, 3), (32, 16), (64, 32))
    kernel, hidden, out = (at.numbers(*shape).mul(0.1).requires_grad_() for shape in shapes)
    states = F.gelu(F.conv1d(at.numbers(4, 80, 50), kernel, padding=1)).transpose(1, 2)
    states = F.layer_norm(states @ hidden.t(), (32,))
    states = F.scaled_dot_product_attention(states, states, states, is_causal=True)
    targets = (torch.arange(200) % 64).to(at.device)
    F.cross_entropy((states @ out.t()).flatten(0, 1), targets).backward()
    weights = [kernel.detach(), hidden.detach(), out.detach()]
    gradients = [tensor.grad for tensor in (kernel, hidden, out) if tensor.grad is not None]
    first, second = ([torch.zeros_like(tensor) for tensor in weights] for _ in range(2))
    steps = [torch.ones((), device=at.device) for _ in weights]
    # The kernel under `torch.optim.AdamW(fused=True)`: importing torch.optim takes 3 to 5 s.
    torch._fused_adamw_(
        weights,
        gradients,
        first,
        second,
        [],
        steps,
        lr=1e-3,
        beta1=0.9,
        beta2=0.96,
        weight_decay=0.01,
        eps=1e-6,
        amsgrad=False,
        maximize=False,
    )
    return torch.cat([tensor.flatten() for tensor in (*gradients, *weights)])


if __name__ == "__main__":
    sys.exit(main())
