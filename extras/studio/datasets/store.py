"""Datasets on disk, shared by replicas: creates, finds and deletes them; keeps the state of a cut.

    DATASETS_DIR/<id>/dataset.json     id, name, language, when; without it there is no dataset
    DATASETS_DIR/<id>/recordings/…     as `extras.studio.datasets.uploads` says
    DATASETS_DIR/<id>/text.<kind>      what the recordings say
    DATASETS_DIR/<id>/job.json         the cut: asked for, being made, done, failed
    DATASETS_DIR/<id>/cutting/         a cut that is being made
    DATASETS_DIR/<id>/clips/           the newest whole cut: what training reads
    DATASETS_DIR/<id>/corrections.json as `extras.studio.datasets.clips` says
    DATASETS_DIR/<id>/prompts.json     as `prompts` and `takes` beside this module say, where
                                       it is read aloud and nothing is cut
    DATASETS_DIR/.lock                 as `api.shared_folder` says

Ids are made here and looked up in what is on disk: what a caller writes never becomes a path.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from api import shared_folder
from api.background.job_file import Job, read_job
from api.errors import APIError
from api.shared_folder import NamedFolder, NamedFolders, now
from machine.storage.atomic import make_folder

MOST_DATASETS = 200


@dataclass(frozen=True)
class CutJob(Job):
    """The cut of a dataset. inputs: what it is of (`extras.studio.datasets.uploads.signature`)."""

    inputs: str = ""


@dataclass(frozen=True)
class UploadedDataset(NamedFolder):
    """A folder of DATASETS_DIR. language: a code such as `pt` or `en-gb`."""

    word: ClassVar[str] = "dataset"
    language: str

    @property
    def clips(self) -> Path:
        """What training reads, once it is cut."""
        return self.folder / "clips"

    @property
    def cutting(self) -> Path:
        """What is being cut."""
        return self.folder / "cutting"

    @property
    def job(self) -> CutJob:
        """The state of its cut."""
        return read_job(self.folder, CutJob)


class Datasets(NamedFolders[UploadedDataset]):
    """DATASETS_DIR."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        super().__init__(folder, UploadedDataset, most_bytes)

    def create(self, name: str, language: str) -> UploadedDataset:
        """An empty dataset. Raises APIError where there are too many, or none can be written."""
        with (
            shared_folder.changing(self.folder),
            self._claimed(name, MOST_DATASETS) as identity,
        ):
            made = UploadedDataset(self.folder / identity, identity, name, now(), language)
            make_folder(made.folder / "recordings")
            made.write()
        return made


@contextmanager
def changing(dataset: UploadedDataset, *, uncut: bool = False) -> Iterator[None]:
    """One change of the datasets after another, as `api.shared_folder.changing`.

    Args:
        uncut: Not while the dataset is cut, or waits for it.

    Raises:
        APIError: It is deleted or being cut by now, or what is done inside cannot be kept.
    """
    with dataset.changing():
        if uncut and dataset.job.is_queued:
            text = "The dataset is being cut or waits to be cut. Wait, or stop the cut."
            raise APIError(409, "being_cut", text, retry_after=5)
        yield
