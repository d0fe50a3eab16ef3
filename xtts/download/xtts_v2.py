"""XTTS-v2: its published files, and how to verify and download them.

Users must agree to its licence; `xtts.voices.base_models` checks that first. The files are copied
by hand, taken from another program's cache, or downloaded.
"""

import contextlib
import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from machine.errors import SotaqueError
from machine.storage.atomic import (
    WriteError,
    Written,
    make_folder,
    replace_file,
    require_space,
    write_json,
)
from machine.storage.hashes import HashedFile, hashed_file, sha256_of, trust_cached_hash
from machine.storage.locks import wait_for
from xtts.download.http_file import DownloadError, fetch, part_of

if TYPE_CHECKING:
    from machine.settings.loading import SharedSettings

log = logging.getLogger(__name__)

# XTTS-v2.0.3, the last revision that changed a file (December 2023).
REPOSITORY = "coqui/XTTS-v2"
REVISION = "6c2b0d75eae4b7047358e3b6bd9325f857d43f77"
HUB = "https://huggingface.co"
LICENCE = "CPML 1.0.0"
LICENCE_URL = f"{HUB}/{REPOSITORY}/blob/main/LICENSE.txt"
FOLDER = Path("train/xtts_v2")

# Two public projects pin these values for that revision, and eight more repeat them:
# throndir2/Martlet, workers/xtts/host/martlet_xtts_host.py (the model, its JSON files and its
# speakers), and VoiceHub, voicehub/models/xtts/native/dvae_checkpoint.py (the DVAE and mel_stats).
XTTS_V2: Mapping[str, Written] = {
    "config.json": Written(
        "ef262b1454dd2a77e1461b0b2cd53e19b8a7624cc131b837d36df67356bc75e8", 4_368
    ),
    "vocab.json": Written(
        "928260878a59da8a72a2a5b7687fea29d5106137669d90945430fe17e415304a", 361_219
    ),
    "mel_stats.pth": Written(
        "1f69422a8a8f344c4fca2f0c6b8d41d2151d6615b7321e48e6bb15ae949b119c", 1_067
    ),
    "speakers_xtts.pth": Written(
        "f0f6137c19a4eab0cbbe4c99b5babacf68b1746e50da90807708c10e645b943b", 7_754_818
    ),
    "dvae.pth": Written(
        "b29bc227d410d4991e0a8c09b858f77415013eeb9fba9650258e96095557d97a", 210_514_388
    ),
    "model.pth": Written(
        "c7ea20001c6a0a841c77e252d8409f6a74fb423e79b3206a0771ba5989776187", 1_867_929_118
    ),
}
# Coqui's own voices: exports copy them, but nothing here needs them.
OPTIONAL = frozenset({"speakers_xtts.pth"})
_MANIFEST = "verified.json"
_WORTH_A_LINE = 50_000_000


class FilesError(SotaqueError):
    """A folder does not hold the published files; the text says which, and what to do."""


@dataclass(frozen=True)
class ModelSource:
    """Where the files of XTTS-v2 come from.

    Attributes:
        folder: Where they are stored.
        url: The address to download from; None downloads nothing.
        caches: Folders where other programs may have stored the same files.
    """

    folder: Path = FOLDER
    url: str | None = None
    caches: tuple[Path, ...] = ()

    @staticmethod
    def of(settings: "SharedSettings") -> "ModelSource":
        """The source that the settings describe."""
        url = f"{settings.hf_endpoint.rstrip('/')}/{REPOSITORY}/resolve/{REVISION}"
        return ModelSource(settings.xtts_v2_dir, url, caches(Path("~").expanduser()))


def caches(home: Path) -> tuple[Path, ...]:
    """The default folders of the hub's client and of Coqui's downloader."""
    hub = home / ".cache" / "huggingface" / "hub" / f"models--{REPOSITORY.replace('/', '--')}"
    coqui = home / ".local" / "share" / "tts" / "tts_models--multilingual--multi-dataset--xtts_v2"
    return (hub / "snapshots" / REVISION, coqui)


def provide_xtts_v2(source: ModelSource) -> Path:
    """Downloads what is missing and returns the folder once every needed file is verified.

    Raises FilesError for files that are not the published ones, DownloadError, DiskFull,
    WriteError.
    """
    missing = missing_files(source.folder)
    if not set(missing) - OPTIONAL:
        return source.folder
    if source.url is None:
        raise FilesError(
            f"{source.folder} does not hold XTTS-v2. {by_hand(source.folder, missing)}"
        )
    waiting = f"Another process is downloading XTTS-v2 into {source.folder}; waiting for it."
    try:
        make_folder(source.folder)
        with wait_for(source.folder / ".download.lock", lambda: log.info(waiting)):
            # Another process may have downloaded everything meanwhile.
            missing = missing_files(source.folder)
            if set(missing) - OPTIONAL:
                _bring(source, source.url, missing)
    except WriteError as error:  # DiskFull, too
        raise type(error)(f"{error} XTTS_V2_DIR names this folder.") from error
    return source.folder


def missing_files(folder: Path) -> list[str]:
    """The published files that a folder lacks; the others are verified by size and SHA-256.

    A file is hashed once: `verified.json` stores its size and time. Raises FilesError for a file
    that is not the published one.
    """
    try:
        content = (folder / _MANIFEST).read_bytes()
        known = TypeAdapter(dict[str, HashedFile]).validate_json(content)
    except (OSError, ValidationError):
        known = {}
    seen, missing, wrong = dict[str, HashedFile](), [], []
    for name, expected in XTTS_V2.items():
        path = folder / name
        if name in known:
            trust_cached_hash(path, known[name])
        try:
            if fault := _fault_of(path, expected):
                wrong.append(fault)
            elif hashed := hashed_file(path):
                seen[name] = hashed
        except (FileNotFoundError, NotADirectoryError):
            missing.append(name)
        except OSError as error:
            wrong.append(f"{path} cannot be read ({error.strerror}).")
    if seen != known:
        # In a folder that cannot be written, the next start hashes the files again.
        with contextlib.suppress(WriteError):
            write_json(folder / _MANIFEST, {name: asdict(one) for name, one in seen.items()})
    if wrong:
        lines = "\n  ".join(wrong)
        raise FilesError(
            f"{folder} does not hold the published XTTS-v2:\n  {lines}\nCopy these files again, or "
            "delete them to download them. To use your own model, set BASE_MODEL to its folder."
        )
    return missing


def by_hand(folder: Path, names: Sequence[str]) -> str:
    """The instructions for a machine without a network."""
    lines = "\n".join(f"  {name}: {XTTS_V2[name].bytes:,} bytes" for name in names)
    return (
        f"Put these files of {REPOSITORY} (revision {REVISION[:12]}) into {folder}, from a machine "
        f"that reaches {HUB}/{REPOSITORY}/tree/{REVISION[:12]}:\n{lines}\n"
        "Sotaque then verifies them and downloads nothing."
    )


def _bring(source: ModelSource, url: str, names: Sequence[str]) -> None:
    """Takes files from caches and downloads the rest, smallest first."""
    left = [name for name in names if not _taken(name, source)]
    if left:
        needed = sum(XTTS_V2[name].bytes for name in left)
        parts = [part_of(source.folder / name) for name in left]
        kept = sum(part.stat().st_size for part in parts if part.is_file())
        require_space(source.folder, max(0, needed - kept), "XTTS-v2's files")
        log.info("Downloading XTTS-v2 (%.1f MB) from %s into %s. Licence: %s, %s",
                 needed / 1e6, url, source.folder, LICENCE, LICENCE_URL)  # fmt: skip
    for number, name in enumerate(left):
        try:
            fetch(f"{url}/{name}", source.folder / name, XTTS_V2[name])
        except DownloadError as error:
            raise DownloadError(f"{error}\n{by_hand(source.folder, left[number:])}") from error
    # Verifies everything once and stores the result.
    missing_files(source.folder)


def _taken(name: str, source: ModelSource) -> bool:
    """Links or copies a file from a cache that has it; returns whether one did."""
    target, expected = source.folder / name, XTTS_V2[name]
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


def _fault_of(path: Path, expected: Written) -> str | None:
    """How a file differs from the published one, as a sentence. Raises OSError."""
    size = path.stat().st_size
    if size != expected.bytes:
        return f"{path} has {size:,} bytes, the published file has {expected.bytes:,}."
    if size > _WORTH_A_LINE and not hashed_file(path):
        log.info("Verifying %s (%d MB) ...", path, size / 1e6)
    if (sha256 := sha256_of(path)) != expected.sha256:
        return f"{path} has SHA-256 {sha256[:12]}…, the published file has {expected.sha256[:12]}…."
    return None
