"""The tools of an assistant, which reads their docstrings and annotations.

If a service runs, it speaks; its voices are already in memory. Otherwise each call starts the
command of the same name, as a person at the shell would.
"""

import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from extras.mcp.api_client import Service
from machine.errors import SotaqueError
from machine.process import run_with_timeout
from machine.storage.files import make_folder, replace_file

Ending = Literal["wav", "mp3", "flac", "opus"]
_DEFAULT_VOICE = "default"
# A long text on a slow CPU.
_MAX_COMMAND_SECONDS = 3_600.0


class ToolError(SotaqueError):
    """A tool fails; the message says why."""


class Tools:
    """The tools by name.

    Args:
        folder: Where `speak` writes.
        required: Whether the service must answer.
    """

    def __init__(self, folder: Path, service: Service, *, required: bool = False) -> None:
        self._folder, self._service, self._requires_service = folder, service, required

    def speak(
        self,
        text: str,
        voice: str = _DEFAULT_VOICE,
        language: str = "",
        seed: int = 0,
        ending: Ending = "wav",
    ) -> dict[str, str]:
        """Speaks a text into a new sound file, marked as AI-generated, and returns its path.

        Args:
            text: What to say; numbers, dates and abbreviations are read in words.
            voice: An id of `voices`.
            language: The language of the text, such as en, de or pt; "" for the voice's first.
            seed: Another seed gives another take.
            ending: The format of the file.
        """
        if not text.strip():
            raise ToolError("The text is empty. Give at least one word.")
        with self._new_file(ending) as path:
            if self._uses_service():
                body = {"input": text, "voice": voice, "language": language or None, "seed": seed}
                sound = self._service.post("/v1/audio/speech", {**body, "response_format": ending})
                replace_file(path, lambda file: file.write(sound))
            else:
                options = [f"--text={text}", f"--seed={seed}", f"--out={path}"]
                options += [f"--language={language}"] if language else []
                options += [] if voice == _DEFAULT_VOICE else [f"--voice={voice}"]
                _run_command(["xtts", "speak", *options])
        return {"file": str(path.resolve()), "voice": voice, "origin": "AI-generated"}

    def voices(self) -> list[dict[str, str]]:
        """The voices that `speak` accepts, with a name of each."""
        if self._uses_service():
            rows = json.loads(self._service.get("/v1/voices"))["voices"]
            return [{"id": row["id"], "name": row["name"]} for row in rows]
        return _voices_on_disk()

    def check(self, folder: str) -> dict[str, Any]:
        """Examines a folder of recordings with their texts before a voice is trained on it.

        Args:
            folder: The path of the folder, with metadata.csv or a file of another known layout.

        Returns:
            The number of clips and minutes to train on, the clips that are refused, and those to hear
            first, with the reasons.
        """
        if not Path(folder).is_dir():
            raise ToolError(f"{folder} is not a folder. Give the path of a folder of recordings.")
        report = _run_command(["train", "check", "--json", "--no-likelihood", f"--dataset-dir={folder}"])
        findings: dict[str, Any] = json.loads(report)
        return findings

    def _uses_service(self) -> bool:
        answers = self._service.answers
        if self._requires_service and not answers:
            raise ToolError(f"No service answers at {self._service.url}. Start it: sotaque serve")
        return answers

    @contextmanager
    def _new_file(self, ending: str) -> Iterator[Path]:
        """An empty file of a new name, because an assistant calls tools in parallel. It is deleted
        after an error."""
        make_folder(self._folder)
        for number in itertools.count(1):
            path = self._folder / f"speech-{number}.{ending}"
            with suppress(FileExistsError):
                path.touch(exist_ok=False)
                break
        try:
            yield path
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _voices_on_disk() -> list[dict[str, str]]:
    """The voice that speaks if none is named, the demo's, and those of runs."""
    from machine.settings.loading import load
    from train.settings import TrainSettings
    from xtts.voices.run_folder import RunFolder
    from xtts.voices.served_voice import ServedVoiceSettings, served_voice

    name, why = served_voice(load(ServedVoiceSettings)[0])
    rows = [{"id": _DEFAULT_VOICE, "name": f"{name}: {why}"}, {"id": "demo", "name": "the embedded voice"}]
    settings, _ = load(TrainSettings)
    folders = sorted({settings.output_dir, *settings.runs_dir.glob("*")})
    runs = [folder for folder in folders if RunFolder(folder).best_weights() is not None]
    return rows + [{"id": str(run), "name": f"the best of the run {run.name}"} for run in runs]


def _run_command(command: Sequence[str]) -> str:
    """The stdout of a command. Raises ToolError with its message."""
    result = run_with_timeout([sys.executable, "-m", *command], _MAX_COMMAND_SECONDS)
    if result.code != 0:
        raise ToolError(result.fault or result.errors.strip() or result.last_error)
    return result.out
