"""The base model of a checkpoint, and the licences of base models and voices.

`train.base_model` chooses the base of a run.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path

from machine.errors import SotaqueError
from machine.storage.checksums import sha256_of
from xtts.download import xtts_v2 as published
from xtts.model.config import CPML, ConfigError, ModelConfig, short_name

DEMO = Path(__file__).parent.parent / "assets" / "demo"
# The addresses of the terms, by the names of licences in config.json and exports.
_TERMS = {"MIT": "https://spdx.org/licenses/MIT.html", CPML: published.LICENCE_URL}
_HOW_TO_AGREE = (
    f"Its licence ({published.LICENCE}, {published.LICENCE_URL}) is non-commercial, "
    "for the model and its output. Read it, and set COQUI_TOS_AGREED=1 if you agree, as a line of "
    ".env or in the environment of the command or service; in Python, pass tos_agreed=True to "
    "load_voice."
)


class BundleError(SotaqueError):
    """A voice or base model cannot be used; the message names file and reason."""


class ConsentError(BundleError):
    """The user has not agreed to XTTS-v2's licence."""


def licence_in_brief(licence: str) -> str:
    """The name of a licence and, if known, the address of its terms. Leaves out the training data,
    which config.json and CARD.md name."""
    name = short_name(licence)
    return f"{name}, {_TERMS[name]}" if name in _TERMS else name


def require_consent(
    subject: str, folder: Path, provenance: Mapping[str, object], *, tos_agreed: bool
) -> None:
    """Refuses XTTS-v2, and models made from it, unless the user has agreed to its licence.

    They are recognised by the size of the published weights, by `base` and `licence` in the
    provenance, and by the licence in config.json, which defaults to Coqui's because Coqui's trainer
    does not write one. Call this before weights are read. It ignores a folder that cannot be read.

    Args:
        subject: The name of the model in the message.
        folder: The model's folder.
        provenance: The provenance of a checkpoint or an export; may be empty.

    Raises:
        ConsentError: The licence applies and tos_agreed is False.
    """
    if tos_agreed:
        return
    weights, base = published.XTTS_V2["model.pth"], _base_in(provenance)
    is_published = base.get("name") == "xtts_v2" or base.get("sha256") == weights.sha256
    licences = [str(provenance.get("licence", ""))]
    with contextlib.suppress(OSError):
        is_published = is_published or (folder / "model.pth").stat().st_size == weights.bytes
    with contextlib.suppress(ConfigError):
        licences.append(ModelConfig.read(folder).licence)
    if is_published or any(short_name(licence) == CPML for licence in licences):
        raise ConsentError(f"{subject} is Coqui's XTTS-v2 or was made from it. {_HOW_TO_AGREE}")


def base_named(name: str, xtts_v2: Path) -> Path:
    """The folder of a base by its name in BASE_MODEL or in a checkpoint. xtts_v2: XTTS_V2_DIR."""
    return {"demo": DEMO, "xtts_v2": xtts_v2}.get(name) or Path(name).expanduser()


def verified_base_folder(
    checkpoint: Path,
    provenance: Mapping[str, object],
    folder: str | Path | None,
    xtts_v2: str | Path = published.FOLDER,
    *,
    tos_agreed: bool = False,
) -> Path:
    """The base folder of a checkpoint or voice, verified by hash. Nothing is downloaded.

    folder: the current path of the base; None takes the path in the provenance. xtts_v2:
    XTTS_V2_DIR. tos_agreed: the user has set COQUI_TOS_AGREED=1. Raises BundleError, or FilesError
    if XTTS-v2 is missing.
    """
    recorded_base = _base_in(provenance)
    name = str(recorded_base.get("name"))
    base_folder = Path(folder) if folder else base_named(name, Path(xtts_v2))
    # Asked again, because the speaking user may not be the one who agreed before the training.
    require_consent(checkpoint.name, base_folder, provenance, tos_agreed=tos_agreed)
    if name == "xtts_v2" and not folder:
        published.require_files(base_folder)
    weights = base_folder / "model.pth"
    if not weights.is_file():
        raise BundleError(f"{weights} is missing; {checkpoint.name} was made from it. Use --base.")
    if (sha256 := sha256_of(weights)) != recorded_base.get("sha256"):
        raise BundleError(
            f"{checkpoint.name} was made from {name} with SHA-256 "
            f"{str(recorded_base.get('sha256'))[:12]}…, but {weights} has {sha256[:12]}…. "
            "Name the folder of the right base with --base."
        )
    return base_folder


def _base_in(provenance: Mapping[str, object]) -> Mapping[str, object]:
    """The name and hash of the base in a provenance; {} without one."""
    base = provenance.get("base")
    return base if isinstance(base, dict) else {}
