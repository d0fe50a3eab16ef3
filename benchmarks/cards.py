"""`python -m benchmarks memory`: the smallest card that each way of training needs for a clip.

Two steps on one clip of 11.6 s, the longest that Coqui's recipe takes. On a GPU the peak is torch's
own counter; without one every tensor that a step makes is counted on the CPU (`allocations`), and
half a gigabyte for a CUDA context is added to what a card must have.
"""

import gc
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch

from benchmarks.allocations import Allocations
from train.dataset.batches import Batch
from train.learner import Learner, OptimizationConfig
from train.optim.lora import LoraShape
from train.optim.trainable import TrainableParts
from train.trainer import train_step
from xtts.model.gpt import GPT, new_gpt
from xtts.model.packed_batch import pack
from xtts.model.shapes import CODE_RATE, SAMPLES_PER_CODE, GPTShape

CLIP_SECONDS = 11.6
TEXT_IDS = 160
CONDITIONING_FRAMES = 517
# CUDA's context with torch's kernels, measured by others at 0.4 to 0.5 GB.
CONTEXT_BYTES = 500_000_000
FULL = GPTShape(text_ids=6681, text_start=261)
SMALL = GPTShape(text_ids=200, text_start=198, layers=4, width=128, heads=4)
LORA = LoraShape(rank=16, alpha=32)


@dataclass(frozen=True)
class Mode:
    """A way of training, by its settings."""

    settings: str
    learning: TrainableParts
    optimizer: str = "adamw"


MODES = (
    Mode("GRADIENT_CHECKPOINTING=off", TrainableParts()),
    Mode("GRADIENT_CHECKPOINTING=on", TrainableParts(recompute=True)),
    Mode("OPTIMIZER=adamw8bit", TrainableParts(recompute=True), "adamw8bit"),
    Mode("LORA_RANK=16", TrainableParts(lora=LORA)),
    Mode("LORA_RANK=16 with checkpointing", TrainableParts(lora=LORA, recompute=True)),
)


@dataclass(frozen=True)
class Measured:
    """Bytes of one mode; activations: what the peak has beyond what stays between steps."""

    settings: str
    learning: int
    weights_bytes: int
    states_bytes: int
    peak_bytes: int
    card_bytes: int


def show(*, full: bool, as_json: bool, only: int | None) -> int:
    """Prints a line a mode; only: one of them, from 0."""
    shape = FULL if full else SMALL
    modes = MODES if only is None else (MODES[only],)
    how, precision = "counted on a CPU", "bf16"
    if torch.cuda.is_available():
        how = f"measured on {torch.cuda.get_device_name()}"
    elif not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        precision = "fp32"
    found = [measure(shape, mode, precision) for mode in modes]
    if as_json:
        print(json.dumps({"how": how, "precision": precision, "modes": [asdict(m) for m in found]}))
        return 0
    print(f"One clip of {CLIP_SECONDS} s, {precision}, {how}:")
    for one in found:
        print(
            f"{one.settings:34}  learns {one.learning / 1e6:6.1f} M  "
            f"peak {one.peak_bytes / 1e9:6.3f} GB  card {one.card_bytes / 1e9:6.3f} GB"
        )
    return 0


def measure(shape: GPTShape, mode: Mode, precision: str) -> Measured:
    """The second of two steps: the optimizer's states are there then."""
    on_gpu = torch.cuda.is_available()
    gpt = new_gpt(shape, seed=0)
    _drop(gpt, 0.1)
    recipe = OptimizationConfig(
        learning_rate=5e-6, warmup_steps=25, weight_decay=0.01, gradient_clip=1.0,
        text_loss_weight=0.01, audio_loss_weight=1.0, precision=precision, seed=0,
        optimizer=mode.optimizer, learning=mode.learning,
    )  # fmt: skip
    learner = Learner(gpt, recipe, "cuda" if on_gpu else "cpu")
    batch = one_clip(shape)
    gc.collect()
    if on_gpu:
        peak = gpu_peak(lambda: [train_step(learner, batch) for _ in range(2)])
    else:
        with Allocations() as counted:
            counted.hold(learner.gpt.state_dict().values())
            for _ in range(2):
                train_step(learner, batch)
        peak = counted.peak_bytes
    learning = sum(weight.numel() for weight in learner.weights.learning)
    weights = sum(tensor.nbytes for tensor in learner.gpt.state_dict().values())
    return Measured(
        settings=mode.settings,
        learning=learning,
        weights_bytes=weights,
        states_bytes=_bytes(learner.optimizer.state_dict()),
        peak_bytes=peak,
        card_bytes=peak + CONTEXT_BYTES,
    )


def gpu_peak(work: Callable[[], object]) -> int:
    """The allocator's peak over some work and what is held already; what the mode before has left
    is collected first, and not counted."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    work()
    return int(torch.cuda.max_memory_allocated())


def one_clip(shape: GPTShape) -> Batch:
    """The longest clip, of noise."""
    draw = torch.Generator().manual_seed(0)
    codes = int(CLIP_SECONDS * CODE_RATE / SAMPLES_PER_CODE)
    rows = pack(
        [torch.randint(2, shape.text_start, (TEXT_IDS,), generator=draw)],
        [torch.randint(0, shape.audio_start, (codes,), generator=draw)],
        [torch.randn(80, CONDITIONING_FRAMES, generator=draw)],
        shape,
        stop_input=False,
        padded=False,
    )
    return Batch(rows, (0,), CLIP_SECONDS)


def _drop(gpt: GPT, share: float) -> None:
    for module in gpt.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = share


def _bytes(value: object) -> int:
    from train.optim.optimizer import state_bytes

    return state_bytes(value)
