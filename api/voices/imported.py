"""Imported voices: a file that arrives, the child that checks and unpacks it, and deletion."""

import asyncio
import contextlib
import json
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from api import shared_folder
from api.child_run import run_child
from api.engine.child import VoiceTarget
from api.errors import APIError, without_paths
from api.runs import targets
from api.schemas import OPENAI_VOICES, SERVED
from api.settings import ApiSettings
from api.voices.adapters import Adapters
from machine.process import module_command
from machine.storage.checksums import sha256_of
from xtts.voices import speakers

_MODULE = "api.voices.imported_child"
_LIMIT_SECONDS = 900.0
# The child's exit code for a full disk.
_DISK_FULL_CODE = 74
_DELETED_PREFIX = ".deleted-"


async def import_file(
    settings: ApiSettings, path: Path, name: str, *, replaces: bool, taken: Iterable[str] = ()
) -> dict[str, str]:
    """Imports a voice file into VOICES_DIR; returns its name and kind. name: "" takes the file's.

    A child does it, because the file may come from anybody. Raises APIError: 422 for a file that is
    refused, 507 for a full disk.
    """
    base = None if settings.base_model in ("demo", "xtts_v2") else settings.base_model
    request = {
        "path": str(path),
        "voices_dir": str(settings.voices_dir),
        "name": name,
        "replaces": replaces,
        "base": base,
        "xtts_v2": str(settings.xtts_v2_dir),
        "tos_agreed": settings.coqui_tos_agreed,
        "taken": [SERVED, *OPENAI_VOICES, *taken],
    }
    command = module_command(_MODULE, json.dumps(request))
    end = await run_child(command, _LIMIT_SECONDS, asyncio.subprocess.PIPE)
    if end.code is None:
        text = f"The voice could not be imported within {_LIMIT_SECONDS:g} seconds."
        raise APIError(503, "import_slow", text)
    if end.code == 0:
        return json.loads(end.stdout)
    message = end.error.replace(str(path), "The file")
    text = without_paths(message) or f"The import ended with exit code {end.code}."
    if end.code == _DISK_FULL_CODE:
        raise APIError(507, "no_space", text)
    raise APIError(422, "not_a_voice", text)


def target_of(settings: ApiSettings, adapters: Adapters, name: str, sha256: str) -> VoiceTarget | None:
    """The imported voice of this name as a voice beside the served one, whose weights have this
    SHA-256; None for every other voice."""
    voice = find_named(adapters.of_other_weights(sha256), name)
    if voice is None:
        return None
    own_name, folder = voice
    bundle_sha256 = ""
    with contextlib.suppress(OSError):  # deleted meanwhile: opening it is refused
        bundle_sha256 = sha256_of(Path(folder, "bundle.json"))
    return replace(targets.voice_at(settings, folder, own_name), sha256=bundle_sha256)


def find_named(voices: dict[str, str], name: str) -> tuple[str, str] | None:
    """The name and folder of a voice by its name in any spelling. Clients that treat voices as
    files add their suffix."""
    plain = speakers.normalized_name(name.removesuffix(".wav"))
    return next((voice for voice in voices.items() if speakers.normalized_name(voice[0]) == plain), None)


def remove(settings: ApiSettings, folder: Path) -> None:
    """Deletes an imported voice. It disappears at once; a kill leaves a hidden folder, which the
    next deletion removes. Blocks. Raises APIError (404, 507)."""
    with shared_folder.changing(folder.parent):
        if not folder.is_dir():
            raise APIError(404, "no_voice", "The voice was deleted meanwhile.", param="voice")
        folder.rename(folder.with_name(f"{_DELETED_PREFIX}{secrets.token_hex(4)}"))
        for leftover in folder.parent.glob(f"{_DELETED_PREFIX}*"):
            shutil.rmtree(leftover, ignore_errors=True)
