"""Datasets on disk, shared by replicas: creates, finds and deletes them; keeps the state of a cut.

    DATASETS_DIR/<id>/dataset.json     id, name, language, time; a folder without it is ignored
    DATASETS_DIR/<id>/recordings/…     see `extras.studio.datasets.uploads`
    DATASETS_DIR/<id>/text.<kind>      the text of the recordings
    DATASETS_DIR/<id>/job.json         the state of the cut: queued, running, done, failed
    DATASETS_DIR/<id>/cutting/         the unfinished cut
    DATASETS_DIR/<id>/clips/           the newest finished cut, which training reads
    DATASETS_DIR/<id>/corrections.json see `extras.studio.datasets.clips`
    DATASETS_DIR/<id>/prompts.json     only in a dataset that is read aloud, which is never cut:
                                       see `prompts` and `recorded_takes` in this package
    DATASETS_DIR/.lock                 see `api.shared_folder`

Ids are generated here and looked up on disk, so a caller's text never becomes a path.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from api import shared_folder
from api.errors import APIError
from api.shared_folder import now
from extras.common.named_folders import NamedFolders
from extras.common.work_queue import Job, WorkFolder, read_job
from machine.storage.files import make_folder

MAX_DATASETS = 200


@dataclass(frozen=True)
class CutJob(Job):
    """The cut of a dataset.

    Attributes:
        inputs: A hash of its recordings, text and language
            (`extras.studio.datasets.uploads.signature`).
    """

    inputs: str = ""


@dataclass(frozen=True)
class UploadedDataset(WorkFolder):
    """An uploaded dataset: a folder in DATASETS_DIR. `language` is a code such as `pt` or `en-gb`."""

    word: ClassVar[str] = "dataset"
    language: str

    @property
    def clips(self) -> Path:
        """The folder of the finished cut, which training reads."""
        return self.folder / "clips"

    @property
    def cutting(self) -> Path:
        """The folder of the unfinished cut."""
        return self.folder / "cutting"

    @property
    def job(self) -> CutJob:
        """The state of its cut."""
        return read_job(self.folder, CutJob)


class Datasets(NamedFolders[UploadedDataset]):
    """The datasets in DATASETS_DIR."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        super().__init__(folder, UploadedDataset, max_bytes)

    def create(self, name: str, language: str) -> UploadedDataset:
        """An empty dataset. Raises APIError if there are too many, or it cannot be written."""
        with shared_folder.changing(self.folder), self.claim(name, MAX_DATASETS) as identity:
            dataset = UploadedDataset(self.folder / identity, identity, name, now(), language)
            make_folder(dataset.folder / "recordings")
            dataset.write()
        return dataset


@contextmanager
def changing_dataset(dataset: UploadedDataset, *, refuse_while_cut: bool = False) -> Iterator[None]:
    """Allows one change of the datasets at a time, like `api.shared_folder.changing`.

    Args:
        refuse_while_cut: Whether to refuse while the dataset is being cut or waits to be cut.

    Raises:
        APIError: The dataset was deleted, it is being cut, or the change cannot be saved.
    """
    with dataset.changing():
        if refuse_while_cut and dataset.job.is_queued:
            text = "The dataset is being cut or waits to be cut. Wait, or stop the cut."
            raise APIError(409, "being_cut", text, retry_after=5)
        yield
