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
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from api import shared_folder
from api.errors import APIError, response, without_paths
from api.http.connections import while_connected
from api.runs.listing import RunSummary
from api.settings import ApiSettings
from machine.process import StderrFile, kill_group, module_command
from machine.storage import locks
from machine.storage.files import (
    STALE_SECONDS,
    DiskFull,
    JsonObject,
    WriteError,
    make_folder,
    read_json,
    require_space,
    writing_to,
)
from machine.text import printable
from xtts.voices.run_folder import RunError
from xtts.voices.run_lock import lock

# The module that exports; replaced in tests.
MODULE = "train"
_EXPORT_SECONDS = 900.0
_PIECE_BYTES = 1 << 20
_FOLDER = ".exports"
_LOCK = ".lock"
_DELETED = ".deleted-"
# The most exports that are being made or downloaded: each is a copy of up to 2 GB.
MAX_COPIES = 3


class Exports:
    """Exports runs into VOICES_DIR, one at a time, because a full-size voice takes 2 GB."""

    def __init__(self, settings: ApiSettings) -> None:
        self.module = MODULE
        self._folder = settings.voices_dir / _FOLDER
        self._busy = asyncio.Lock()
        self._copies = 0

    def remove_left(self) -> None:
        """Removes the copies of killed services; a service holds a lock on each of its copies.
        Blocks."""
        for copy in self._folder.glob("*") if self._folder.is_dir() else ():
            with contextlib.suppress(OSError):
                # On a file system without locks, another replica may be sending it.
                if locks.is_held(copy / _LOCK) is False or time.time() - copy.stat().st_mtime > STALE_SECONDS:
                    shutil.rmtree(copy, ignore_errors=True)

    def make(self, run: RunSummary) -> AbstractAsyncContextManager[Path]:
        """A folder with the run's voice and its card, until the end of the block. Raises APIError
        as `copy` and `export`."""

        async def make(folder: Path) -> None:
            voice = folder / file_name(run.id)
            await self.export(voice, f"--output-dir={run.folder.folder.absolute()}")
            about = card(run, read_json(voice / "bundle.json"))
            (voice / "CARD.md").write_text(about, encoding="utf-8")

        return self.copy(bytes_of(run), make)

    @contextlib.asynccontextmanager
    async def copy(self, num_bytes: int, make: Callable[[Path], Awaitable[None]]) -> AsyncIterator[Path]:
        """A folder that `make` fills with `num_bytes`, until the end of the block.

        Raises APIError: 503 while another voice is exported or too many exports are being
        downloaded, 507 if the disk has too little room; and the errors of `make`.
        """
        if self._busy.locked() or self._copies >= MAX_COPIES:
            text = "Another voice is being exported. Try again when that export has finished."
            if not self._busy.locked():
                text = f"{MAX_COPIES} exports are being downloaded. Try again when one has ended."
            raise APIError(503, "export_busy", text, retry_after=10)
        folder = self._folder / secrets.token_hex(8)
        self._copies += 1
        try:
            async with contextlib.AsyncExitStack() as held:
                async with self._busy:
                    await asyncio.to_thread(self._make_room, num_bytes, folder)
                    held.enter_context(locks.exclusive(folder / _LOCK))
                    await make(folder)
                yield folder
        finally:
            self._copies -= 1
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))

    def _make_room(self, num_bytes: int, folder: Path) -> None:
        """Creates the folder of a copy. Blocks. Raises APIError."""
        self.remove_left()
        with shared_folder.writing(self._folder):
            make_folder(folder)
            try:
                require_space(self._folder, num_bytes, "the export")
            except DiskFull as error:
                raise APIError(507, "no_space", without_paths(str(error))) from error

    async def export(self, to: Path, *words: str) -> None:
        """Exports a voice to the folder or voice file `to`. words: the further options of `train
        export`. Raises APIError: 409 if there is no voice to export, 507 for a full disk."""
        # A person waits for it, so it yields to speech but not to training.
        command = (
            "nice",
            "-n",
            "5",
            *module_command(self.module, "export", "--to", str(to.absolute()), *words),
        )
        errors = StderrFile()
        child = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=errors.fileno(),
            start_new_session=True,
        )
        hung = False
        try:
            async with asyncio.timeout(_EXPORT_SECONDS):
                await child.wait()
        except TimeoutError:
            hung = True
        finally:  # also if the client has left
            kill_group(child.pid)
            with contextlib.suppress(asyncio.CancelledError):
                await child.wait()
            stderr = printable(errors.tail())
            errors.close()
        if hung or child.returncode != 0:
            full = child.returncode == 74
            reason = without_paths(" ".join(stderr.split())[-700:])
            reason = reason or f"It ended with exit code {child.returncode}."
            if hung:
                reason = f"It took more than {_EXPORT_SECONDS:g} seconds."
            text = f"The voice could not be exported. {reason}"
            raise APIError(507 if full else 409, "no_space" if full else "no_export", text)


class VoiceFileResponse(Response):
    """Makes a voice file and sends it; nothing of it is left when the client leaves."""

    def __init__(
        self, exports: Exports, name: str, num_bytes: int, make: Callable[[Path], Awaitable[None]]
    ) -> None:
        """name: of the file; make: writes the file at the path that it receives."""
        super().__init__()
        self._exports, self._name, self._num_bytes, self._make = exports, name, num_bytes, make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await while_connected(self._send(scope, receive, send), receive)

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def make(folder: Path) -> None:
            await self._make(folder / self._name)

        try:
            async with self._exports.copy(self._num_bytes, make) as folder:
                file = FileResponse(
                    folder / self._name,
                    media_type="application/zip",
                    filename=self._name,
                    headers={"cache-control": "no-store"},
                )
                await file(scope, receive, send)
        except APIError as refusal:
            await response(refusal, scope)(scope, receive, send)


class ZipResponse(Response):
    """Exports a run and sends it as a zip file; nothing of it is left when the client leaves."""

    media_type = "application/zip"

    def __init__(self, exports: Exports, run: RunSummary) -> None:
        super().__init__()
        self._exports, self._run = exports, run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await while_connected(self._send(scope, receive, send), receive)

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self._exports.make(self._run) as folder:
                name = f'attachment; filename="{file_name(self._run.id)}.zip"'
                headers = {
                    "content-type": self.media_type,
                    "content-disposition": name,
                    "cache-control": "no-store",
                }
                raw = [(key.encode(), value.encode()) for key, value in headers.items()]
                await send({"type": "http.response.start", "status": 200, "headers": raw})
                pieces = _zip(folder)
                while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except APIError as refusal:
            await response(refusal, scope)(scope, receive, send)


def bytes_of(run: RunSummary) -> int:
    """The size of the run's largest checkpoint, which its export does not exceed by much."""
    checkpoints = [epoch.checkpoint for epoch in run.epochs.values() if epoch.checkpoint]
    return max((path.stat().st_size for path in checkpoints), default=0)


def file_name(run_id: str) -> str:
    """The name of the folder in the zip file, in ASCII."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", run_id).strip(".-") or "voice"


def card(run: RunSummary, bundle: JsonObject) -> str:
    """The voice card: Markdown for a person. made: the content of its bundle.json. Pure."""
    base = bundle.get("base")
    verdict = run.evaluation.verdict if run.evaluation else None
    lines = [
        f"# {run.id}",
        "",
        "A voice for Sotaque. It imitates a person: use it only as that person allows.",
        "",
        f"- Licence: {bundle.get('licence', 'not known')}",
        f"- Base model: {base.get('name', '') if isinstance(base, dict) else ''}",
        f"- Epoch: {bundle.get('epoch', 'not known')}",
        f"- Made at: {bundle.get('made_at', 'not known')}",
    ]
    if verdict is not None:
        lines.append(f"- Why these weights: {verdict.reason}")
    # The command runs in the recipient's clone of the repository.
    speak = f'.venv/bin/python -m xtts speak --voice {file_name(run.id)} --text "Good morning."'
    return "\n".join([*lines, "", f"Speak with it: `{speak} --out out.wav`", ""])


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


def _zip(folder: Path) -> Iterator[bytes]:
    """A zip file of all files below `folder` but its lock."""
    pieces = _Pieces()
    # Not compressed: weights do not become smaller.
    with zipfile.ZipFile(pieces, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            if path == folder / _LOCK:
                continue
            about = zipfile.ZipInfo.from_file(path, str(path.relative_to(folder)))
            with path.open("rb") as source, archive.open(about, "w", force_zip64=True) as to:
                while data := source.read(_PIECE_BYTES):
                    to.write(data)
                    yield pieces.take()
    yield pieces.take()


def sizes(folder: Path) -> tuple[int, int]:
    """The bytes of all files, and how many of them deletion frees: files with another hard link,
    such as a promoted checkpoint, stay. Blocks."""
    total = freed = 0
    for parent, _folders, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(parent, name))
                total += status.st_size
                freed += status.st_size if status.st_nlink == 1 else 0
    return total, freed


def remove(run: RunSummary) -> None:
    """Deletes a named or archived run. It disappears at once; after a kill, the next deletion
    removes the rest. Blocks.

    Raises APIError: 409 while it is being trained, 507 if the folder cannot be written.
    """
    folder = run.folder.folder
    gone = folder.parent / f"{_DELETED}{secrets.token_hex(4)}"
    try:
        with lock(run.folder), writing_to(folder):
            folder.rename(gone)
        with writing_to(folder):
            for deleted in folder.parent.glob(f"{_DELETED}*"):
                with contextlib.suppress(FileNotFoundError):  # another replica deletes it too
                    shutil.rmtree(deleted)
    except RunError as error:
        raise APIError(409, "run_in_use", "The run is being trained. Cancel that first.") from error
    except WriteError as error:
        text = (
            f"The run could not be deleted: {without_paths(str(error))} In a container mount "
            "OUTPUT_DIR/runs and OUTPUT_DIR/archive writable, as docker-compose-gpu.yml does."
        )
        raise APIError(507, "not_kept", text) from error
