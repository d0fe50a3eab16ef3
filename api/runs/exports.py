"""Exports a run as a zip file with a voice card, measures its size on disk, and deletes it."""

import asyncio
import contextlib
import io
import os
import re
import secrets
import shutil
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from api import shared_folder
from api.errors import APIError, without_paths
from api.runs.listing import RunSummary
from api.settings import ApiSettings
from machine.process import module_command, run_with_timeout
from machine.storage.atomic import WriteError, make_folder, refused
from machine.storage.leftovers import STALE_SECONDS
from machine.storage.reading import read_json
from xtts.voices.run_folder import RunError
from xtts.voices.run_lock import locked

# The module that exports; replaced in tests.
MODULE = "train"
_EXPORT_SECONDS = 900.0
_PIECE_BYTES = 1 << 20
_FOLDER = ".exports"
_DELETED = ".deleted-"


class Exports:
    """Exports one run at a time, in VOICES_DIR, because a full-size voice takes 2 GB."""

    def __init__(self, settings: ApiSettings) -> None:
        self.module = MODULE
        self._folder = settings.voices_dir / _FOLDER
        self._busy = asyncio.Lock()

    async def make(self, run: RunSummary) -> Iterator[bytes]:
        """The zip file in pieces. Raises APIError: 409 for a run without a voice, 503 while another
        run is exported, 507 if the disk is full."""
        if self._busy.locked():
            text = "Another run is being exported. Try again when that export has finished."
            raise APIError(503, "export_busy", text, retry_after=10)
        async with self._busy:
            folder = self._folder / secrets.token_hex(8)
            try:
                await asyncio.to_thread(self._export, run, folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        return _zipped(folder)

    def _export(self, run: RunSummary, folder: Path) -> None:
        with shared_folder.kept(self._folder):
            make_folder(folder)
            _remove_old(self._folder)
        name = file_name(run.id)
        # A person waits for it, so it yields to speech but not to training.
        done = run_with_timeout(
            ("nice", "-n", "5", *module_command(
                self.module, "export", "--to", str((folder / name).absolute()),
                f"--output-dir={run.folder.folder.absolute()}",
            )), _EXPORT_SECONDS,
        )  # fmt: skip
        if done.code != 0:
            full = done.code == 74
            words = without_paths(" ".join(done.errors.split())[-700:] or done.last_error)
            text = f"The run could not be exported. {words}"
            raise APIError(507 if full else 409, "no_space" if full else "no_export", text)
        (folder / name / "CARD.md").write_text(
            card(run, read_json(folder / name / "bundle.json")), encoding="utf-8"
        )


def file_name(run_id: str) -> str:
    """The name of the folder in the zip file, in ASCII."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", run_id).strip(".-") or "voice"


def card(run: RunSummary, made: dict[str, Any]) -> str:
    """The voice card: Markdown for a person. made: the content of its bundle.json. Pure."""
    base = made.get("base")
    verdict = run.evaluation.verdict if run.evaluation else None
    lines = [
        f"# {run.id}", "",
        "A voice for Sotaque. It imitates a person: use it only as that person allows.", "",
        f"- Licence: {made.get('licence', 'not known')}",
        f"- Base model: {base.get('name', '') if isinstance(base, dict) else ''}",
        f"- Epoch: {made.get('epoch', 'not known')}",
        f"- Made at: {made.get('made_at', 'not known')}",
    ]  # fmt: skip
    if verdict is not None:
        lines.append(f"- Why these weights: {verdict.reason}")
    # The command runs in the recipient's clone of the repository.
    speak = f'.venv/bin/python -m xtts speak --voice {file_name(run.id)} --text "Good morning."'
    return "\n".join([*lines, "", f"Speak with it: `{speak} --out out.wav`", ""])


def _remove_old(folder: Path) -> None:
    """Removes the folders of killed exports."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for one in entries:
            if time.time() - one.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(one.path, ignore_errors=True)


class _Pieces(io.RawIOBase):
    """A file for zipfile to write to; `take` returns and drops the bytes so far."""

    written = b""

    def write(self, data: Any) -> int:
        self.written += bytes(data)
        return len(data)

    def take(self) -> bytes:
        """The bytes written since the last call."""
        taken, self.written = self.written, b""
        return taken


def _zipped(folder: Path) -> Iterator[bytes]:
    """A zip file of all files below `folder`, which is deleted at the end."""
    pieces = _Pieces()
    try:
        # Not compressed: weights do not become smaller.
        with zipfile.ZipFile(pieces, "w") as archive:
            for path in sorted(one for one in folder.rglob("*") if one.is_file()):
                about = zipfile.ZipInfo.from_file(path, str(path.relative_to(folder)))
                with path.open("rb") as source, archive.open(about, "w", force_zip64=True) as to:
                    while data := source.read(_PIECE_BYTES):
                        to.write(data)
                        yield pieces.take()
        yield pieces.take()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sizes(folder: Path) -> tuple[int, int]:
    """The bytes of all files, and how many of them deletion frees: files with another hard link,
    such as a promoted checkpoint, stay. Blocks."""
    total = freed = 0
    for parent, _folders, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found = os.lstat(os.path.join(parent, name))
                total += found.st_size
                freed += found.st_size if found.st_nlink == 1 else 0
    return total, freed


def remove(run: RunSummary) -> None:
    """Deletes a named or archived run. It disappears at once; after a kill, the next deletion
    removes the rest. Blocks.

    Raises APIError: 409 while it is being trained, 507 if the folder cannot be written.
    """
    folder = run.folder.folder
    gone = folder.parent / f"{_DELETED}{secrets.token_hex(4)}"
    try:
        with locked(run.folder), refused(folder):
            folder.rename(gone)
        with refused(folder):
            for one in folder.parent.glob(f"{_DELETED}*"):
                with contextlib.suppress(FileNotFoundError):  # another replica deletes it too
                    shutil.rmtree(one)
    except RunError as error:
        raise APIError(409, "run_in_use", "The run is being trained. Cancel that first.") from error
    except WriteError as error:
        text = (
            f"The run could not be deleted: {without_paths(str(error))} In a container mount "
            "OUTPUT_DIR/runs and OUTPUT_DIR/archive writable, as docker-compose-gpu.yml does."
        )
        raise APIError(507, "not_kept", text) from error
