"""`python -m benchmarks adapters` measures what adapters of one base take: memory, and time a code.

Four utterances decode together. Of the four rows, none, one or all have an adapter; all have the
same one, or four different ones. The times are of one step, which is a code of each row, in turns
in one process. Then each of the four is decoded alone, and has to say the same bit for bit. Memory
is that of a process of its own: the base, sixteen adapters beside it, and one more model, of which
sixteen would be needed without adapters. Random weights; `--full` is XTTS-v2's size.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks import measuring, synthetic

if TYPE_CHECKING:
    from torch import Tensor

    from xtts.inference.torch_backend import DecodingSlots, TorchUtterance
    from xtts.model.adapter import Adapter
    from xtts.model.gpt import GPT
    from xtts.model.loading import Model

T = TypeVar("T")
ROWS = 4
# Which of four adapters each row has; -1 is none.
CONTESTANTS = {
    "base": (-1, -1, -1, -1),
    "one row with an adapter": (0, -1, -1, -1),
    "four rows with one adapter": (0, 0, 0, 0),
    "four rows with four adapters": (0, 1, 2, 3),
}
_SIZES = "RssAnon"  # without mapped files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    synthetic.add_base_arguments(parser, rounds=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--codes", type=int, default=24, help="codes of each row in a round")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--adapters", type=int, default=16, help="how many stand in memory")
    parser.add_argument("--precision", default="fp32", help="of the base: fp32, int8, int4 or auto")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Times of each contestant, whether each row says what it says alone, and memory."""
    import torch

    from xtts.model.loading import load_model

    torch.set_num_threads(arguments.threads)
    with synthetic.base_model(arguments) as (base, _):
        memory = measuring.ask(
            "benchmarks.adapters", base, arguments.rank, arguments.adapters, arguments.precision
        )
        model = load_model(base, precision=arguments.precision)
        model.gpt.mel_head.bias.data[model.gpt.shape.audio_stop] = -1e4
        adapters = [_random(model.gpt, arguments.rank, seed) for seed in range(ROWS)]
        contestants = {
            name: partial(_step_seconds, model, [adapters[n] if n >= 0 else None for n in wanted],
                          arguments.codes)
            for name, wanted in CONTESTANTS.items()
        }  # fmt: skip
        seen = measuring.in_turns(contestants, arguments.rounds)
        same = _same_alone(model, adapters, arguments.codes)
    return {
        "rounds": arguments.rounds, "codes": arguments.codes, "threads": arguments.threads,
        "rank": arguments.rank, "precision": model.kind, "bit_equal": same,
        "rows": times(seen), "memory": memory,
    }  # fmt: skip


def times(seen: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """Of each contestant, the median of its steps in milliseconds, and the median over the rounds
    of how many times as long it took as the base alone in the same round."""
    return [
        {
            "name": name,
            "step_ms": round(1000 * statistics.median(seconds), 3),
            "times": round(
                statistics.median(own / of for own, of in zip(seconds, seen["base"], strict=True)),
                3,
            ),
            "least_ms": round(1000 * min(seconds), 3),
            "most_ms": round(1000 * max(seconds), 3),
        }
        for name, seconds in seen.items()
    ]


def _random(gpt: "GPT", rank: int, seed: int) -> "Adapter":
    from xtts.model.adapter import Adapter

    return Adapter(gpt, synthetic.random_adapter(gpt.shape, seed, rank), 2.0, "random")


def _entered(
    model: "Model", adapters: "Sequence[Adapter | None]", codes: int
) -> "tuple[DecodingSlots, list[TorchUtterance]]":
    """Slots with an utterance for each adapter, each with its own seed and the first code said."""
    import torch

    from xtts.inference.torch_backend import DecodingSlots, TorchUtterance

    rules = model.config.decoding
    latents, _ = synthetic.voice_latents(model.config.gpt.width)
    text = torch.arange(2, 60)
    slots, said = DecodingSlots(model.gpt, ROWS), []
    for number, adapter in enumerate(adapters):
        random = torch.Generator().manual_seed(number)
        said.append(TorchUtterance(model.gpt, rules, random, codes + 1, adapter=adapter))
        slots.enter(latents, text, said[-1])
    return slots, said


def _step_seconds(model: "Model", adapters: "Sequence[Adapter | None]", codes: int) -> float:
    """Of one step, by so many of them."""
    slots, _ = _entered(model, adapters, codes)

    def steps() -> None:
        for _ in range(codes):
            slots.step()

    return measuring.seconds_of(steps) / codes


def _same_alone(model: "Model", adapters: "Sequence[Adapter]", codes: int) -> bool:
    """Whether each row says, bit for bit, what it says where no other row is in use."""

    def latents(slots: "DecodingSlots", said: "Sequence[TorchUtterance]") -> "list[Tensor]":
        import torch

        while slots.step():
            pass
        return [torch.stack(one.latents) for one in said]

    together = latents(*_entered(model, adapters, codes))
    same = []
    for number, adapter in enumerate(adapters):
        slots, said = _entered(model, adapters, codes)
        for other in range(ROWS):
            if other != number:
                slots.leave(other)
        assert said[number].adapter is adapter
        same.append(bool(together[number].equal(latents(slots, said)[number])))
    return all(same)


def memory(base: Path, rank: int, count: int, precision: str) -> dict[str, float]:
    """In MB: the base's model, so many adapters beside it, and one more GPT in the place of one.
    against: what the base with its adapters takes, as a share of so many models."""
    from xtts.model.loading import load_gpt, load_model, read_tensors
    from xtts.voices import adapter_file

    model, base_mb = _grown(lambda: load_model(base, precision=precision))
    adapters, adapters_mb = _grown(
        lambda: [_random(model.gpt, rank, seed) for seed in range(count)]
    )
    _other, model_mb = _grown(
        lambda: load_gpt(read_tensors(base / "model.pth"), model.config, kind=model.kind)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / adapter_file.NAME
        header = adapter_file.AdapterHeader(rank, 2.0 * rank, {"name": "random", "sha256": "0"})
        tensors = synthetic.random_adapter(model.gpt.shape, 0, rank)
        file = adapter_file.write(path, tensors, header)
        seconds = measuring.seconds_of(lambda: _read(model.gpt, path))
    return {
        "adapters": count, "base_mb": round(base_mb, 1), "adapters_mb": round(adapters_mb, 1),
        "counted_mb": round(sum(one.nbytes for one in adapters) / 1e6, 1),
        "another_model_mb": round(model_mb, 1), "file_mb": round(file.bytes / 1e6, 1),
        "load_seconds": round(seconds, 3),
        "against": round((base_mb + adapters_mb) / (base_mb + (count - 1) * model_mb), 4),
    }  # fmt: skip


def _grown(make: Callable[[], T]) -> tuple[T, float]:
    """What is made, and by how many MB the process grew."""
    before = measuring.memory_bytes(_SIZES)
    made = make()
    return made, (measuring.memory_bytes(_SIZES) - before) / 1e6


def _read(gpt: "GPT", path: Path) -> "Adapter":
    from xtts.model.adapter import Adapter
    from xtts.voices import adapter_file

    header, tensors = adapter_file.read(path)
    return Adapter(gpt, tensors, header.scale, path.name)


if __name__ == "__main__":
    base_, rank_, count_, precision_ = sys.argv[1:]
    print(json.dumps(memory(Path(base_), int(rank_), int(count_), precision_)))
