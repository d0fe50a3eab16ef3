"""A voice is opened completely or not at all."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from machine.storage.checksums import sha256_of
from machine.storage.files import Written
from tests.xtts.voices.base_folders import ALL
from xtts.voices import bundle
from xtts.voices.base_models import BundleError
from xtts.voices.bundle import Bundle
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec


@pytest.fixture
def voice(base: Path) -> Path:
    """The folder of `base`, made into a voice."""
    files = {name: Written(sha256_of(base / name), (base / name).stat().st_size) for name in ALL[:3]}
    told = Bundle(
        files=files,
        base={"name": "demo", "sha256": "b" * 64},
        data_sha256="d" * 64,
        epoch=3,
        licence="free",
        made_at="2026-11-20T20:00:00+00:00",
        speaks_in_coqui=False,
    )
    bundle.write(base, told)
    return base


def test_what_is_written_is_read(voice):
    header = bundle.verify(voice)
    assert (header.kind, header.epoch, header.licence) == ("voice", 3, "free")
    assert header.files["model.pth"].sha256 == sha256_of(voice / "model.pth")


@pytest.mark.parametrize("name", ALL[:3])
def test_a_changed_file_is_named_and_the_voice_is_not_opened(voice, name):
    content = bytearray((voice / name).read_bytes())
    content[len(content) // 2] ^= 1
    (voice / name).write_bytes(content)
    with pytest.raises(BundleError, match=name):
        load_voice(VoiceSpec(str(voice)))


@pytest.mark.parametrize("missing", ALL[:3])
def test_a_bundle_that_does_not_name_a_needed_file_is_not_whole(voice, missing):
    header = bundle.read(voice)
    files = {name: file for name, file in header.files.items() if name != missing}
    bundle.write(voice, replace(header, files=files))
    with pytest.raises(BundleError, match=f"does not name {missing}"):
        bundle.verify(voice)


def test_a_voice_of_a_kind_that_came_later_needs_a_newer_version(voice):
    bundle.write(voice, replace(bundle.read(voice), kind="tomorrow"))
    with pytest.raises(BundleError, match=r"kind tomorrow; .* Update Sotaque\.$"):
        bundle.verify(voice)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"files": 3}', None])
def test_a_garbled_or_newer_bundle_is_a_sentence(voice, content):
    path = voice / "bundle.json"
    newer = json.dumps({**json.loads(path.read_text()), "schema": 2})
    path.write_text(newer if content is None else content)
    told = "schema 2" if content is None else r"bundle\.json is damaged"
    with pytest.raises(BundleError, match=told):
        bundle.read(voice)


def test_a_voice_is_opened_with_its_reference(voice):
    assert load_voice(VoiceSpec(str(voice))).files.reference is None
    shutil.copy(voice / "vocab.json", voice / "reference.wav")
    opened = load_voice(VoiceSpec(str(voice)))
    assert opened.files.reference == voice / "reference.wav"
    assert opened.model.config.weights == "random"
    with pytest.raises(BundleError, match=r"There is no voice at nowhere\..* xtts_v2, .*imported/NAME"):
        load_voice(VoiceSpec("nowhere"))
