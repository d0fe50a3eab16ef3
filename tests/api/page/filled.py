"""A world in which every section of the page shows something, named by one long word."""

from typing import Any

from tests.api.page.world import World, evaluation, judged

LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
_SPACE = {"used": 1_500_000, "most": 10_000_000_000, "free": 50_000_000_000}


def filled(world: World, word: str = LONG) -> World:
    """Adds a run in training with its evaluation, voices, trainings, runs and a finished book.

    There are two datasets: one that was cut, and one that is being read aloud.
    """
    world.evaluation = evaluation()
    errors = {**world.evaluation["judges"]["word_errors"], "absent": None}
    world.evaluation["judges"] = {**world.evaluation["judges"], "word_errors": errors}
    for candidate in world.evaluation["candidates"]:
        candidate["judges"]["word_errors"] = judged(1)["judges"]["words"]
    world.evaluation["verdict"]["reason"] = f"Epoch 2 is the best: it says {word}."
    world.voices += [
        {
            "id": f"v{number}",
            "name": f"{word} {number}",
            "origin": "upload",
            "recordings": 3,
            "created": "2026-01-02T03:04:05Z",
            "duration_seconds": 7.25,
            "preview": f"/v1/voices/v{number}/preview.wav",
            "quality": {"word": "usable", "remarks": [f"It is quiet: {word}."]},
        }
        for number in range(1, 13)
    ]
    world.answers = {**_datasets(word), **_trainings(word), **_books(word)}
    return world


def _datasets(word: str) -> dict[str, Any]:
    rows = [
        {
            "id": "cut",
            "name": word,
            "language": "en",
            "created": "2026-01-02T03:04:05Z",
            "recordings": 1,
            "state": "done",
            "read_aloud": False,
        },
        {
            "id": "read",
            "name": f"{word} read",
            "language": "en",
            "created": "2026-01-02T03:04:05Z",
            "recordings": 0,
            "state": "none",
            "read_aloud": True,
        },
    ]
    cut = {
        "state": "done",
        "message": f"9 clips of {word}.wav.",
        "asked": None,
        "started": None,
        "ended": "2026-01-02T03:04:05Z",
        "ahead": 0,
        "told": "",
        "outdated": True,
    }
    details = rows[0] | {
        "recordings": [
            {"id": "tape", "name": f"{word}.wav", "bytes": 5_100_000, "received": 5_100_000, "whole": True}
        ],
        "text": {"kind": "srt", "bytes": 1_200},
        "cut": cut,
        "clips": {
            "total": 2,
            "kept": 2,
            "dropped": 0,
            "without_text": 1,
            "corrected": 1,
            "kept_seconds": 8.0,
        },
        "unplaced": [],
        "unheard": [word],
        "num_unheard": 1,
        "speech_by": "energy",
        "account": [
            {
                "name": f"{word}.wav",
                "seconds": 60.0,
                "clips": 2,
                "seconds_by_reason": {"in clips": 8.0, f"unsure words {word}": 52.0},
            }
        ],
        "train": {
            "dataset_dir": word,
            "command": f"DATASET_DIR={word} make train",
            "container": f"DATASET_DIR=/data/{word}",
        },
    }
    clips = [
        {
            "name": f"{word}-{number}",
            "recording": f"{word}.wav",
            "start": 4.0 * number,
            "seconds": 4.0,
            "text": f"It says {word}.",
            "cut_text": "",
            "corrected": True,
            "dropped": False,
            "why": f"unusual: {word}",
            "levels": [-20, -40, -30],
            "sha256": "0" * 64,
            "sound": f"/v1/datasets/cut/clips/{number}.wav",
        }
        for number in (1, 2)
    ]
    prompts = [
        {
            "number": number,
            "text": f"Sentence {number} says {word}.",
            "state": "open",
            "seconds": 0.0,
            "findings": [],
            "sound": None,
        }
        for number in (1, 2)
    ]
    sheet = {
        "source": "own",
        "language": "en",
        "prompts": prompts,
        "kept": 0,
        "skipped": 0,
        "kept_seconds": 0.0,
        "next": 1,
        "recogniser": False,
        "more": f"About 40 more sentences like {word} make three minutes.",
    }
    return {
        "/v1/datasets": {"datasets": rows, "space": _SPACE},
        "/v1/datasets/cut": details,
        "/v1/datasets/cut/clips": {"clips": clips, "total": 2, "offset": 0},
        "/v1/datasets/read": details | rows[1] | {"recordings": [], "account": [], "unheard": []},
        "/v1/datasets/read/prompts": sheet,
    }


def _trainings(word: str) -> dict[str, Any]:
    progress = {
        "epoch": 2,
        "epochs": 4,
        "step": 13,
        "steps": 13,
        "seconds_left": 150.0,
        "loss": 2.314,
        "phase": "judging",
    }
    usual = {
        "dataset": "cut",
        "settings": {},
        "asked": "2026-01-02T03:04:05Z",
        "started": None,
        "ended": None,
        "code": None,
        "ahead": 0,
        "cancelling": False,
        "message": "",
    }
    rows = [
        usual | {"id": "two", "run": "a" * 40, "state": "queued", "ahead": 1, "progress": None},
        usual | {"id": "one", "run": "current", "state": "running", "progress": progress},
        usual
        | {
            "id": "zero",
            "run": "b" * 40,
            "state": "failed",
            "progress": progress,
            "message": f"The dataset names {word}.",
        },
    ]
    trainings = {
        "trainings": rows,
        "allowed": True,
        "trainer": False,
        "command": "train queue",
        "message": "No trainer works on the queue. Start it with `train queue`.",
    }
    return {"/v1/trainings": trainings}


def _books(word: str) -> dict[str, Any]:
    reading = {
        "state": "done",
        "plan_only": False,
        "message": "",
        "asked": None,
        "started": None,
        "ended": None,
        "ahead": 0,
        "paused": False,
        "told": "",
    }
    sentence = {"key": "01", "text": f"It says {word}.", "sound": "/v1/books/book/01.wav"}
    plan = {
        "title": word,
        "author": "A. Writer",
        "language": "en",
        "rate": 1.5,
        "chapters": [
            {
                "number": number,
                "title": f"Chapter {number} of {word}",
                "words": 12_345,
                "sentences": 800,
                "seconds": 4_000.0,
            }
            for number in (1, 2)
        ],
        "left_out": [{"title": word, "reason": "index"}],
        "unreadable": "",
        "notes": [word],
        "names": [{"word": word, "count": 3, "said": ""}],
        "samples": [sentence],
    }
    report = {
        "chapters": [1],
        "sentences": 800,
        "faulty": 1,
        "unread": 0,
        "worst": [sentence | {"chapter": 1, "noticed": "cut"}],
    }
    files = [{"name": f"01 {word}.m4b", "bytes": 900_000, "address": "/v1/books/book/01.m4b"}]
    row = {
        "id": "book",
        "name": f"{word}.epub",
        "created": "2026-01-02T03:04:05Z",
        "title": word,
        "state": "done",
        "plan_only": False,
    }
    details = row | {"reading": reading, "progress": None, "plan": plan, "report": report, "files": files}
    return {"/v1/books": {"books": [row], "space": _SPACE}, "/v1/books/book": details}
