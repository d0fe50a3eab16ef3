"""The speaking child with a tiny model: messages in, sound out, changing voices."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from machine.process import module_command
from tests.models import tiny_voice
from xtts.inference.compute_config import ComputeConfig

ASK = {"text": "hello there", "language": "en", "max_codes": 20}


class Talk:
    """A child process, with its requests and answers."""

    def __init__(self, **compute: Any) -> None:
        command = module_command(
            "xtts.workers.server_main", "--slots", "3", *ComputeConfig(threads=1, **compute).command_line()
        )
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self.until("ready")

    def send(self, **message: Any) -> None:
        self.child.stdin.write(json.dumps(message).encode() + b"\n")
        self.child.stdin.flush()

    def heard(self) -> tuple[dict[str, Any], bytes]:
        """The next answer, and its sound."""
        header = json.loads(self.child.stdout.readline())
        return header, self.child.stdout.read(header.get("bytes", 0))

    def until(self, say: str, name: str = "") -> dict[str, Any]:
        """The next answer of this kind, with the sound received until then under `pcm`, by id."""
        pcm: dict[str, bytes] = {}
        while True:
            header, body = self.heard()
            if header["say"] == "sound":
                pcm[header["id"]] = pcm.get(header["id"], b"") + body
            if header["say"] in (say, "failed", "fault") and header.get("id", "") in (name, ""):
                return header | {"pcm": pcm}

    def open(self, key: str, folder: Path) -> dict[str, Any]:
        self.send(do="open", id=key, key=key, voice={"name": str(folder)})
        return self.until("opened", key)

    def say(self, name: str, key: str | None, **more: Any) -> None:
        recording = more.pop("recording", None)
        self.send(do="speak", id=name, key=key, recording=recording, ask=ASK | more)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("voices")
    return tiny_voice(folder / "seed0", 0), tiny_voice(folder / "seed1", 1)


@contextmanager
def talking(folder: Path, **compute: Any) -> Iterator[Talk]:
    """A child with an open voice; it ends when its stdin is closed."""
    talk = Talk(**compute)
    talk.opened = opened = talk.open("a", folder)
    assert opened["say"] == "opened", opened
    assert opened["own_voice"] and opened["languages"] == ["en", "pt"]
    yield talk
    talk.child.stdin.close()
    assert talk.child.wait(20) == 0


@pytest.fixture(scope="module")
def talk(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    with talking(folders[0], latents_folder=tmp_path_factory.mktemp("latents")) as child:
        yield child


def test_alone_and_in_a_crowd_it_is_the_same_to_the_bit(talk):
    says_the_same_alone_and_in_a_crowd(talk)


def says_the_same_alone_and_in_a_crowd(talk: Talk) -> None:
    talk.say("alone", "a", seed=5)
    alone = talk.until("done", "alone")["pcm"]["alone"]
    assert len(alone) > 2000
    for name, seed in (("x", 1), ("same", 5), ("y", 2)):
        talk.say(name, "a", seed=seed)
    pcm: dict[str, bytes] = {}
    for _ in range(3):
        header = next_done(talk, pcm)
        assert header["say"] == "done"
    assert pcm["same"] == alone and pcm["x"] != alone


def next_done(talk: Talk, pcm: dict[str, bytes]) -> dict[str, Any]:
    while True:
        header, body = talk.heard()
        if header["say"] == "sound":
            pcm[header["id"]] = pcm.get(header["id"], b"") + body
        elif header["say"] not in ("alive", "turn"):
            return header


def test_without_a_language_it_speaks_the_first_of_the_voice(talk):
    sounds = []
    for language in ("en", ""):
        talk.say("one", "a", language=language)
        sounds.append(talk.until("done", "one")["pcm"]["one"])
    assert sounds[0] == sounds[1]


def test_a_request_without_a_key_speaks_with_the_voice_that_is_served(talk):
    talk.say("waits", None, seed=5)
    talk.say("first", "a", seed=5)
    pcm = talk.until("done", "first")["pcm"]
    assert list(pcm) == ["first"]
    talk.send(do="serve", key="a", slots=3)
    assert talk.until("done", "waits")["pcm"]["waits"] == pcm["first"]


def test_who_is_cancelled_says_no_more(talk):
    talk.say("c", "a", max_codes=60, seed=1)
    talk.send(do="cancel", id="c")
    assert talk.until("cancelled", "c")["say"] == "cancelled"


TEXT = "one more sentence that is rather long, with words in it. " * 12


def test_a_long_text_takes_turns_with_those_who_came_meanwhile(talk):
    """It pauses between its pieces, and nobody is asked."""
    for number in range(4):  # one more than there are slots
        talk.say(f"long {number}", "a", text=TEXT, max_codes=8)
    talk.say("short", "a", max_codes=8)
    turns, ended = list[str](), dict[str, dict[str, Any]]()
    while len(ended) < 5:
        header, _ = talk.heard()
        if header["say"] == "turn":
            turns.append(header["id"])
        elif header["say"] not in ("sound", "alive", "paused"):
            ended[header["id"]] = header
    assert turns[:3] == ["long 0", "long 1", "long 2"] and next(iter(ended)) == "short"
    assert turns.index("short") < 6
    for number in range(4):
        last, name = ended[f"long {number}"], f"long {number}"
        assert last["say"] == "done" and 1 < last["cut_pieces"] <= turns.count(name)


def test_a_held_text_gets_no_turn_and_who_is_cancelled_between_two_pieces_is_gone(talk):
    talk.say("left", "a", text=TEXT * 9, max_codes=8)
    talk.until("turn", "left")
    talk.send(do="hold", id="left")
    seen = []
    for name in ("next", "last"):
        talk.say(name, "a", max_codes=8)
        while seen[-1:] != [("done", name)]:
            header, _ = talk.heard()
            seen.append((header["say"], header.get("id")))
    # The hold arrived before both; only the turn that had begun went on.
    assert ("turn", "left") not in seen[seen.index(("turn", "next")) :]
    assert ("done", "left") not in seen
    talk.send(do="resume", id="left")
    talk.until("turn", "left")
    talk.send(do="cancel", id="left")
    assert talk.until("cancelled", "left")["say"] == "cancelled"
    talk.say("alone", "a", max_codes=8)
    assert next_done(talk, {})["id"] == "alone"


def test_a_refusal_is_an_answer(talk):
    refuses_what_cannot_be_spoken(talk)
    talk.send(do="open", id="n", key="n", voice={"name": "/nowhere"})
    assert "There is no voice at" in talk.until("opened", "n")["reason"]


def refuses_what_cannot_be_spoken(talk: Talk) -> None:
    talk.say("r", "a", text="…!")
    header = talk.until("done", "r")
    assert (header["say"], header["reason_code"]) == ("failed", "refused")


def test_a_recording_becomes_a_voice_and_its_latents_are_kept(talk, tmp_path):
    path = tmp_path / "anna.wav"
    wave = np.random.default_rng(9).normal(0, 0.1, 40_000).astype("float32")
    soundfile.write(path, wave, 16_000)
    talk.say("own", "a", seed=5)
    pcm = talk.until("done", "own")["pcm"]["own"]
    talk.say("hers", "a", seed=5, recording=str(path))
    hers = talk.until("done", "hers")["pcm"]["hers"]
    assert hers != pcm
    bad = tmp_path / "bad.wav"
    bad.write_bytes(b"RIFF")
    talk.say("bad", "a", recording=str(bad))
    assert talk.until("done", "bad")["reason_code"] == "refused"


def test_another_voice_is_opened_while_one_speaks_and_that_one_finishes(talk, folders):
    talk.say("before", "a", seed=3)
    before = talk.until("done", "before")["pcm"]["before"]
    talk.say("during", "a", seed=3)
    talk.send(do="open", id="b", key="b", voice={"name": str(folders[1])})
    pcm: dict[str, bytes] = {}
    kinds = {next_done(talk, pcm)["say"], next_done(talk, pcm)["say"]}
    assert kinds == {"opened", "done"}
    assert pcm["during"] == before
    talk.say("other", "b", seed=3)
    assert talk.until("done", "other")["pcm"]["other"] != before
    talk.send(do="close", key="b")


def test_without_a_recording_it_says_its_own_word_and_nothing_else(talk, folders, tmp_path):
    folder = shutil.copytree(folders[0], tmp_path / "mute")
    (folder / "reference.wav").unlink()
    assert talk.open("m", folder)["own_voice"] is False
    talk.say("asked", "m")
    assert talk.until("done", "asked")["reason_code"] == "no_reference"
    talk.send(do="speak", id="own", key="m", recording=None, micro=True, ask=ASK)
    header = talk.until("done", "own")
    assert header["say"] == "done" and len(header["pcm"]["own"]) > 2000
    talk.send(do="close", key="m")
