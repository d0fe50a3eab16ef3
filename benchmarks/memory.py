"""`python -m benchmarks memory` counts the smallest card that each way of training needs.

It takes two steps on one clip of 11.6 s, the longest that Coqui's recipe allows. On a GPU the peak
is torch's own counter. Without one, every tensor that a step makes is counted on the CPU, and half
a gigabyte for a CUDA context is added.
"""

import argparse
import gc
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks import synthetic
from train.checkpointing.checkpoints import tensor_bytes
from train.optim.trainable import TrainableParts
from train.step import train_step
from xtts.model.shapes import CODE_RATE, SAMPLES_PER_CODE, GPTShape

CLIP_SECONDS = 11.6
TEXT_IDS = 160
CONDITIONING_FRAMES = 517
# A CUDA context with torch's kernels, published as 0.4 to 0.5 GB.
CONTEXT_BYTES = 500_000_000
SMALL = GPTShape(text_ids=200, text_start=198, layers=4, width=128, heads=4)


# Each way of training: the trained part of the model, and the optimizer.
MODES = {
    "GRADIENT_CHECKPOINTING=off": (TrainableParts(), "adamw"),
    "GRADIENT_CHECKPOINTING=on": (TrainableParts(recompute=True), "adamw"),
    "OPTIMIZER=adamw8bit": (TrainableParts(recompute=True), "adamw8bit"),
    "LORA_RANK=16": (TrainableParts(lora_rank=16), "adamw"),
    "LORA_RANK=16 with checkpointing": (TrainableParts(lora_rank=16, recompute=True), "adamw"),
}


@dataclass(frozen=True)
class Measured:
    """Sizes in bytes of one mode, and the number of weights that learn."""

    settings: str
    learning: int
    weights_bytes: int
    states_bytes: int
    peak_bytes: int
    card_bytes: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--full", action="store_true", help="XTTS-v2's size")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """One row for each mode."""
    method, precision = "counted on a CPU", "bf16"
    if torch.cuda.is_available():
        method = f"measured on {torch.cuda.get_device_name()}"
    elif not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        precision = "fp32"
    shape = synthetic.FULL_SHAPE if arguments.full else SMALL
    measurements = [measure(shape, mode, precision) for mode in MODES]
    return {
        "how": method,
        "precision": precision,
        "modes": {mode.settings: mode_figures(mode) for mode in measurements},
    }


def mode_figures(mode: Measured) -> dict[str, float]:
    """The figures of a mode: weights in millions, sizes in GB."""
    return {
        "learning_millions": round(mode.learning / 1e6, 1),
        "peak_gb": round(mode.peak_bytes / 1e9, 2),
        "card_gb": round(mode.card_bytes / 1e9, 2),
    }


class Allocations(TorchDispatchMode):
    """`with` counts tensors where they are made: `live_bytes` now, `peak_bytes` so far.

    It counts the results of every operation, each storage once, from its creation to its last
    reference. It does not count memory that a kernel allocates and frees inside, nor fragmentation.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live_bytes = 0
        self.peak_bytes = 0
        self._seen: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def hold(self, tensors: Iterable[Tensor]) -> None:
        """Counts existing tensors: the weights."""
        for tensor in tensors:
            self._see(tensor)

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._see(leaf)
        return result

    def _see(self, tensor: Tensor) -> None:
        if type(tensor) not in (Tensor, torch.nn.Parameter):
            return  # a wrapper: another operation has made the tensors inside
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address in self._seen:
            return
        size = storage.nbytes()

        def forget(_: object) -> None:
            self.live_bytes -= size
            self._seen.pop(address, None)

        self._seen[address] = weakref.ref(storage, forget)
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)


def measure(shape: GPTShape, mode: str, precision: str) -> Measured:
    """Measures the second of two steps, when the optimizer's states exist."""
    on_gpu = torch.cuda.is_available()
    (learning, optimizer), device = MODES[mode], "cuda" if on_gpu else "cpu"
    learner = synthetic.new_learner(shape, precision, device, optimizer=optimizer, trainable=learning)
    codes = int(CLIP_SECONDS * CODE_RATE / SAMPLES_PER_CODE)
    batch = synthetic.noise_batch(shape, [(TEXT_IDS, codes, CONDITIONING_FRAMES)], CLIP_SECONDS)
    gc.collect()
    if on_gpu:
        peak = gpu_peak(lambda: [train_step(learner, batch) for _ in range(2)])
    else:
        with Allocations() as counted:
            counted.hold(learner.gpt.state_dict().values())
            for _ in range(2):
                train_step(learner, batch)
        peak = counted.peak_bytes
    return Measured(
        settings=mode,
        learning=sum(weight.numel() for weight in learner.weights.trainable),
        weights_bytes=sum(tensor.nbytes for tensor in learner.gpt.state_dict().values()),
        states_bytes=tensor_bytes(learner.optimizer.state_dict()),
        peak_bytes=peak,
        card_bytes=peak + CONTEXT_BYTES,
    )


def gpu_peak(work: Callable[[], object]) -> int:
    """The allocator's peak during some work, including memory in use before. The garbage of the
    previous mode is collected first, and not counted."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    work()
    return int(torch.cuda.max_memory_allocated())
