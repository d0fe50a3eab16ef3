"""Every place that writes sound: synthetic speech gets its mark, and only recordings have none.

The rules read the syntax tree, so that a new verb, route or extra cannot write an unmarked file.
"""

import ast
from collections.abc import Iterator

import pytest
import soundfile

from tests.installed import is_deleted
from tests.test_architecture import ROOT
from xtts.marks import SOURCE

PACKAGES = ("machine", "xtts", "train", "api", "extras")
# Opens a sound for writing, or makes the bytes of one.
WRITERS = {
    "xtts/encoding.py": "puts the mark into each format, and that of its caller into a WAV file",
    "extras/books/writing/audiobook.py": "writes the mark among the tags of a book",
    "extras/cut/recordings.py": "the sound of a film, which is a recording",
}
# Calls of `encoding.write_wav` and `wav_header` without a mark.
RECORDINGS = {
    "train/export.py": "the reference of an export",
    "train/sampling/reference.py": "the reference of a run",
    "train/sampling/run_speakers.py": "the reference of a speaker",
    "train/sampling/samples.py": "the reference beside each sample",
    "extras/cut/writing.py": "the clips of a recording",
    "api/voices/samples.py": "an uploaded voice",
}
# The functions that write speech, with the number of arguments before the mark.
MARKING = {"Encoder": 2, "encoding.encode": 2, "encoding.write": 2, "encoding.write_wav": 3, "wav_header": 2}


def calls(package: str) -> Iterator[tuple[str, str, ast.Call]]:
    """The calls in a package: file, function as it is written there, and call."""
    for path in sorted((ROOT / package).rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield where, ast.unparse(node.func), node


def opens_sound(name: str, call: ast.Call) -> bool:
    words = {arg.value for arg in call.args if isinstance(arg, ast.Constant)}
    return name == "soundfile.write" or (
        name in ("soundfile.SoundFile", "wave.open", "av.open") and bool(words & {"w", "wb", "x"})
    )


def has_mark(name: str, call: ast.Call) -> bool:
    return len(call.args) > MARKING[name] or any(keyword.arg == "mark" for keyword in call.keywords)


@pytest.fixture(scope="module")
def every() -> list[tuple[str, str, ast.Call]]:
    return [call for package in PACKAGES for call in calls(package)]


def test_sound_is_written_in_few_places(every):
    found = {where for where, name, call in every if opens_sound(name, call)}
    assert found == {writer for writer in WRITERS if not is_deleted(writer)}


def test_speech_is_written_with_its_mark(every):
    found = [(where, name, call) for where, name, call in every if name in MARKING]
    bare = {where for where, name, call in found if not has_mark(name, call)}
    assert bare == {recording for recording in RECORDINGS if not is_deleted(recording)}
    # What speaks into files: `speak`, samples and evaluations of a run, books, and the service.
    marked = {where for where, name, call in found if has_mark(name, call)}
    assert {"xtts/verbs/speak.py", "xtts/workers/tasks.py", "api/speech/speaking.py"} <= marked
    if not is_deleted("extras/books"):
        assert {"extras/books/speaking/take_folder.py", "extras/books/writing/binding.py"} <= marked


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.wav")), ids=lambda path: path.name)
def test_the_recordings_of_the_documentation_are_marked(path):
    """The person's, too: she is a synthesizer."""
    with soundfile.SoundFile(path) as sound:
        assert sound.comment.startswith("AI-generated speech; voice: ") and sound.comment.endswith(SOURCE)
