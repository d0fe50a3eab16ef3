"""The report on a book: its worst hundred sentences with their sound, and how to repeat them."""

import html
import shlex
from collections.abc import Iterable, Sequence
from heapq import nlargest
from pathlib import Path

from extras.books.speaking.narration import ChosenTake
from extras.books.speaking.take_folder import TakeFolder
from machine.storage.files import replace_file

MAX_WORST_SENTENCES = 100
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 16px/1.5 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em }}
td, th {{ padding: .4em .6em; text-align: left; vertical-align: top; border-top: 1px solid #ccc }}
code {{ font-size: .8em }} audio {{ width: 16em }}
</style></head><body><h1>{title}</h1><p>{summary}</p>
<table><tr><th>Chapter<th>Sentence<th>Sound<th>What was noticed{again}</tr>
{rows}
</table></body></html>
"""


class WorstSentences:
    """Collects the worst sentences of a book, without their word times."""

    def __init__(self) -> None:
        self._candidates: list[tuple[tuple[int, int, int], int, ChosenTake]] = []
        self.sentences = self.faulty = 0
        self.unread: list[tuple[int, str]] = []

    def add(self, chapter: int, chosen: ChosenTake) -> None:
        """Adds a spoken sentence."""
        self.sentences += 1
        self.faulty += bool(chosen.take.faults)
        if any(chosen.rank):
            self._candidates.append((chosen.rank, chapter, chosen))
        if len(self._candidates) > 2 * MAX_WORST_SENTENCES:
            self._candidates = nlargest(MAX_WORST_SENTENCES, self._candidates, key=lambda entry: entry[0])

    def add_unread(self, chapter: int, text: str) -> None:
        """Adds a sentence that could not be read."""
        if len(self.unread) < MAX_WORST_SENTENCES:
            self.unread.append((chapter, text))

    def worst(self) -> Iterable[tuple[int, ChosenTake]]:
        """(chapter, sentence), the worst first."""
        for _, chapter, chosen in nlargest(MAX_WORST_SENTENCES, self._candidates, key=lambda entry: entry[0]):
            yield chapter, chosen

    def as_json(self) -> dict[str, object]:
        """The report as data, for `report.json`."""
        return {
            "sentences": self.sentences,
            "faulty": self.faulty,
            "unread": len(self.unread),
            "worst": [
                {
                    "chapter": chapter,
                    "text": chosen.take.text,
                    "key": chosen.take.key,
                    "noticed": _describe_faults(chosen),
                }
                for chapter, chosen in self.worst()
            ],
        }

    def write(self, path: Path, title: str, takes: TakeFolder, command: Sequence[str]) -> None:
        """Writes the report. command: the user's command, to which the report appends `--again
        KEY`; if empty, the report does not show commands."""
        rows = [
            _table_row(
                str(chapter),
                html.escape(chosen.take.text),
                _audio_element(takes, chosen, path),
                html.escape(_describe_faults(chosen)),
                *([_code_element([*command, "--again", chosen.take.key])] if command else []),
            )
            for chapter, chosen in self.worst()
        ]
        rows += [
            _table_row(str(chapter), html.escape(text[:500]), "", "could not be read")
            for chapter, text in self.unread
        ]
        summary = (
            f"{self.sentences:,} sentences; {self.faulty:,} ended badly in their best take; "
            f"{len(self.unread):,} could not be read. The worst {MAX_WORST_SENTENCES} are below."
        )
        again = "<th>Speak it again with" if command else ""
        page = _PAGE.format(title=html.escape(title), summary=summary, again=again, rows="\n".join(rows))
        replace_file(path, lambda file: file.write(page.encode()))


def _table_row(*cells: str) -> str:
    return "<tr>" + "".join(f"<td>{cell}" for cell in cells) + "</tr>"


def _code_element(words: Iterable[str]) -> str:
    return f"<code>{html.escape(shlex.join(words))}</code>"


def _audio_element(takes: TakeFolder, chosen: ChosenTake, path: Path) -> str:
    sound = takes.sound_path(chosen.take.key).relative_to(path.parent).as_posix()
    return f'<audio controls preload="none" src="{html.escape(sound)}"></audio>'


def _describe_faults(chosen: ChosenTake) -> str:
    noticed = list(chosen.take.faults)
    if chosen.misheard_words:
        noticed.append(f"{chosen.misheard_words} words misheard")
    if chosen.take.left_out:
        noticed.append("left out: " + " ".join(chosen.take.left_out))
    return "; ".join(noticed)
