"""Voices on disk under concurrent changes, as by threads of a service and by replicas."""

import hashlib
import os
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from api.errors import APIError
from api.voices import store
from api.voices.recordings import DecodedRecording
from api.voices.store import Voices
from machine.storage import locks
from tests.api.sounds import file_of, speech
from tests.api.threads import at_once
from tests.forked import in_child

RECORDING = DecodedRecording(b"RIFF", 1.0, {})


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_a_voice_that_is_deleted_while_it_is_renamed_does_not_come_back(tmp_path, monkeypatch):
    voices = Voices(tmp_path)
    voice = voices.add("Anna", RECORDING)
    deletion_came = threading.Event()

    def delete():
        voices.remove(voice)
        deletion_came.set()  # at once, unless a lock blocks it

    deleting = threading.Thread(target=delete)
    write, wait = store.write_json, locks.wait_for

    def write_late(path, value):
        deleting.start()
        assert deletion_came.wait(30)
        return write(path, value)

    monkeypatch.setattr(locks, "wait_for", lambda path, _: wait(path, deletion_came.set))
    monkeypatch.setattr(store, "write_json", write_late)
    assert voices.rename(voice, "Ben").name == "Ben"
    deleting.join(30)
    assert files(tmp_path) == [".lock"] and voices.all() == []
    for change in (voices.remove, lambda gone: voices.rename(gone, "Eve")):
        with pytest.raises(APIError) as refused:
            change(voice)
        assert (refused.value.status, refused.value.code) == (404, "no_voice")
    assert files(tmp_path) == [".lock"]


def test_of_eight_renames_at_once_each_is_kept_and_the_last_holds(tmp_path):
    voices = Voices(tmp_path)
    voice = voices.add("Anna", RECORDING)
    renamed = at_once([lambda n=n: voices.rename(voice, f"name {n}").name for n in range(8)])
    assert renamed == [f"name {n}" for n in range(8)]
    assert voices.find(voice.id).name in renamed
    assert files(tmp_path) == sorted([".lock", f"{voice.id}.json", f"{voice.id}.wav"])


def test_as_many_voices_as_may_be_are_kept_though_more_come_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MAX_VOICES", 3)
    voices = Voices(tmp_path)

    def add(name):
        try:
            return voices.add(name, RECORDING).name[:4]
        except APIError as refusal:
            return refusal.code

    adding = [partial(add, f"Anna {number}") for number in range(6)]
    assert sorted(at_once(adding)) == ["Anna"] * 3 + ["too_many_voices"] * 3
    voices.remove(voices.all()[0])
    assert add("Anna") == "Anna"


def test_one_of_several_that_come_at_once_gets_the_name(tmp_path):
    voices = Voices(tmp_path)

    def add():
        try:
            return voices.add("Anna", RECORDING).name
        except APIError as refusal:
            return refusal.code

    assert sorted(at_once([add] * 4)) == ["Anna"] + ["name_taken"] * 3


def test_halves_of_voices_that_nobody_could_delete_go_when_the_next_is_added(tmp_path):
    """Earlier versions left a name without its recording; a kill leaves either half."""
    voices = Voices(tmp_path)
    whole = voices.add("Anna", RECORDING)
    halves = [tmp_path / "aaaaaaaaaaaa.json", tmp_path / "bbbbbbbbbbbb.wav"]
    fresh, mine = tmp_path / "cccccccccccc.wav", tmp_path / "notes.wav"
    for path in (*halves, fresh, mine):
        path.write_bytes(b"x")
    begun = tmp_path / "dddddddddddd"  # another replica writes into it next
    begun.mkdir()
    hours_ago = time.time() - 2 * 3600
    for path in (*halves, mine, voices.reference_path(whole)):
        os.utime(path, (hours_ago, hours_ago))
    other = voices.add("Ben", RECORDING)
    assert [path.exists() for path in (*halves, fresh, mine)] == [False, False, True, True]
    assert begun.is_dir()
    assert [voice_left.id for voice_left in voices.all()] == [whole.id, other.id]


def hours_pass(folder: Path) -> None:
    """Makes all files older than leftovers of a killed writer must be."""
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - 2 * 3600,) * 2)


def take(number: int) -> DecodedRecording:
    return DecodedRecording(file_of(speech(2.0) * (1 - 0.1 * number)), 2.0, {})


def everything(folder: Path) -> dict[str, bytes]:
    """All recordings in a folder, by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.wav")}


@pytest.mark.parametrize(
    ("point", "recordings"),
    [
        ("after replace:2.wav", 1),
        ("part opened:{id}.json", 1),
        ("after fsync:{id}.json", 1),
        ("after replace:{id}.json", 3),
    ],
)
def test_a_kill_while_a_voice_is_added_to_leaves_the_old_or_the_new(tmp_path, point, recordings):
    voices = Voices(tmp_path)
    voice = voices.add("Anna", take(0))
    code = in_child(lambda: voices.extend(voice, [take(1), take(2)]), point.format(id=voice.id))
    assert code == -9
    (left,) = voices.all()
    assert (left.id, left.name, left.recordings) == (voice.id, "Anna", recordings)
    heard = voices.reference_path(left).read_bytes()
    assert hashlib.sha256(heard).hexdigest() == left.sha256
    singles = [path.read_bytes() for path in voices.recording_paths(left)]
    assert singles == [take(number).wav for number in range(recordings)]
    # Leftovers of the kill are removed after an hour, or at once with the voice.
    hours_pass(tmp_path / voice.id)
    voices.add("Ben", RECORDING)
    paths = {voices.reference_path(left), *voices.recording_paths(left)}
    assert {path for path in (tmp_path / voice.id).iterdir() if path not in paths} == set()
    voices.remove(left)
    assert not (tmp_path / voice.id).exists()


def whole(voices: Voices) -> list[tuple[str, int, list[bytes]]]:
    """Each voice with all its recordings and its merged recording."""
    return [
        (
            uploaded.name,
            uploaded.recordings,
            [
                path.read_bytes()
                for path in (voices.reference_path(uploaded), *voices.recording_paths(uploaded))
            ],
        )
        for uploaded in voices.all()
    ]


def test_every_recording_of_every_voice_stays_when_strays_go(tmp_path):
    """One or several, extended or not, of any age: changes to other voices keep them."""
    voices = Voices(tmp_path)
    voices.add("One", take(0))
    voices.add("Three", take(1), take(2), take(3))
    extended = voices.extend(voices.add("Extended", take(4)), [take(5)])[1]
    voices.extend(voices.add("Extended again", take(6), take(7)), [take(8)])
    before = whole(voices)
    assert [count for _, count, _ in before] == [1, 3, 2, 3]
    stray = tmp_path / extended.id / "joined_0.wav"
    stray.write_bytes(b"x")
    hours_pass(tmp_path)
    ben = voices.add("Ben", take(9))
    assert not stray.exists() and whole(voices)[:4] == before
    hours_pass(tmp_path)
    voices.extend(ben, [take(1)])
    assert whole(voices)[:4] == before
    hours_pass(tmp_path)
    voices.remove(voices.find(ben.id))
    voices.rename(voices.find(extended.id), "Renamed")
    voices.add("Eve", RECORDING)
    assert [row[1:] for row in whole(voices)[:4]] == [row[1:] for row in before]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"name": "Anna"}', None])
def test_recordings_of_a_voice_whose_description_is_damaged_stay(tmp_path, damage):
    """With its JSON restored, a voice is listed again. Recordings without JSON are leftovers."""
    voices = Voices(tmp_path)
    voice = voices.add("Anna", take(0), take(1), take(2))
    about = tmp_path / f"{voice.id}.json"
    description, before = about.read_bytes(), everything(tmp_path)
    if damage is None:
        about.unlink()
    else:
        about.write_bytes(damage)
    assert voices.get(voice.id) is None
    hours_pass(tmp_path)
    other = voices.add("Ben", RECORDING)
    left = {name: data for name, data in everything(tmp_path).items() if other.id not in name}
    assert left == ({} if damage is None else before)
    if damage is not None:
        about.write_bytes(description)
        assert voices.find(voice.id) == voice


def test_a_kill_while_a_voice_of_several_is_added_leaves_none(tmp_path):
    voices = Voices(tmp_path)
    code = in_child(lambda: voices.add("Anna", take(0), take(1)), "after replace:2.wav")
    assert code == -9 and voices.all() == []
    hours_pass(tmp_path)
    voices.add("Ben", RECORDING)
    assert list(everything(tmp_path).values()) == [RECORDING.wav]


def test_of_four_additions_at_once_each_is_kept(tmp_path):
    voices = Voices(tmp_path)
    voice = voices.add("Anna", take(0))
    at_once([lambda n=n: voices.extend(voice, [take(n)])[1].recordings for n in range(1, 5)])
    grown = voices.find(voice.id)
    assert grown.recordings == 5
    singles = {path.read_bytes() for path in voices.recording_paths(grown)}
    assert singles == {take(number).wav for number in range(5)}
