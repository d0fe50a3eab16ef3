"""The operations that the probe runs, at XTTS's shapes: matmul, attention, FFT, training step.

An operation has several parts, `ProbePlace -> tensor`, with the same inputs on every device. The
inputs of a 16-bit part are exact in 16 bits, so that float32 on the CPU gives the reference result.
Shapes: XTTS-v2's, from coqui-tts 0.28.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from machine.devices.graph_capture import cuda_graph

# The largest relative L2 distance from the CPU's float32 result (TF32 off) and between two runs.
# The limits come from rounding errors and published comparisons, not from measurements yet:
# `python -m benchmarks gpu --only probe` on a good GPU prints every distance beside its limit.
TOLERANCES: Mapping[str, float] = {
    "allocation": 0.0,
    "resample": 1e-4,
    "fft": 1e-5,
    "convolution": 1e-4,
    "matrix_product": 1e-5,
    "attention_fp32": 1e-4,
    "attention_fp16": 5e-3,
    "attention_bf16": 2e-2,
    "sampling": 1e-5,
    "train_step": 1e-4,
    "graph": 1e-5,
}
AUDIO_IDS = 1026
WIDTH = 1024
HEADS = 16
# With 2,000 draws and odds of 1 to 4 each share lies within 0.05: over four standard deviations.
DRAWS = 2000
SHARE_OFF = 0.05


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
        made = torch.randn(*shape, generator=generator).to(kind)
        return made.float() if self.exact else made.to(self.device)


Part = Callable[[ProbePlace], Tensor]
REFERENCE = ProbePlace("cpu", exact=True)


def operations() -> dict[str, dict[str, Part]]:
    """Operation -> name of a part -> part, in the order of `machine.devices.health.OPERATIONS`."""
    return {
        "allocation": {"16 MiB copied both ways": _round_trip},
        "resample": {"22.05 to 16 kHz": _resample},
        "fft": {
            "512/160, 6 s": lambda at: _power(at, 96_000),
            "512/160, 30 s": lambda at: _power(at, 480_000),
            "1024/256": lambda at: _spectrum(at, 1024, 256, 1024),
            "2048/256": lambda at: _spectrum(at, 2048, 256, 1024),
            "4096/1024": lambda at: _spectrum(at, 4096, 1024, 4096),
            "1000 numbers": lambda at: torch.view_as_real(torch.fft.rfft(at.numbers(1000))),
        },
        "convolution": _convolutions(),
        "matrix_product": {
            "prefill": lambda at: at.numbers(500, WIDTH) @ at.numbers(WIDTH, 4 * WIDTH),
            "next code": lambda at: at.numbers(1, WIDTH) @ at.numbers(WIDTH, 3 * WIDTH),
        },
        "attention_fp32": _attention(torch.float32),
        "attention_fp16": _attention(torch.float16) | _products(torch.float16),
        "attention_bf16": _attention(torch.bfloat16) | _products(torch.bfloat16),
        "sampling": {
            "probabilities": _probabilities,
            "certain draw": _certain_draw,
            "many draws": _many_draws,
        },
        "train_step": {"gradients and weights": _train_step, "overflow": _overflow},
        "graph": {"replay": _graph},
    }


def distance(ours: Tensor, reference: Tensor) -> float:
    """Relative L2 distance; infinite for another shape or a non-finite value."""
    ours, reference = ours.detach().cpu().double(), reference.detach().cpu().double()
    if ours.shape != reference.shape or not bool(torch.isfinite(ours).all()):
        return float("inf")
    return float((ours - reference).norm() / reference.norm().clamp(min=1e-30))


def _round_trip(at: ProbePlace) -> Tensor:
    return (torch.arange(1 << 22, dtype=torch.int32).to(at.device) + 1).cpu()


def _resample(at: ProbePlace) -> Tensor:
    # torchaudio's kernel for 22,050 -> 16,000 Hz: 441 samples in, 320 phases out.
    return F.conv1d(at.numbers(1, 1, 132_300), at.numbers(320, 1, 463), stride=441)


def _power(at: ProbePlace, samples: int) -> Tensor:
    # The STFT of the speaker encoder's mel: 512/160/400 at 16 kHz.
    window = torch.hamming_window(400, device=at.device)
    spectrum = torch.stft(at.numbers(1, samples), 512, 160, 400, window, return_complex=True)
    return spectrum.abs().square()


def _spectrum(at: ProbePlace, size: int, hop: int, window: int) -> Tensor:
    shape = torch.hann_window(window, device=at.device)
    sound = at.numbers(2, 132_300)
    return torch.stft(sound, size, hop, window, shape, return_complex=True).abs()


def _convolutions() -> dict[str, Part]:
    """The vocoder's and the speaker encoder's convolutions: each may load another part of cuDNN."""
    return {
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
        "between codes": lambda at: F.interpolate(
            at.numbers(1, WIDTH, 96), scale_factor=[4.0], mode="linear"
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

    def backward(at: ProbePlace) -> Tensor:
        """The gradient of clips in a padded grid, as in a training step."""
        parts = [at.numbers(3, HEADS, 140, 64, seed=seed, kind=kind) for seed in range(4)]
        q, k, v = (part.requires_grad_() for part in parts[:3])
        # The padding's gradient is zero, as if its rows were left out.
        valid = (torch.arange(140) < torch.tensor([[140], [77], [12]]))[:, None, :, None]
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        (seen * parts[3] * valid.to(at.device)).sum().backward()
        return torch.stack([part.grad.float() for part in (q, k, v) if part.grad is not None])

    checks: dict[str, Part] = {"prefill": prefill, "next code": next_code, "perceiver": perceiver}
    return checks | ({"backward": backward} if kind != torch.float32 else {})


def _products(kind: torch.dtype) -> dict[str, Part]:
    """Other 16-bit operations; a 3 x 3 in bf16 reveals an incomplete cuDNN (pytorch #185512)."""

    def product(at: ProbePlace) -> Tensor:
        return (at.numbers(64, WIDTH, kind=kind) @ at.numbers(WIDTH, 256, kind=kind)).float()

    def convolution(at: ProbePlace) -> Tensor:
        sound = at.numbers(1, 8, 32, 32, kind=kind)
        return F.conv2d(sound, at.numbers(8, 8, 3, 3, kind=kind)).float()

    return {"product": product, "3 x 3": convolution}


def _probabilities(at: ProbePlace) -> Tensor:
    likely, _ = at.numbers(1, AUDIO_IDS).softmax(-1).sort(descending=True)
    return torch.cat((likely, likely.cumsum(-1)), -1)


def _certain_draw(at: ProbePlace) -> Tensor:
    certain = F.one_hot(torch.tensor([5, 1025]), AUDIO_IDS).float().to(at.device)
    return torch.multinomial(certain, 1).float()


def _many_draws(at: ProbePlace) -> Tensor:
    """Whether each share is near its odds: single draws differ between devices."""
    odds = torch.tensor([1.0, 2.0, 3.0, 4.0])
    drawn = torch.multinomial(odds.to(at.device), DRAWS, replacement=True).cpu()
    shares = torch.bincount(drawn, minlength=4)[:4] / DRAWS
    return ((shares - odds / 10).abs() < SHARE_OFF).float()


def _train_step(at: ProbePlace) -> Tensor:
    """Forward, backward and one step of fused AdamW, on about the layers of a block."""
    shapes = ((16, 80, 3), (32, 16), (64, 32))
    kernel, hidden, out = (at.numbers(*shape).mul(0.1).requires_grad_() for shape in shapes)
    seen = F.gelu(F.conv1d(at.numbers(4, 80, 50), kernel, padding=1)).transpose(1, 2)
    seen = F.layer_norm(seen @ hidden.t(), (32,))
    seen = F.scaled_dot_product_attention(seen, seen, seen, is_causal=True)
    wanted = (torch.arange(200) % 64).to(at.device)
    F.cross_entropy((seen @ out.t()).flatten(0, 1), wanted).backward()
    weights = [kernel.detach(), hidden.detach(), out.detach()]
    gradients = [one.grad for one in (kernel, hidden, out) if one.grad is not None]
    first, second = ([torch.zeros_like(one) for one in weights] for _ in range(2))
    steps = [torch.ones((), device=at.device) for _ in weights]
    # The kernel under `torch.optim.AdamW(fused=True)`: importing torch.optim takes 3 to 5 s.
    torch._fused_adamw_(
        weights, gradients, first, second, [], steps, lr=1e-3, beta1=0.9, beta2=0.96,
        weight_decay=0.01, eps=1e-6, amsgrad=False, maximize=False,
    )  # fmt: skip
    return torch.cat([one.flatten() for one in (*gradients, *weights)])


def _graph(at: ProbePlace) -> Tensor:
    """A captured product, replayed on other inputs than it was captured with."""
    weight, first, second = (at.numbers(4, WIDTH), at.numbers(16, 4), at.numbers(16, 4, seed=1))
    if not at.device.startswith("cuda"):
        return F.gelu(second @ weight)
    (output,), replay = cuda_graph(lambda: (F.gelu(first @ weight),), torch.device(at.device))
    first.copy_(second)
    replay()
    return output.clone()


def _overflow(at: ProbePlace) -> Tensor:
    """The gradient scaler's test (fp16): is there an infinite value among the gradients?"""
    flags = []
    for worst in (1.0, float("inf")):
        gradient, seen = at.numbers(64), torch.zeros((), device=at.device)
        gradient[7] = worst
        scale = torch.ones((), device=at.device)
        torch._amp_foreach_non_finite_check_and_unscale_([gradient], seen, scale)
        flags.append(seen)
    return torch.stack(flags)
