"""Voice files of voicebox and VoiceStudio: their recording becomes a voice."""

import json
import zipfile
from pathlib import Path

import pytest

from tests.models import tiny_base
from tests.xtts.voices.files.made import voice_file, wav
from xtts.voices import bundle
from xtts.voices.base_models import DEMO
from xtts.voices.files import foreign, unpacking
from xtts.voices.files.foreign import read_foreign_voice
from xtts.voices.files.manifest import VoiceFileError
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec


def packed(path: Path, manifest: object, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("manifest.json", json.dumps(manifest))
        for name, content in members.items():
            file.writestr(name.replace("__", "/") + ".wav", content)
    return path


def voicebox(folder: Path) -> Path:
    manifest = {"version": "1.1", "profile": {"name": "Anna B.", "language": "en"}}
    two = {"samples__a": wav(0.5), "samples__b": wav(1.0)}
    return packed(folder / "profile-Anna.voicebox.zip", manifest, **two)


def test_the_longest_recording_and_the_name_are_taken(tmp_path):
    assert read_foreign_voice(voicebox(tmp_path)) == ("Anna B.", wav(1.0))
    studio = packed(tmp_path / "x.ovsvoice", {"name": "Ben"}, ref_audio=wav(), preview=wav(2.0))
    assert read_foreign_voice(studio) == ("Ben", wav())
    unnamed = packed(tmp_path / "carl.ovsvoice", {"name": 3}, ref_audio=wav())
    assert read_foreign_voice(unnamed) == ("carl", wav())


def test_other_files_are_not_theirs(tmp_path):
    assert read_foreign_voice(voice_file(tmp_path / "a.sotaque")) is None
    assert read_foreign_voice(packed(tmp_path / "without.ovsvoice", {"name": "x"}, preview=wav())) is None
    (tmp_path / "b.ovsvoice").write_bytes(b"GIF89a")
    assert read_foreign_voice(tmp_path / "b.ovsvoice") is None


def test_what_cannot_be_used_is_a_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(foreign, "_MAX_WAV_BYTES", 1 << 20)
    flac = wav(format="FLAC")
    files = {
        "unpacks to more": packed(tmp_path / "bomb.ovsvoice", {}, ref_audio=bytes(2 << 20)),
        "not a WAV file": packed(tmp_path / "mz.ovsvoice", {}, ref_audio=b"MZ" * 100),
        "but FLAC": packed(tmp_path / "flac.ovsvoice", {}, ref_audio=flac),
        "has a recording of 0 s; one of up to 600 s": packed(
            tmp_path / "empty.ovsvoice", {}, ref_audio=wav(0.0)
        ),
    }
    broken = voicebox(tmp_path).read_bytes()
    at = broken.index(b"samples/a.wav") + 200
    files["is damaged"] = tmp_path / "broken.voicebox"
    files["is damaged"].write_bytes(broken[:at] + b"\0" * 50 + broken[at + 50 :])
    for words, path in files.items():
        with pytest.raises(VoiceFileError, match=words):
            unpacking.import_voice(path, tmp_path / "voices", xtts_v2="x", tos_agreed=False)
    assert not (tmp_path / "voices").exists()


def test_it_speaks_as_its_recording_does_with_the_base_that_is_named(tmp_path):
    base = tiny_base(tmp_path / "base")
    path = voicebox(tmp_path)
    imported = unpacking.import_voice(path, tmp_path / "voices", base=base, xtts_v2="x", tos_agreed=False)
    assert imported.name == "Anna B." and imported.kind == "latents"
    assert (imported.folder / "reference.wav").read_bytes() == wav(1.0)
    (tmp_path / "other.wav").write_bytes(wav(1.0))
    voice = load_voice(VoiceSpec(str(imported.folder)))
    same = load_voice(VoiceSpec(str(base), reference=tmp_path / "other.wav"))
    assert voice.own_voice is not None and same.own_voice is not None
    assert voice.own_voice.latents.equal(same.own_voice.latents)
    other = unpacking.import_voice(path, tmp_path / "voices", xtts_v2="x", tos_agreed=False)
    assert other.name == "Anna B.-2" and bundle.read(other.folder).base["name"] == "demo"
    assert bundle.read(other.folder).licence.startswith("MIT") and (DEMO / "model.pth").is_file()
