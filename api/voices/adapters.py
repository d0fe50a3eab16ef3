"""Adapters as voices: the LoRA weights of several people for one served base.

    VOICES_DIR/adapters/NAME/    as `train export --adapter` writes it; NAME is the voice's

The folder is read every two seconds, so a new adapter needs no restart. The speaking process loads
and verifies an adapter at its first request, in a separate thread.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from api.errors import APIError, shown
from api.voices import store
from xtts.voices import bundle, speakers
from xtts.voices.base_models import BundleError

log = logging.getLogger("api")

FOLDER = "adapters"
LOOK_SECONDS = 2.0


@dataclass(frozen=True)
class AdapterVoice:
    """One adapter folder. base: {name, sha256} of the weights that it belongs to; made: the hashes
    of its files, by which a new export is noticed."""

    name: str
    path: str
    base: Mapping[str, str]
    made: str


class Adapters:
    """The adapters in a folder, as last read. backend: the service's; `onnx` supports none."""

    def __init__(self, folder: Path, backend: str) -> None:
        self.folder = folder
        self._backend = backend
        self._known: dict[str, AdapterVoice] = {}
        self._ignored: dict[str, str] = {}

    def of(self, sha256: str) -> dict[str, str]:
        """Name -> folder of the adapters for the weights with this SHA-256."""
        if self._backend == "onnx":
            return {}
        fitting = (one for one in self._known.values() if one.base["sha256"] == sha256)
        return {one.name: one.path for one in fitting}

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
        before, self._known = self._known, self._read()
        return [one.path for name, one in before.items() if self._known.get(name) != one]

    def _read(self) -> dict[str, AdapterVoice]:
        found: dict[str, AdapterVoice] = {}
        try:
            folders = sorted(one for one in self.folder.iterdir() if one.is_dir())
        except OSError:
            return {}
        for folder in folders:
            if folder.name.startswith("."):  # still being written
                continue
            if fault := self._fault_of(folder, found):
                if self._ignored.get(folder.name) != fault:
                    log.warning("%s is not a voice: %s", folder, fault)
                self._ignored[folder.name] = fault
        return found

    def _fault_of(self, folder: Path, found: dict[str, AdapterVoice]) -> str:
        """Adds the adapter of a folder to `found`; returns why it could not, or ""."""
        if store.means_served(folder.name):
            return "its name always means the served voice. Give the folder another name."
        try:
            header = bundle.read(folder)
        except BundleError as error:
            return str(error)
        if header.kind != bundle.ADAPTER or not {"name", "sha256"} <= header.base.keys():
            return "it is not an export of `train export --adapter`. Move it elsewhere."
        made = " ".join(file.sha256 for _, file in sorted(header.files.items()))
        found[folder.name] = AdapterVoice(folder.name, str(folder), header.base, made)
        return ""

    async def follow(self, forget: Callable[[str], None]) -> None:
        """Polls the folder every two seconds until cancelled. forget: called with the path of each
        removed or replaced adapter."""
        while True:
            try:
                for path in await asyncio.to_thread(self.look):
                    forget(path)
            except Exception:  # keep polling
                log.exception("Reading the adapters failed.")
            await asyncio.sleep(LOOK_SECONDS)
