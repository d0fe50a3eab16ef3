"""Adapters and imported voices: other people for one served base.

    VOICES_DIR/adapters/NAME/    as `train export --adapter` writes it; NAME is the voice's
    VOICES_DIR/imported/NAME/    the voice of a file (`xtts.voices.files.unpacking`)

`api.runs.following` reads the folders every two seconds, so a new voice needs no restart. The
speaking process loads and verifies a voice of the served weights at its first request, in a
separate thread. An imported voice of other weights is opened beside the served one, as a candidate
of a run is.
"""

import contextlib
import logging
from pathlib import Path
from typing import NamedTuple

from api.errors import APIError, excerpt
from api.schemas import means_served
from xtts.voices import bundle, speakers
from xtts.voices.base_models import BundleError
from xtts.voices.bundle import Bundle
from xtts.voices.files import unpacking

log = logging.getLogger("api")


class _FolderVoice(NamedTuple):
    folder: Path
    header: Bundle


class Adapters:
    """The adapters and imported voices, as last read.

    Args:
        folder: The folder of the adapters.
        backend: That of the service; `onnx` adds nothing to its base.
    """

    def __init__(self, folder: Path, backend: str) -> None:
        self.folder, self.imported = folder, folder.parent / unpacking.IMPORTED_FOLDER
        self._backend = backend
        self._voices: dict[str, _FolderVoice] = {}
        # Folder -> why it is not a voice, as it was logged.
        self._logged_faults: dict[str, str] = {}

    def of_weights(self, sha256: str) -> dict[str, str]:
        """Name -> folder of the voices of the weights with this SHA-256."""
        if self._backend == "onnx":
            return {}
        return {
            name: str(folder)
            for name, (folder, header) in self._voices.items()
            if header.base["sha256"] == sha256 and header.kind in bundle.KINDS_WITH_BASE_WEIGHTS
        }

    def of_other_weights(self, sha256: str) -> dict[str, str]:
        """Name -> folder of the imported voices of other weights than those with this SHA-256."""
        served = self.of_weights(sha256)
        return {
            name: str(folder)
            for name, (folder, header) in self._voices.items()
            if folder.parent == self.imported
            and name not in served
            and (self._backend != "onnx" or header.kind not in bundle.KINDS_WITH_BASE_WEIGHTS)
        }

    def is_imported(self, folder: Path) -> bool:
        """Whether this is the folder of an imported voice, which a caller may delete."""
        return folder.parent == self.imported

    def refuse_other_base(self, plain_name: str, sha256: str, param: str) -> None:
        """Raises APIError (409) if `plain_name` is an adapter for other weights than those with this
        SHA-256."""
        name = next((name for name in self._voices if speakers.normalized_name(name) == plain_name), "")
        if not name or name in self.of_weights(sha256) or name in self.of_other_weights(sha256):
            return
        if self._backend == "onnx":
            clause = ", which only PyTorch adds to its base. Start the service with BACKEND=torch."
        else:
            base = self._voices[name].header.base
            clause = (
                f" of {Path(base['name']).name} with SHA-256 {base['sha256'][:12]}…, but the "
                f"served weights have {sha256[:12]}…. Serve its own base with VOICE."
            )
        raise APIError(409, "other_base", f"{excerpt(name)} is an adapter{clause}", param=param)

    def read_folders(self) -> list[str]:
        """Reads the folders; returns the paths of removed and replaced voices."""
        previous, voices = self._voices, dict[str, _FolderVoice]()
        for parent in (self.folder, self.imported):
            with contextlib.suppress(OSError):
                for folder in sorted(parent.iterdir()):
                    # A name with a dot at the front: still being written.
                    if folder.is_dir() and not folder.name.startswith("."):
                        self._read_voice(folder, voices)
        self._voices = voices
        return [str(voice.folder) for name, voice in previous.items() if voices.get(name) != voice]

    def _read_voice(self, folder: Path, voices: dict[str, _FolderVoice]) -> None:
        """Adds a folder to `voices`, or logs once why it is not a voice."""
        fault = "it is not an export of `train export --adapter`. Move it elsewhere."
        if means_served(folder.name):
            fault = "its name always means the served voice. Give the folder another name."
        else:
            try:
                header = bundle.read(folder)
            except BundleError as error:
                fault = str(error)
            else:
                is_usable = header.kind in bundle.KINDS_WITH_BASE_WEIGHTS or self.is_imported(folder)
                if is_usable and {"name", "sha256"} <= header.base.keys():
                    voices[folder.name] = _FolderVoice(folder, header)
                    return
        if self._logged_faults.get(str(folder)) != fault:
            log.warning("%s is not a voice: %s", folder, fault)
        self._logged_faults[str(folder)] = fault
