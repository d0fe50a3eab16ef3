"""The texts by which the voice is judged: the teacher says none of them, and the GPT learns from no
clip that is a part of one."""

from functools import cache
from pathlib import Path

from demo_voice.text.sentences import plain

FOLDER = Path(__file__).parents[2] / "benchmarks"
FILES = ("sentences.txt", "choosing.txt", "reporting.txt")


@cache
def texts(folder: Path = FOLDER) -> frozenset[str]:
    """All of them, as `sentences.plain`."""
    read = [(folder / name).read_text(encoding="utf-8") for name in FILES]
    return frozenset(plain(line) for text in read for line in text.splitlines())


def is_part(text: str) -> bool:
    """Whether the words of this text stand in one of them, side by side."""
    words = f" {plain(text)} "
    return any(words in f" {judged} " for judged in texts())
