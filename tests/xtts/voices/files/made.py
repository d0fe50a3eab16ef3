"""Voice files of latents, made by hand, with parts that a test may replace."""

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from safetensors.numpy import save

from xtts.voices.files import archive
from xtts.voices.files.manifest import Base, Manifest, Preview

MADE = Manifest(
    format=1,
    kind="latents",
    name="Anna",
    created="2026-11-28T12:00:00+00:00",
    made_by="a test",
    base=Base("demo", "b" * 64),
    languages=("en",),
    licence="MIT",
    licence_text="MIT",
    data_sha256="",
    epoch=0,
    preview=Preview("Good morning.", "en"),
)


def wav(seconds: float = 0.5, rate: int = 24_000, **how: Any) -> bytes:
    out = io.BytesIO()
    wave = np.random.default_rng(0).normal(0, 0.1, int(seconds * rate)).astype("float32")
    soundfile.write(out, wave, rate, **{"format": "WAV", "subtype": "PCM_16"} | how)
    return out.getvalue()


def latents(width: int = 64, embedding: int = 512, **more: Any) -> bytes:
    generator = np.random.default_rng(1)
    tensors = {
        "latents": generator.normal(0, 1, (1, 32, width)).astype("float32"),
        "speaker": generator.normal(0, 1, (1, embedding, 1)).astype("float32"),
    }
    return save({**tensors, **more})


def members(**changed: bytes) -> dict[str, bytes]:
    """The members of a file; `voice__safetensors=` replaces voice.safetensors."""
    made = {
        "README.md": b"# Anna\n",
        "preview.wav": wav(),
        "reference.wav": wav(),
        "voice.safetensors": latents(),
    }
    return made | {name.replace("__", "."): content for name, content in changed.items()}


def voice_file(path: Path, manifest: Manifest = MADE, **changed: bytes) -> Path:
    """A voice file; keywords as in `members`."""
    archive.write(path, manifest, members(**changed))
    return path


def of_base(path: Path, sha256: str, name: str = "demo", width: int = 64) -> Path:
    made = replace(MADE, base=Base(name, sha256))
    return voice_file(path, made, voice__safetensors=latents(width))


def zipped(path: Path, entries: list[tuple[zipfile.ZipInfo | str, bytes]]) -> Path:
    """A ZIP of these entries, in this order, without compression unless an entry says so."""
    with zipfile.ZipFile(path, "w") as file:
        for name, content in entries:
            file.writestr(name, content)
    return path


def entries_of(path: Path) -> list[tuple[zipfile.ZipInfo | str, bytes]]:
    with zipfile.ZipFile(path) as file:
        return [(entry.filename, file.read(entry)) for entry in file.infolist()]


def with_manifest(path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """The file with a changed manifest. change: returns a replacement, or None."""
    (name, content), *rest = entries_of(path)
    manifest = json.loads(content)
    changed = change(manifest)
    manifest = manifest if changed is None else changed
    text = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    return zipped(path, [(name, text), *rest])
