"""The help of `sotaque`: its verbs in groups, and examples."""

from collections.abc import Collection
from dataclasses import dataclass

from machine import console


@dataclass(frozen=True)
class Group:
    """Verbs for one purpose. `sotaque --help` shows the first three examples, and the help of a
    verb shows those of the verb."""

    title: str
    verbs: tuple[str, ...]
    examples: tuple[str, ...]


GROUPS = (
    Group(
        "Speak",
        ("speak", "read"),
        (
            'speak "Good morning."',
            'speak "Good morning." --voice exported/anna --out morning.mp3',
            "read book.epub --to book",
            "speak --reference anna.wav --out - < letter.txt | aplay",
            "read book.epub --to book --plan",
            "read book.epub --to book --voice exported/anna --format m4b,flac",
        ),
    ),
    Group(
        "Prepare clips",
        ("cut", "check", "prepare"),
        (
            "cut tape.mp3 --to clips/anna --text tape.txt",
            "check --dataset-dir clips/anna",
            "prepare --dataset-dir clips/anna",
            "cut tape1.mp3 tape2.mp3 --to clips/anna --recogniser whisper",
            "check --dataset-dir clips/anna --show-text",
            "check --dataset-dir clips/anna --json > clips.json",
        ),
    ),
    Group(
        "Train",
        ("train", "evaluate", "sample", "learn-decoder", "extend", "accent"),
        (
            "train",
            "train --dataset-dir clips/anna --num-epochs 20",
            "evaluate",
            "train --base-model xtts_v2 --dataset-dir clips/anna --output-dir runs/anna",
            "evaluate --json --output-dir runs/anna",
            'sample --epoch 3 --sample-text "Good morning."',
            "learn-decoder --minutes 5",
            "extend --language uk --dataset clips/uk --to bases/uk",
            "accent --person clips/anna --base spoken/base --candidate spoken/anna",
        ),
    ),
    Group(
        "Keep the voice",
        ("export", "import", "distil"),
        (
            "export --to exported/anna",
            "export --to anna.sotaque",
            "import anna.sotaque",
            "export --to exported/anna-onnx --onnx",
            "distil --to exported/small",
            "export --to exported/anna --checkpoint train/output/checkpoints/checkpoint_epoch_4.pt",
        ),
    ),
    Group(
        "Serve",
        ("serve", "studio", "queue", "mcp"),
        ("serve", "serve --voice exported/anna --api-port 8006", "studio", "queue --once", "mcp"),
    ),
    Group(
        "Look at this machine",
        ("doctor", "monitor", "explain"),
        ("doctor", "monitor --log machine.csv", "explain model.onnx --run", "doctor --fix-hints"),
    ),
    Group(
        "The shell",
        ("completion",),
        (
            "completion bash > ~/.local/share/bash-completion/completions/sotaque",
            "completion zsh > ~/.zfunc/_sotaque",
            'eval "$(sotaque completion bash)"',
        ),
    ),
)
_MAX_EXAMPLES = 3


def overview() -> str:
    """The page of `sotaque --help`."""
    verbs = console.verbs()
    lines = console.heading()
    for group in groups(verbs):
        lines += ["", f"{group.title}:"]
        lines += console.rows({name: verbs[name] for name in group.verbs})
        if group.examples:
            lines += ["", *(f"    {_with_program(example)}" for example in group.examples[:_MAX_EXAMPLES])]
    return "\n".join([*lines, "", console.ENDING])


def groups(verbs: Collection[str]) -> list[Group]:
    """The groups with their installed verbs, and a last group for all other verbs."""
    installed = [
        Group(
            group.title,
            tuple(name for name in group.verbs if name in verbs),
            tuple(example for example in group.examples if verb_of(example) in verbs),
        )
        for group in GROUPS
    ]
    grouped_names = {name for group in GROUPS for name in group.verbs}
    installed.append(Group("More", tuple(name for name in verbs if name not in grouped_names), ()))
    return [group for group in installed if group.verbs]


def examples_of(name: str) -> str:
    """The end of the help of a verb."""
    examples = [example for group in GROUPS for example in group.examples if verb_of(example) == name]
    return "\n".join(["", "examples:", *(f"  {_with_program(example)}" for example in examples), ""])


def verb_of(example: str) -> str:
    """The verb of an example, which may be a line with other programs."""
    return _with_program(example).partition("sotaque ")[2].split(" ")[0]


def _with_program(example: str) -> str:
    return example if "sotaque " in example else f"sotaque {example}"
