"""`python -m tests.extras.books.uploads.fake_reader BOOK --to DIR …`: reads a book without a voice.

FAKE_READER makes it refuse, crash or hang (until it is killed; the next time it ends). Its
arguments are in given.json next to DIR.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from extras.common.steps import Steps, steps_for
from machine.storage.files import write_json

KEY = "0123456789abcdef" * 2 + "01234567"
WAV = b"RIFF" + bytes(40) + bytes(4800)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("book", type=Path)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--spec", type=json.loads)
    parser.add_argument("--format", default="")
    given, others = parser.parse_known_args()
    how = os.environ.get("FAKE_READER", "")
    if how == "refuse":
        print(f"{given.book} has Adobe's protection (DRM). Ask for another copy.", file=sys.stderr)
        return 2
    if how == "crash":
        raise ZeroDivisionError("a fault of ours")
    given.to.mkdir(parents=True, exist_ok=True)
    if how == "hang" and not given.plan and not (given.to / "begun").exists():
        (given.to / "begun").touch()
        told = {"chapter": 1, "share": 0.25, "seconds_left": 90, "audio_seconds_a_second": 2.5}
        (given.to / "progress.json").write_text(json.dumps(told))
        print("chapter 1  25.0 %", flush=True)
        step_for_ever(given.to)
    if how == "load":
        step_for_ever(given.to)
    write(given, others)
    return 0


def step_for_ever(folder: Path) -> None:
    """Adds a dot at each step, which shows whether it is running."""
    while True:
        with (folder / "steps").open("a") as file:
            file.write(".")
        time.sleep(0.02)


def write(given: argparse.Namespace, others: list[str]) -> None:
    """Writes the plan and, for a reading, the files."""
    to, text = given.to, given.book.read_bytes().decode(errors="replace")
    sound = to / "sentences" / KEY[:2] / f"{KEY}.wav"
    sound.parent.mkdir(parents=True, exist_ok=True)
    sound.write_bytes(WAV)
    said, steps = given.spec.get("pronunciations"), steps_for(False, None)
    write_json(
        to.parent / "given.json",
        {
            "others": others,
            "spec": given.spec,
            "nice": os.getpriority(os.PRIO_PROCESS, 0),
            "pronunciations": Path(said).read_text() if said else "",
            "steps": "Steps" if steps is Steps else "Ray",
        },
    )
    chapter = {"number": 1, "title": "One", "words": len(text.split()), "sentences": 2, "seconds": 4.5}
    write_json(
        to / "plan.json",
        {
            "title": "A Small Book",
            "author": "A. Writer",
            "language": "en",
            "pace": 0.06,
            "rate": 2.5,
            "chapters": [chapter, {**chapter, "number": 2, "title": "Two"}],
            "left_out": [{"title": "Index", "reason": "index"}],
            "names": [{"word": "Qxyz", "count": 3}],
            "unreadable": "ש",
            "notes": ["It is odd."],
            "samples": [{"key": KEY, "text": "A sentence to hear."}],
        },
    )
    if given.plan:
        return
    for name in given.format.split(","):
        (to / f"01 One.{name}").write_bytes(WAV)
    worst = {"chapter": 1, "text": "A bad one.", "key": KEY, "noticed": "cut"}
    told = {"chapters": [1], "sentences": 4, "faulty": 1, "unread": 0, "worst": [worst]}
    write_json(to / "report.json", told)
    (to / "report.html").write_text("<p>The report</p>")


if __name__ == "__main__":
    sys.exit(main())
