"""`python -m benchmarks distillation` measures what it costs to teach a student of half the layers.

A batch of lessons is heard from the teacher, and learned by the student, in turns in one process:
`extras.distil.learning`, with random weights and lessons of noise as long as usual sentences.
Of these the time of a whole distillation is counted: half an hour of the teacher's speech and as
much of clips. The time in which the teacher speaks is that of any speech (`benchmarks speaking`).
`--full` is XTTS-v2's size.
"""

import argparse
import statistics
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks import measuring, synthetic

# Of a sentence: text ids and codes.
IDS, CODES = 30, 75


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--full", action="store_true", help="XTTS-v2's size, not 4 layers of 256")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", default="bf16", help="of the products: bf16 or fp32")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a batch, memory, and the counted whole."""
    import torch

    from extras.distil import command, learning, lessons
    from extras.distil.lessons import Lesson
    from extras.distil.student import kept_layers, new_student
    from xtts.model.gpt import new_gpt
    from xtts.model.packed_batch import row_length

    torch.set_num_threads(arguments.threads)
    small = replace(synthetic.FULL_SHAPE, layers=4, width=256, heads=4)
    shape = synthetic.FULL_SHAPE if arguments.full else small
    draw = torch.Generator().manual_seed(0)
    length = row_length(IDS, CODES, stop_input=True)
    batch = [
        Lesson(
            torch.randint(2, shape.text_start, (IDS,), generator=draw),
            torch.randint(0, shape.audio_start, (CODES,), generator=draw),
            narrator=0, spoken=True, held_out=False,
        )
        for _ in range(learning.POSITIONS // length)
    ]  # fmt: skip
    voices = torch.randn(1, 32, shape.width, generator=draw)
    teacher = new_gpt(shape, seed=0).requires_grad_(False)
    student = new_student(teacher, kept_layers(shape.layers, None))
    optimizer = learning.optimizer_of(student, learning.LEARNING_RATE)
    taught = learning.taught_by(teacher, batch, voices)
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=arguments.precision == "bf16")
    seen = measuring.in_turns(
        {
            "hearing": partial(_hearing, teacher, batch, voices),
            "learning": partial(
                measuring.seconds_of,
                partial(
                    learning.take_step, student, optimizer, taught, range(len(batch)), autocast
                ),
            ),
        },
        arguments.rounds,
    )
    hearing, step = (statistics.median(seen[name]) for name in ("hearing", "learning"))
    # As many sentences as make so many minutes of the teacher, and of clips.
    batches = 2 * command.MINUTES * lessons.CODES_PER_MINUTE / CODES / len(batch)
    return {
        "rounds": arguments.rounds, "threads": arguments.threads, "precision": arguments.precision,
        "layers": student.shape.layers, "of_layers": shape.layers, "lessons": len(batch),
        "hearing_seconds": round(hearing, 3), "step_seconds": round(step, 3),
        "peak_gb": round(measuring.memory_bytes("VmHWM") / 1e9, 2),
        "hearing_minutes": round(batches * hearing / 60, 1),
        "learning_minutes": round(command.EPOCHS * batches * step / 60, 1),
    }  # fmt: skip


def _hearing(teacher: Any, batch: Any, voices: Any) -> float:
    from extras.distil import learning

    return measuring.seconds_of(lambda: learning.taught_by(teacher, batch, voices))
