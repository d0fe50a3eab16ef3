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
from api.child_run import run_child
from api.errors import APIError, problem_response, without_paths
from api.http.connections import while_connected
from api.runs.listing import RunSummary
from api.settings import ApiSettings
from machine.process import module_command
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
from xtts.voices.run_folder import RunError
from xtts.voices.run_lock import lock

# The module that exports; replaced in tests.
MODULE = "train"
_LIMIT_SECONDS = 900.0
_CHUNK_BYTES = 1 << 20
_EXPORTS_FOLDER = ".exports"
_LOCK_FILE = ".lock"
_DELETED_PREFIX = ".deleted-"
# The exit code of `train export` for a full disk.
_DISK_FULL_CODE = 74
# How many exports may be made or downloaded at once: each is a copy of up to 2 GB.
MAX_COPIES = 3


class Exports:
    """Exports runs into VOICES_DIR, one at a time, because a full-size voice takes 2 GB."""

    def __init__(self, settings: ApiSettings) -> None:
        self.module = MODULE
        self._folder = settings.voices_dir / _EXPORTS_FOLDER
        self._export_lock = asyncio.Lock()
        self._num_copies = 0

    def remove_leftovers(self) -> None:
        """Removes the copies of killed services: a running one holds a lock on each of its copies.
        Blocks."""
        for copy in self._folder.glob("*") if self._folder.is_dir() else ():
            with contextlib.suppress(OSError):
                # On a file system without locks, another replica may be sending it.
                if (
                    locks.is_held(copy / _LOCK_FILE) is False
                    or time.time() - copy.stat().st_mtime > STALE_SECONDS
                ):
                    shutil.rmtree(copy, ignore_errors=True)

    def run_folder(self, run: RunSummary) -> AbstractAsyncContextManager[Path]:
        """A folder with the run's voice and its card, until the end of the block. Raises APIError
        as `temporary_folder` and `export`."""

        async def export_run(folder: Path) -> None:
            voice = folder / ascii_name(run.id)
            await self.export(voice, f"--output-dir={run.folder.folder.absolute()}")
            card = voice_card(run, read_json(voice / "bundle.json"))
            (voice / "CARD.md").write_text(card, encoding="utf-8")

        return self.temporary_folder(largest_checkpoint_bytes(run), export_run)

    @contextlib.asynccontextmanager
    async def temporary_folder(
        self, num_bytes: int, fill: Callable[[Path], Awaitable[None]]
    ) -> AsyncIterator[Path]:
        """A folder that `fill` fills with `num_bytes`, until the end of the block.

        Raises APIError: 503 while another voice is exported or too many exports are being
        downloaded, 507 if the disk has too little room; and the errors of `fill`.
        """
        if self._export_lock.locked() or self._num_copies >= MAX_COPIES:
            text = "Another voice is being exported. Try again when that export has finished."
            if not self._export_lock.locked():
                text = f"{MAX_COPIES} exports are being downloaded. Try again when one has ended."
            raise APIError(503, "export_busy", text, retry_after=10)
        folder = self._folder / secrets.token_hex(8)
        self._num_copies += 1
        try:
            async with contextlib.AsyncExitStack() as held_lock:
                async with self._export_lock:
                    await asyncio.to_thread(self._make_room, num_bytes, folder)
                    held_lock.enter_context(locks.exclusive(folder / _LOCK_FILE))
                    await fill(folder)
                yield folder
        finally:
            self._num_copies -= 1
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))

    def _make_room(self, num_bytes: int, folder: Path) -> None:
        """Creates the folder of a copy. Blocks. Raises APIError."""
        self.remove_leftovers()
        with shared_folder.writing(self._folder):
            make_folder(folder)
            try:
                require_space(self._folder, num_bytes, "the export")
            except DiskFull as error:
                raise APIError(507, "no_space", without_paths(str(error))) from error

    async def export(self, target: Path, *options: str) -> None:
        """Exports a voice to the folder or voice file `target`. options: further ones of `train
        export`. Raises APIError: 409 if there is no voice to export, 507 for a full disk."""
        # A person waits for it, so it yields to speech but not to training.
        command = (
            "nice",
            "-n",
            "5",
            *module_command(self.module, "export", "--to", str(target.absolute()), *options),
        )
        end = await run_child(command, _LIMIT_SECONDS)
        if end.code != 0:
            is_full = end.code == _DISK_FULL_CODE
            reason = without_paths(end.error) or f"It ended with exit code {end.code}."
            if end.code is None:
                reason = f"It took more than {_LIMIT_SECONDS:g} seconds."
            text = f"The voice could not be exported. {reason}"
            raise APIError(507 if is_full else 409, "no_space" if is_full else "no_export", text)


class VoiceFileResponse(Response):
    """Writes a voice file and sends it; nothing of it is left when the client leaves.

    Args:
        write: Writes the file to the path that it receives.
    """

    def __init__(
        self, exports: Exports, file_name: str, num_bytes: int, write: Callable[[Path], Awaitable[None]]
    ) -> None:
        super().__init__()
        self._exports, self._file_name, self._num_bytes, self._write = exports, file_name, num_bytes, write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await while_connected(self._send(scope, receive, send), receive)

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def write_file(folder: Path) -> None:
            await self._write(folder / self._file_name)

        try:
            async with self._exports.temporary_folder(self._num_bytes, write_file) as folder:
                file = FileResponse(
                    folder / self._file_name,
                    media_type="application/zip",
                    filename=self._file_name,
                    headers={"cache-control": "no-store"},
                )
                await file(scope, receive, send)
        except APIError as refusal:
            await problem_response(refusal, scope)(scope, receive, send)


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
            async with self._exports.run_folder(self._run) as folder:
                disposition = f'attachment; filename="{ascii_name(self._run.id)}.zip"'
                headers = {
                    "content-type": self.media_type,
                    "content-disposition": disposition,
                    "cache-control": "no-store",
                }
                raw_headers = [(key.encode(), value.encode()) for key, value in headers.items()]
                await send({"type": "http.response.start", "status": 200, "headers": raw_headers})
                chunks = _zip_chunks(folder)
                while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except APIError as refusal:
            await problem_response(refusal, scope)(scope, receive, send)


def largest_checkpoint_bytes(run: RunSummary) -> int:
    """The size of the run's largest checkpoint, which its export does not exceed by much."""
    checkpoints = [epoch.checkpoint for epoch in run.epochs.values() if epoch.checkpoint]
    return max((path.stat().st_size for path in checkpoints), default=0)


def ascii_name(run_id: str) -> str:
    """The run's name in ASCII, for a file or folder."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", run_id).strip(".-") or "voice"


def voice_card(run: RunSummary, bundle: JsonObject) -> str:
    """The voice card, in Markdown. bundle: the content of the voice's bundle.json. Pure."""
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
    speak = f'.venv/bin/python -m xtts speak --voice {ascii_name(run.id)} --text "Good morning."'
    return "\n".join([*lines, "", f"Speak with it: `{speak} --out out.wav`", ""])


class _ZipBuffer(io.RawIOBase):
    """A file for zipfile to write to; `take` returns and drops the bytes so far."""

    written = b""

    def write(self, data: Any) -> int:
        self.written += bytes(data)
        return len(data)

    def take(self) -> bytes:
        """The bytes written since the last call."""
        taken, self.written = self.written, b""
        return taken


def _zip_chunks(folder: Path) -> Iterator[bytes]:
    """A zip file of all files below `folder` except its lock, in chunks."""
    buffer = _ZipBuffer()
    # Not compressed: weights do not become smaller.
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            if path == folder / _LOCK_FILE:
                continue
            info = zipfile.ZipInfo.from_file(path, str(path.relative_to(folder)))
            with path.open("rb") as source, archive.open(info, "w", force_zip64=True) as member:
                while data := source.read(_CHUNK_BYTES):
                    member.write(data)
                    yield buffer.take()
    yield buffer.take()


def folder_sizes(folder: Path) -> tuple[int, int]:
    """The bytes of all files, and the bytes that their deletion frees: the content of a file with
    another hard link, such as a promoted checkpoint, stays. Blocks."""
    total = freed = 0
    for parent, _folders, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(parent, name))
                total += status.st_size
                freed += status.st_size if status.st_nlink == 1 else 0
    return total, freed


def remove_run(run: RunSummary) -> None:
    """Deletes a named or archived run. It disappears at once; after a kill, the next deletion
    removes the rest. Blocks.

    Raises APIError: 409 while it is being trained, 507 if the folder cannot be written.
    """
    folder = run.folder.folder
    hidden = folder.parent / f"{_DELETED_PREFIX}{secrets.token_hex(4)}"
    try:
        with lock(run.folder), writing_to(folder):
            folder.rename(hidden)
        with writing_to(folder):
            for leftover in folder.parent.glob(f"{_DELETED_PREFIX}*"):
                with contextlib.suppress(FileNotFoundError):  # another replica deletes it too
                    shutil.rmtree(leftover)
    except RunError as error:
        raise APIError(409, "run_in_use", "The run is being trained. Cancel that first.") from error
    except WriteError as error:
        text = (
            f"The run could not be deleted: {without_paths(str(error))} In a container mount "
            "OUTPUT_DIR/runs and OUTPUT_DIR/archive writable, as docker-compose-gpu.yml does."
        )
        raise APIError(507, "not_kept", text) from error
