"""XTTS-v2: found by hand or in a cache, or downloaded once the licence is agreed.

Only for whoever has agreed to its licence; `xtts.hub.base_models` asks for that first.
"""

import contextlib
import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from machine.settings.loading import SharedSettings
from machine.storage.atomic import WriteError, replace_file, require_space, sha256_of
from machine.storage.locks import wait_for
from xtts.hub import xtts_v2_files
from xtts.hub.download import DownloadError, fetch, part_of
from xtts.hub.xtts_v2_files import (
    FOLDER,
    LICENCE,
    LICENCE_URL,
    REPOSITORY,
    REVISION,
    FilesError,
    by_hand,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelSource:
    """Where the files are to lie, and the address they come from; None = nothing is downloaded.

    caches: folders in which other programs may have put the same files.
    """

    folder: Path = FOLDER
    url: str | None = None
    caches: tuple[Path, ...] = ()

    @staticmethod
    def of(settings: SharedSettings) -> "ModelSource":
        """What the settings say about XTTS-v2."""
        url = address(settings.xtts_v2_url, settings.hf_endpoint)
        return ModelSource(settings.xtts_v2_dir, url, caches(Path("~").expanduser()))


def address(url: str | None, hub: str) -> str:
    """The address of the files: `url` where one is set, else the pinned revision at the hub."""
    return (url or f"{hub.rstrip('/')}/{REPOSITORY}/resolve/{REVISION}").rstrip("/")


def caches(home: Path) -> tuple[Path, ...]:
    """Where the hub's client and Coqui's own downloader put these files by default."""
    hub = home / ".cache" / "huggingface" / "hub" / f"models--{REPOSITORY.replace('/', '--')}"
    coqui = home / ".local" / "share" / "tts" / "tts_models--multilingual--multi-dataset--xtts_v2"
    return (hub / "snapshots" / REVISION, coqui)


def provide_xtts_v2(source: ModelSource) -> Path:
    """The folder, once every file in it that is needed is the published one.

    Raises FilesError for files that are other ones, DownloadError, DiskFull, WriteError.
    """
    found = xtts_v2_files.look_at_files(source.folder)
    if found.complete:
        return source.folder
    if source.url is None:
        raise FilesError(
            f"{source.folder} does not hold XTTS-v2. {by_hand(source.folder, found.missing)}"
        )
    with _alone(source.folder):
        # Another start may have brought everything while this one waited.
        found = xtts_v2_files.look_at_files(source.folder)
        if not found.complete:
            _bring(source, source.url, found.missing)
    return source.folder


def _alone(folder: Path) -> contextlib.AbstractContextManager[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(
            f"XTTS_V2_DIR={folder} cannot be made ({error.strerror}). Make it writable for this "
            "user, or set XTTS_V2_DIR to another folder."
        ) from error
    sentence = f"Another process is bringing XTTS-v2 into {folder}; waiting until it is done."
    return wait_for(folder / ".download.lock", lambda: log.info(sentence))


def _bring(source: ModelSource, url: str, names: Sequence[str]) -> None:
    """Takes over what caches have and downloads the rest, the smallest first."""
    left = [name for name in names if not _taken(name, source)]
    needed = sum(xtts_v2_files.XTTS_V2[name].bytes for name in left)
    if left:
        kept = sum(_size(part_of(source.folder / name)) for name in left)
        require_space(source.folder, max(0, needed - kept), "XTTS-v2's files")
        log.info("Downloading XTTS-v2 (%.1f MB) from %s into %s. Licence: %s, %s",
                 needed / 1e6, url, source.folder, LICENCE, LICENCE_URL)  # fmt: skip
    for number, name in enumerate(left):
        try:
            fetch(f"{url}/{name}", source.folder / name, xtts_v2_files.XTTS_V2[name])
        except DownloadError as error:
            raise DownloadError(f"{error}\n{by_hand(source.folder, left[number:])}") from error
    # Reads everything back once, and remembers it.
    xtts_v2_files.look_at_files(source.folder)


def _taken(name: str, source: ModelSource) -> bool:
    """Takes a file over from a cache that has it: a link where that works, else a copy."""
    target, expected = source.folder / name, xtts_v2_files.XTTS_V2[name]
    for cache in source.caches:
        try:
            # The hub's client keeps links to its blobs.
            found = (cache / name).resolve(strict=True)
            if found.stat().st_size != expected.bytes or sha256_of(found) != expected.sha256:
                continue
        except OSError:
            continue
        log.info("%s is taken over from %s.", name, cache)
        _link_or_copy(found, target, expected.bytes)
        return True
    return False


def _link_or_copy(found: Path, target: Path, num_bytes: int) -> None:
    try:
        os.link(found, target)
    except OSError:  # another file system, another owner, or one without links
        require_space(target.parent, num_bytes, target.name)
        with found.open("rb") as file:
            replace_file(target, lambda out: shutil.copyfileobj(file, out, 1 << 20))


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
