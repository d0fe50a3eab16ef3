"""The mark of synthetic speech, read back by FFmpeg and by libsndfile."""

import json
import shutil
import subprocess
import wave
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.marked import comment
from xtts import encoding
from xtts.encoding import MEDIA_TYPES, Encoder, encode
from xtts.marks import SOURCE, UNNAMED, Mark
from xtts.voices.voice_files import VoiceFiles

PCM = bytes(96_000)
MARK = Mark("Ânna; the 2nd")
# pcm has no room for it: the service sends the mark in a header.
FILES = [form for form in MEDIA_TYPES if form != "pcm"]


def streamed(form: str, mark: Mark) -> bytes:
    encoder = Encoder(form, mark=mark)
    return encoder.add(PCM[:500]) + encoder.add(PCM[500:]) + encoder.end()


def whole_file(form: str, mark: Mark) -> bytes:
    return encode(form, PCM, mark)


def test_the_text_names_source_voice_and_version_in_ascii():
    parts = MARK.text.split("; ")
    assert parts[0] == "AI-generated speech" and parts[-1] == SOURCE
    assert parts[1] == "voice: %C3%82nna%3B the 2nd" and parts[2].startswith("sotaque ")
    assert MARK.text.isascii() and MARK.headers == {"X-AI-Generated": MARK.text}
    assert "voice" not in UNNAMED.text


@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize("encoded", [whole_file, streamed])
@pytest.mark.parametrize("mark", [MARK, Mark("Anna"), UNNAMED], ids=["signs", "name", "none"])
def test_every_format_begins_with_the_mark(form: str, encoded: Callable[[str, Mark], bytes], mark: Mark):
    data = encoded(form, mark)
    assert comment(data) == mark.text
    assert mark.text.encode() in data[:4_000]


@pytest.mark.parametrize("ending", encoding.ENDINGS)
def test_a_file_of_any_ending_is_marked(tmp_path, ending):
    """As docs/synthetic-sound.md writes one from Python."""
    encoding.write(tmp_path / f"out{ending}", np.zeros(24_000, np.float32), MARK)
    assert comment(tmp_path / f"out{ending}") == MARK.text


@pytest.mark.parametrize("mark", [MARK, Mark("Anna"), UNNAMED])
def test_a_marked_wav_is_one_for_other_readers(tmp_path, mark):
    samples = np.random.default_rng(1).normal(0, 0.2, 4_801)
    encoding.write_wav(tmp_path / "plain.wav", samples)
    encoding.write_wav(tmp_path / "marked.wav", samples, mark=mark)
    assert soundfile.SoundFile(tmp_path / "plain.wav").comment == ""
    with soundfile.SoundFile(tmp_path / "marked.wav") as file:
        assert (file.comment, file.frames) == (mark.text, 4_801)
    marked, expected = (soundfile.read(tmp_path / f"{name}.wav")[0] for name in ("marked", "plain"))
    assert np.array_equal(marked, expected)
    with wave.open(str(tmp_path / "marked.wav")) as standard:
        assert standard.getparams()[:4] == (1, 2, 24_000, 4_801)


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({}, "voices"),
        ({"weights": Path("run/checkpoints/checkpoint_epoch_2.pt")}, "checkpoint_epoch_2"),
        ({"adapter": Path("adapters/anna/adapter.safetensors")}, "anna"),
        ({"requested_reference": Path("mine/me.wav")}, "me"),
        ({"requested_reference": (Path("a.wav"), Path("b.wav"))}, "a"),
        ({"requested_reference": Path("speakers/x.wav"), "own_name": "ben"}, "ben"),
    ],
)
def test_a_voice_is_named_without_its_folders(more, name):
    folder = Path("home/voices")
    files = VoiceFiles(folder, folder / "model.pth", None, None)
    assert replace(files, **more).mark == Mark(name)


@pytest.mark.system
@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize("encoded", [whole_file, streamed])
def test_ffprobe_reads_the_mark(tmp_path, form, encoded):
    ffprobe = shutil.which("ffprobe")
    assert ffprobe, "ffprobe is not installed; on Debian: apt-get install ffmpeg"
    path = tmp_path / f"sound.{form}"
    path.write_bytes(encoded(form, MARK))
    command = [ffprobe, "-v", "error", "-show_format", "-show_streams", "-of", "json"]
    told = json.loads(subprocess.check_output([*command, str(path)]))
    tags = {**told["format"].get("tags", {}), **told["streams"][0].get("tags", {})}
    assert {key.lower(): value for key, value in tags.items()}["comment"] == MARK.text
