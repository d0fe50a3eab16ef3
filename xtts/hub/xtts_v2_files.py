"""The published files of XTTS-v2: names, sizes, hashes, licence.

Looking only: `xtts.hub.xtts_v2` brings what is missing, `xtts.hub.base_models` asks for the licence
first.
"""

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from machine.errors import SotaqueError
from machine.storage.atomic import WriteError, Written, sha256_of, write_json
from machine.storage.hash_cache import HashedFile

log = logging.getLogger(__name__)

# XTTS-v2.0.3, the last revision that changed a file (December 2023).
REPOSITORY = "coqui/XTTS-v2"
REVISION = "6c2b0d75eae4b7047358e3b6bd9325f857d43f77"
HUB = "https://huggingface.co"
LICENCE = "CPML 1.0.0"
LICENCE_URL = f"{HUB}/{REPOSITORY}/blob/main/LICENSE.txt"
FOLDER = Path("train/xtts_v2")

# As two public projects pin them for that revision, and eight more repeat them: throndir2/Martlet,
# workers/xtts/host/martlet_xtts_host.py (the model, its JSON files and its speakers), and VoiceHub,
# voicehub/models/xtts/native/dvae_checkpoint.py (the DVAE and mel_stats).
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
# Coqui's own voices: exports carry them on, nothing of ours needs them.
WELCOME = frozenset({"speakers_xtts.pth"})
_MANIFEST = "verified.json"
_WORTH_A_LINE = 50_000_000


class FilesError(SotaqueError):
    """A folder that does not hold the published files; the sentence says which, and what to do."""


@dataclass(frozen=True)
class XttsV2Files:
    """What a folder holds of the published files; what it holds is the published file."""

    whole: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """True when nothing is missing that a base model needs."""
        return not set(self.missing) - WELCOME


def look_at_files(folder: Path) -> XttsV2Files:
    """Compares what is there with what is published, by size and SHA-256.

    A file is hashed once; `verified.json` remembers it by its size and time. Raises FilesError
    when one is another than the published one.
    """
    known, seen = _read_manifest(folder), dict[str, HashedFile]()
    missing, wrong = [], []
    for name, expected in XTTS_V2.items():
        try:
            seen[name] = _seen(folder / name, expected, known.get(name))
        except (FileNotFoundError, NotADirectoryError):
            missing.append(name)
            continue
        except OSError as error:
            wrong.append(f"{folder / name} cannot be read ({error.strerror}).")
            continue
        if fault := fault_of(folder / name, expected, seen[name]):
            wrong.append(fault)
            del seen[name]
    if seen != known:
        _write_manifest(folder, seen)
    if wrong:
        lines = "\n  ".join(wrong)
        raise FilesError(
            f"{folder} does not hold XTTS-v2 as it is published:\n  {lines}\nCopy them again, or "
            "delete them and they are downloaded. For a model of your own set BASE_MODEL to its "
            "folder."
        )
    return XttsV2Files(tuple(seen), tuple(missing))


def fault_of(path: Path, expected: Written, found: HashedFile) -> str | None:
    """None for the published file, else the sentence that says what it is instead."""
    if found.bytes != expected.bytes:
        return f"{path} has {found.bytes:,} bytes, the published one {expected.bytes:,}."
    if found.sha256 != expected.sha256:
        return (
            f"{path} has SHA-256 {found.sha256[:12]}…, the published one {expected.sha256[:12]}…."
        )
    return None


def by_hand(folder: Path, names: Sequence[str]) -> str:
    """What to do without a network."""
    lines = "\n".join(f"  {name}: {XTTS_V2[name].bytes:,} bytes" for name in names)
    return (
        f"Put these files of {REPOSITORY} (revision {REVISION[:12]}) into {folder}, from a machine "
        f"that reaches {HUB}/{REPOSITORY}/tree/{REVISION[:12]}:\n{lines}\n"
        "They are verified, and nothing is downloaded then."
    )


def _seen(path: Path, expected: Written, known: HashedFile | None) -> HashedFile:
    """Hashes a file of the right size, unless that was done before. Raises OSError."""
    there = path.stat()
    if known and known.is_still(there):
        return known
    if there.st_size != expected.bytes:
        return HashedFile("", there.st_size, there.st_mtime_ns)
    if there.st_size > _WORTH_A_LINE:
        log.info("Verifying %s (%d MB) ...", path, there.st_size / 1e6)
    return HashedFile(sha256_of(path), there.st_size, there.st_mtime_ns)


def _read_manifest(folder: Path) -> dict[str, HashedFile]:
    try:
        return TypeAdapter(dict[str, HashedFile]).validate_json((folder / _MANIFEST).read_bytes())
    except (OSError, ValidationError):
        return {}


def _write_manifest(folder: Path, seen: Mapping[str, HashedFile]) -> None:
    # A folder that cannot be written is hashed again at the next start, and that is all.
    with contextlib.suppress(WriteError):
        write_json(folder / _MANIFEST, {name: asdict(one) for name, one in seen.items()})
