"""XTTS-v2: its published files, and how to verify them.

Users must agree to its licence; `xtts.voices.base_models` checks that first.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from machine.errors import SotaqueError
from machine.storage.checksums import sha256_of
from machine.storage.files import Written

# XTTS-v2.0.3, the last revision that changed a file (December 2023).
REPOSITORY = "coqui/XTTS-v2"
REVISION = "6c2b0d75eae4b7047358e3b6bd9325f857d43f77"
HUB = "https://huggingface.co"
LICENCE = "CPML 1.0.0"
LICENCE_URL = f"{HUB}/{REPOSITORY}/blob/main/LICENSE.txt"
FOLDER = Path("train/xtts_v2")
DOWNLOAD = (
    'The voice xtts_v2 downloads it once (2.1 GB): `xtts.load_voice("xtts_v2")`, --voice xtts_v2, or '
    "VOICE=xtts_v2 for the service."
)

# Two public projects pin these values for this revision, and eight more repeat them:
# throndir2/Martlet, workers/xtts/host/martlet_xtts_host.py (the model, its JSON files and its
# speakers), and VoiceHub, voicehub/models/xtts/native/dvae_checkpoint.py (the DVAE and mel_stats).
XTTS_V2: Mapping[str, Written] = {
    "config.json": Written("ef262b1454dd2a77e1461b0b2cd53e19b8a7624cc131b837d36df67356bc75e8", 4_368),
    "vocab.json": Written("928260878a59da8a72a2a5b7687fea29d5106137669d90945430fe17e415304a", 361_219),
    "mel_stats.pth": Written("1f69422a8a8f344c4fca2f0c6b8d41d2151d6615b7321e48e6bb15ae949b119c", 1_067),
    "speakers_xtts.pth": Written(
        "f0f6137c19a4eab0cbbe4c99b5babacf68b1746e50da90807708c10e645b943b", 7_754_818
    ),
    "dvae.pth": Written("b29bc227d410d4991e0a8c09b858f77415013eeb9fba9650258e96095557d97a", 210_514_388),
    "model.pth": Written("c7ea20001c6a0a841c77e252d8409f6a74fb423e79b3206a0771ba5989776187", 1_867_929_118),
}
# Coqui's own voices: exports copy them, but nothing here needs them.
OPTIONAL = frozenset({"speakers_xtts.pth"})


class FilesError(SotaqueError):
    """A folder lacks published files; the message says which, and what to do."""


def require_files(folder: Path) -> None:
    """Raises FilesError unless the folder has every needed file, as published."""
    if set(missing := missing_files(folder)) - OPTIONAL:
        raise FilesError(
            f"{folder} does not hold XTTS-v2. {DOWNLOAD} Or by hand: {manual_instructions(folder, missing)}"
        )


def missing_files(folder: Path) -> list[str]:
    """The published files that a folder lacks; the others are verified by size and SHA-256.

    The folder keeps the hashes, so that later starts read only changed files. Raises FilesError
    for a file that is not the published one.
    """
    missing, faults = [], []
    for name, expected in XTTS_V2.items():
        path = folder / name
        try:
            if fault := _fault_of(path, expected):
                faults.append(fault)
        except (FileNotFoundError, NotADirectoryError):
            missing.append(name)
        except OSError as error:
            faults.append(f"{path} cannot be read ({error.strerror}).")
    if faults:
        lines = "\n  ".join(faults)
        raise FilesError(
            f"{folder} does not hold the published XTTS-v2:\n  {lines}\nCopy these files again, or "
            "delete them to download them. To use your own model, set BASE_MODEL to its folder."
        )
    return missing


def manual_instructions(folder: Path, names: Sequence[str]) -> str:
    """The instructions for a machine without a network."""
    lines = "\n".join(f"  {name}: {XTTS_V2[name].bytes:,} bytes" for name in names)
    return (
        f"Put these files of {REPOSITORY} (revision {REVISION[:12]}) into {folder}, from a machine "
        f"that reaches {HUB}/{REPOSITORY}/tree/{REVISION[:12]}:\n{lines}\n"
        "Sotaque then verifies them and downloads nothing."
    )


def _fault_of(path: Path, expected: Written) -> str | None:
    """How a file differs from the published one, as a sentence. Raises OSError."""
    size = path.stat().st_size
    if size != expected.bytes:
        return f"{path} has {size:,} bytes, the published file has {expected.bytes:,}."
    if (sha256 := sha256_of(path, kept_in=path.parent)) != expected.sha256:
        return f"{path} has SHA-256 {sha256[:12]}…, the published file has {expected.sha256[:12]}…."
    return None
