"""Adapters as voices: the LoRA weights of several people for one served base.

    VOICES_DIR/adapters/NAME/    as `train export --adapter` writes it; NAME is the voice's

`api.runs.following` reads the folder every two seconds, so a new adapter needs no restart. The
speaking process loads and verifies an adapter at its first request, in a separate thread.
"""

import contextlib
import logging
from pathlib import Path

from api.errors import APIError, shown
from api.voices import store
from xtts.voices import bundle, speakers
from xtts.voices.base_models import BundleError
from xtts.voices.bundle import Bundle

log = logging.getLogger("api")

FOLDER = "adapters"


class Adapters:
    """The adapters in a folder, as last read. backend: the service's; `onnx` supports none."""

    def __init__(self, folder: Path, backend: str) -> None:
        self.folder = folder
        self._backend = backend
        self._known: dict[str, Bundle] = {}
        self._ignored: dict[str, str] = {}

    def of(self, sha256: str) -> dict[str, str]:
        """Name -> folder of the adapters for the weights with this SHA-256."""
        if self._backend == "onnx":
            return {}
        return {
            name: str(self.folder / name)
            for name, header in self._known.items()
            if header.base["sha256"] == sha256
        }

    def check(self, wanted: str, sha256: str, param: str) -> None:
        """Raises APIError (409) if `wanted` is an adapter for other weights than those with this
        SHA-256."""
        name = next((one for one in self._known if speakers.plain(one) == wanted), "")
        if not name or name in self.of(sha256):
            return
        if self._backend == "onnx":
            text = ", which only PyTorch adds to its base. Start the service with BACKEND=torch."
        else:
            base = self._known[name].base
            text = (
                f" of {Path(base['name']).name} with SHA-256 {base['sha256'][:12]}…, but the "
                f"served weights have {sha256[:12]}…. Serve its own base with VOICE."
            )
        raise APIError(409, "other_base", f"{shown(name)} is an adapter{text}", param=param)

    def look(self) -> list[str]:
        """Reads the folder; returns the paths of removed and replaced adapters."""
        before, found = self._known, dict[str, Bundle]()
        with contextlib.suppress(OSError):
            for folder in sorted(self.folder.iterdir()):
                # A name with a dot at the front: still being written.
                if folder.is_dir() and not folder.name.startswith("."):
                    self._read(folder, found)
        self._known = found
        return [str(self.folder / one) for one in before if found.get(one) != before[one]]

    def _read(self, folder: Path, found: dict[str, Bundle]) -> None:
        """Adds a folder to `found`, or logs once why it is not an adapter."""
        fault = "it is not an export of `train export --adapter`. Move it elsewhere."
        if store.means_served(folder.name):
            fault = "its name always means the served voice. Give the folder another name."
        else:
            try:
                header = bundle.read(folder)
            except BundleError as error:
                fault = str(error)
            else:
                if header.kind == bundle.ADAPTER and {"name", "sha256"} <= header.base.keys():
                    found[folder.name] = header
                    return
        if self._ignored.get(folder.name) != fault:
            log.warning("%s is not a voice: %s", folder, fault)
        self._ignored[folder.name] = fault
