"""Files that are no voice, or would do harm: each is refused with a sentence and leaves nothing."""

import hashlib
import json
import stat
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from machine.errors import SotaqueError
from tests.xtts.voices.files.made import (
    MADE,
    entries_of,
    latents,
    members,
    of_base,
    voice_file,
    wav,
    with_manifest,
    zipped,
)
from xtts.__main__ import main
from xtts.voices.base_models import DEMO
from xtts.voices.files import unpacking
from xtts.voices.files.checking import open_voice
from xtts.voices.files.manifest import VoiceFileError


def holding(**changed: bytes) -> Callable[[Path], Path]:
    return lambda path: voice_file(path, **changed)


def manifest(change: Callable[[dict], object]) -> Callable[[Path], None]:
    return lambda path: with_manifest(voice_file(path), change) and None


def without(name: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        voice_file(path)
        zipped(path, [entry for entry in entries_of(path) if entry[0] != name])

    return make


def added(name: str, content: bytes = b"x", *, told: bool = True) -> Callable[[Path], None]:
    """A file with one more member. told: whether the manifest names it."""

    def make(path: Path) -> None:
        voice_file(path)
        if told:
            written = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
            with_manifest(path, lambda fields: fields["members"].update({name: written}))
        zipped(path, [*entries_of(path), (name, content)])

    return make


def as_entry(name: str, change: Callable[[zipfile.ZipInfo], None]) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        voice_file(path)
        entries = []
        for entry, content in entries_of(path):
            about = zipfile.ZipInfo(str(entry))
            if entry == name:
                change(about)
            entries.append((about, content))
        zipped(path, entries)

    return make


def linked(about: zipfile.ZipInfo) -> None:
    about.external_attr = (stat.S_IFLNK | 0o777) << 16


def compressed(about: zipfile.ZipInfo) -> None:
    about.compress_type = zipfile.ZIP_DEFLATED


def bomb(path: Path) -> None:
    """A gigabyte of zeros in a megabyte."""
    voice_file(path)
    about = zipfile.ZipInfo("reference.wav")
    about.compress_type = zipfile.ZIP_DEFLATED
    entries = [entry for entry in entries_of(path) if entry[0] != "reference.wav"]
    zipped(path, [*entries, (about, bytes(64 << 20))])


def patched(path: Path, name: str, offset: int, value: bytes) -> None:
    """Changes a field of a member's row in the directory."""
    content = bytearray(path.read_bytes())
    at = content.rindex(name.encode()) - 46
    assert content[at : at + 4] == b"PK\1\2"
    content[at + offset : at + offset + len(value)] = value
    path.write_bytes(content)


def with_row(offset: int, value: bytes) -> Callable[[Path], None]:
    return lambda path: patched(voice_file(path), "reference.wav", offset, value)


def with_sizes(num_bytes: int) -> Callable[[Path], None]:
    return with_row(20, struct.pack("<II", num_bytes, num_bytes))


def rewritten(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(change(voice_file(path).read_bytes()))


def overlapping(path: Path) -> None:
    """Two members that are the same bytes of the file."""
    voice_file(path)
    with zipfile.ZipFile(path) as file:
        offset = file.getinfo("preview.wav").header_offset
    patched(path, "reference.wav", 42, struct.pack("<I", offset))


def twice(path: Path) -> None:
    voice_file(path)
    with pytest.warns(UserWarning, match="Duplicate"):
        zipped(path, [*entries_of(path), ("reference.wav", wav())])


def changed_byte(path: Path) -> None:
    voice_file(path)
    content = bytearray(path.read_bytes())
    content[content.index(b"data", content.index(b"preview.wav")) + 100] ^= 1
    path.write_bytes(content)


def swapped(path: Path) -> None:
    """A member with a right CRC and another content than the manifest says."""
    voice_file(path)
    other = wav().replace(b"data", b"data", 1)[:-2] + b"\1\2"
    zipped(path, [(n, other if n == "reference.wav" else c) for n, c in entries_of(path)])


def renamed_header(path: Path) -> None:
    """The header at the member has another name than the directory."""
    voice_file(path)
    with zipfile.ZipFile(path) as file:
        at = file.getinfo("reference.wav").header_offset
    content = path.read_bytes()
    path.write_bytes(content[:at] + content[at:].replace(b"reference.wav", b"../../x/a.wav", 1))


def not_first(path: Path) -> None:
    voice_file(path)
    first, *rest = entries_of(path)
    zipped(path, [*rest, first])


def header(change: Callable[[dict], object], tail: bytes = b"") -> Callable[[Path], None]:
    """A file whose voice.safetensors has a changed header."""

    def make(path: Path) -> None:
        content = latents()
        length = int.from_bytes(content[:8], "little")
        tensors = json.loads(content[8 : 8 + length])
        change(tensors)
        text = json.dumps(tensors).encode()
        data = len(text).to_bytes(8, "little") + text + content[8 + length :] + tail
        voice_file(path, voice__safetensors=data)

    return make


def many(path: Path) -> None:
    voice_file(path)
    zipped(path, [*entries_of(path), *((f"speakers/{n}.wav", b"") for n in range(3_000))])


def large_directory(path: Path) -> None:
    """Members that zipfile would read into memory before anybody counts them."""
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(11_000):
            archive.writestr(f"{number:050}", b"")


def nested(path: Path) -> None:
    voice_file(path)
    with_manifest(path, lambda _: b'{"format": 1, "kind": ' + b"[" * 100_000)


def newer(fields: dict) -> dict:
    return fields | {"format": 2}


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "not a ZIP": (lambda path: path.write_bytes(b"GIF89a"), "is not a voice file"),
    "empty": (lambda path: path.write_bytes(b""), "is not a voice file"),
    "an empty ZIP": (lambda path: zipped(path, []), "first member is not manifest.json"),
    "another ZIP": (lambda path: zipped(path, [("a.txt", b"x")]), "first member"),
    "cut": (rewritten(lambda content: content[:-30]), "its end is missing"),
    "a program in front": (
        rewritten(lambda content: b"#!/bin/sh\n" + content),
        "first member is not manifest.json",
    ),
    "the manifest last": (not_first, "first member is not manifest.json"),
    "traversal": (added("../outside.wav"), "'../outside.wav', which no voice has"),
    "an absolute path": (added("/tmp/outside.wav"), "which no voice has"),
    "a backslash": (added("..\\outside.wav"), "which no voice has"),
    "another name at the member": (renamed_header, "reference.wav is damaged"),
    "a pickle": (added("model.pth"), "'model.pth', which no voice has"),
    "an unnamed member": (added("pronunciations.txt", told=False), "which its manifest does not name"),
    "a member of another kind": (added("config.json", b"{}"), "'config.json', which no voice has"),
    "a folder": (added("speakers/"), "which no voice has"),
    "a link": (as_entry("reference.wav", linked), "is a link or a device"),
    "the same name twice": (twice, "'reference.wav' twice"),
    "a large directory": (large_directory, "its directory has"),
    "too many members": (many, "3,005 members"),
    "a bomb": (bomb, "is compressed"),
    "a compressed manifest": (as_entry("manifest.json", compressed), "is compressed"),
    "a size that is too large": (with_sizes(1 << 30), "more than the whole file"),
    "a size that is too small": (with_sizes(10), "reference.wav"),
    "encrypted": (with_row(8, b"\1\0"), "is encrypted"),
    "overlapping": (overlapping, "reference.wav"),
    "a changed byte": (changed_byte, "preview.wav is damaged"),
    "a swapped member": (swapped, "damaged or was changed: its SHA-256"),
    "a missing member": (without("reference.wav"), "lacks reference.wav"),
    "no tensors": (
        manifest(lambda fields: fields["members"].pop("voice.safetensors") and None),
        "lacks voice.safetensors",
    ),
    "a newer format": (manifest(newer), "has the format '2'; this version reads 1"),
    "format true": (manifest(lambda fields: fields | {"format": True}), "has the format 'True'"),
    "no format": (manifest(lambda fields: fields.pop("format") and None), "does not begin with"),
    "a list": (manifest(lambda _: b"[]"), "does not begin with"),
    "nested": (nested, "manifest.json is damaged"),
    "no text": (manifest(lambda _: b"\xff\xfe"), "manifest.json is damaged"),
    "a large manifest": (manifest(lambda _: b" " * (2 << 20)), "has more than"),
    "a name that is a number": (manifest(lambda fields: fields | {"name": 7}), "name Input should"),
    "a hash that is none": (
        manifest(lambda fields: fields | {"base": {"name": "demo", "sha256": "../x"}}),
        "base.sha256",
    ),
    "a negative size": (manifest(lambda fields: fields["members"]["README.md"].update(bytes=-1)), "-1 bytes"),
    "a preview that is no sound": (holding(preview__wav=b"MZ"), "is not a WAV file"),
    "a reference in another format": (
        holding(reference__wav=wav(format="FLAC")),
        "reference.wav is not a WAV file",
    ),
    "a sound that is too long": (
        lambda path: voice_file(path, reference__wav=wav(605, 8_000, subtype="PCM_U8")),
        "605 s",
    ),
    "tensors that are a pickle": (holding(voice__safetensors=b"\x80\x04" + bytes(100)), "Its header has"),
    "a header beyond the file": (holding(voice__safetensors=b"\xff" * 8 + bytes(100)), "Its header has"),
    "a header that is no JSON": (
        holding(voice__safetensors=b"\x04" + bytes(7) + b"{{{{"),
        "header is damaged",
    ),
    "overlapping tensors": (
        header(lambda rows: rows["speaker"].update(data_offsets=[0, 2_048])),
        "is not where its header says",
    ),
    "a tensor beyond the file": (
        header(lambda rows: rows["speaker"].update(shape=[1, 1 << 60, 1])),
        "is not where its header says",
    ),
    "a negative shape": (
        header(lambda rows: rows["speaker"].update(shape=[-1, -512, 1])),
        "is F32 [-1, -512, 1]",
    ),
    "bytes after the tensors": (header(lambda fields: None, b"#!/bin/sh"), "Its tensors end at"),
    "no latents": (header(lambda fields: fields.update(x=fields.pop("latents"))), "lacks the latents"),
    "a foreign tensor": (
        holding(voice__safetensors=latents(evil=np.zeros(3, "float32"))),
        "belongs to no voice of this kind",
    ),
    "latents that are not finite": (
        holding(voice__safetensors=latents(speaker=np.full((1, 512, 1), np.nan, "f4"))),
        "non-finite",
    ),
    "a consent without a person": (
        holding(consent__json=b'{"when": "x", "what": "y"}'),
        "consent.json is damaged",
    ),
}


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def any_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """The base is not what is judged here."""
    monkeypatch.setattr(unpacking, "verified_base_folder", lambda *_, **__: DEMO)


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_a_sentence_and_leaves_nothing(tmp_path, any_base, case):
    make, words = HOSTILE[case]
    path, voices = tmp_path / "hostile.sotaque", tmp_path / "voices"
    make(path)
    with pytest.raises(VoiceFileError) as caught:
        unpacking.import_voice(path, voices, xtts_v2="none", tos_agreed=False)
    assert words in str(caught.value) and str(caught.value).endswith((".", ")", "]"))
    with pytest.raises(VoiceFileError):
        unpacking.cached_folder(path)
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left <= {"hostile.sotaque", ".lock"}


def test_the_same_file_without_a_fault_is_imported(tmp_path, any_base):
    """Else the tests above could pass for any reason."""
    path = voice_file(tmp_path / "anna.sotaque")
    imported = unpacking.import_voice(path, tmp_path / "voices", xtts_v2="none", tos_agreed=False)
    assert imported.folder == tmp_path / "voices" / "imported" / "Anna"
    assert {path.name for path in imported.folder.iterdir()} == {
        "README.md",
        "bundle.json",
        "latents.safetensors",
        "manifest.json",
        "preview.wav",
        "reference.wav",
    }


def test_a_file_that_is_used_directly_speaks_under_its_name(tmp_path):
    """Its folder in the cache once had the file's hash as its name, which became the mark."""
    assert unpacking.cached_folder(voice_file(tmp_path / "b.sotaque")).name == "Anna"


def test_every_cut_of_a_file_is_refused(tmp_path):
    whole = voice_file(tmp_path / "whole.sotaque").read_bytes()
    path = tmp_path / "cut.sotaque"
    for size in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:size])
        with pytest.raises(VoiceFileError):
            open_voice(path).__enter__()


def test_every_flipped_byte_is_a_sentence_or_changes_nothing(tmp_path):
    whole = voice_file(tmp_path / "whole.sotaque").read_bytes()
    path, before = tmp_path / "flipped.sotaque", members()
    places = np.random.default_rng(3).integers(0, len(whole), 150)
    for place in [*places, *range(len(whole) - 60, len(whole))]:
        content = bytearray(whole)
        content[place] ^= 0x55
        path.write_bytes(content)
        try:
            with open_voice(path) as voice:
                assert {name: voice.read(name) for name in before} == before
                assert replace(voice.manifest, members={}) == MADE
        except SotaqueError as error:
            assert "flipped.sotaque" in str(error)


def test_a_wrong_or_missing_base_is_a_sentence_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VOICES_DIR", str(tmp_path / "voices"))
    wrong = of_base(tmp_path / "wrong.sotaque", "c" * 64)
    assert main(["import", str(wrong)]) == 2
    assert "was made from demo with SHA-256 cccccccccccc" in capsys.readouterr().err
    missing = of_base(tmp_path / "missing.sotaque", "c" * 64, "a-base")
    assert main(["import", str(missing)]) == 2
    assert "missing.sotaque was made from it. Use --base." in capsys.readouterr().err
    assert not (tmp_path / "voices").exists()
