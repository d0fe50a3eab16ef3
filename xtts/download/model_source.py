"""Provides the files of XTTS-v2: copied by hand, from another program's cache, or downloaded.

`xtts.download.xtts_v2` has their names and verifies them.
"""

import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from machine.storage.checksums import sha256_of
from machine.storage.files import WriteError, make_folder, replace_file, require_space
from machine.storage.locks import wait_for
from xtts.download import xtts_v2
from xtts.download.http_file import DownloadError, fetch, part_path
from xtts.download.xtts_v2 import OPTIONAL, REPOSITORY, REVISION, manual_instructions, missing_files

if TYPE_CHECKING:
    from machine.settings.loading import SharedSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelSource:
    """Where the files of XTTS-v2 come from.

    Attributes:
        folder: Where the files are stored.
        url: The address to download from.
        caches: Folders where other programs may have stored the same files.
    """

    folder: Path
    url: str
    caches: tuple[Path, ...] = ()

    @staticmethod
    def of(settings: "SharedSettings") -> "ModelSource":
        """The source that the settings describe."""
        url = f"{settings.hf_endpoint.rstrip('/')}/{REPOSITORY}/resolve/{REVISION}"
        return ModelSource(settings.xtts_v2_dir, url, cache_folders(Path("~").expanduser()))


def cache_folders(home: Path) -> tuple[Path, ...]:
    """The default folders of the hub's client and of Coqui's downloader."""
    hub = home / ".cache" / "huggingface" / "hub" / f"models--{REPOSITORY.replace('/', '--')}"
    coqui = home / ".local" / "share" / "tts" / "tts_models--multilingual--multi-dataset--xtts_v2"
    return (hub / "snapshots" / REVISION, coqui)


def provide_xtts_v2(source: ModelSource) -> Path:
    """Downloads what is missing and returns the folder once every needed file is verified.

    Raises FilesError for files that are not the published ones, DownloadError, DiskFull,
    WriteError.
    """
    if not set(missing_files(source.folder)) - OPTIONAL:
        return source.folder
    wait_message = f"Another process is downloading XTTS-v2 into {source.folder}; waiting for it."
    try:
        make_folder(source.folder)
        with wait_for(source.folder / ".download.lock", lambda: log.info(wait_message)):
            # Another process may have downloaded everything meanwhile.
            missing = missing_files(source.folder)
            if set(missing) - OPTIONAL:
                _fetch_missing(source, missing)
    except WriteError as error:  # DiskFull, too
        raise type(error)(f"{error} XTTS_V2_DIR names this folder.") from error
    return source.folder


def _fetch_missing(source: ModelSource, names: Sequence[str]) -> None:
    """Takes files from caches, and downloads the others, smallest first."""
    downloads = [name for name in names if not _take_from_cache(name, source)]
    if downloads:
        total_bytes = sum(xtts_v2.XTTS_V2[name].bytes for name in downloads)
        parts = [part_path(source.folder / name) for name in downloads]
        downloaded_bytes = sum(part.stat().st_size for part in parts if part.is_file())
        require_space(source.folder, max(0, total_bytes - downloaded_bytes), "XTTS-v2's files")
        log.info(
            "Downloading XTTS-v2 (%.1f MB) from %s into %s. Licence: %s, %s",
            total_bytes / 1e6,
            source.url,
            source.folder,
            xtts_v2.LICENCE,
            xtts_v2.LICENCE_URL,
        )
    for number, name in enumerate(downloads):
        try:
            fetch(f"{source.url}/{name}", source.folder / name, xtts_v2.XTTS_V2[name])
        except DownloadError as error:
            raise DownloadError(
                f"{error}\n{manual_instructions(source.folder, downloads[number:])}"
            ) from error
    # Verifies all files once and stores their hashes.
    missing_files(source.folder)


def _take_from_cache(name: str, source: ModelSource) -> bool:
    """Links or copies a file from a cache that has it; returns whether one did."""
    target, expected = source.folder / name, xtts_v2.XTTS_V2[name]
    for cache in source.caches:
        try:
            # The hub's client keeps links to its blobs.
            cached = (cache / name).resolve(strict=True)
            if cached.stat().st_size != expected.bytes or sha256_of(cached) != expected.sha256:
                continue
        except OSError:
            continue
        log.info("Using %s from %s.", name, cache)
        try:
            os.link(cached, target)
        except OSError:  # another file system or owner, or no support for links
            require_space(target.parent, expected.bytes, name)
            with cached.open("rb") as file:
                replace_file(target, lambda out: shutil.copyfileobj(file, out, 1 << 20))
        return True
    return False
