"""Datasets on disk, shared by replicas: creates, finds and deletes them; keeps the state of a cut.

    DATASETS_DIR/<id>/dataset.json     id, name, language, when; without it there is no dataset
    DATASETS_DIR/<id>/recordings/…     as `api.datasets.uploads` says
    DATASETS_DIR/<id>/text.<kind>      what the recordings say
    DATASETS_DIR/<id>/job.json         the cut: asked for, being made, done, failed
    DATASETS_DIR/<id>/cutting/         a cut that is being made
    DATASETS_DIR/<id>/clips/           the newest whole cut: what training reads
    DATASETS_DIR/<id>/corrections.json as `api.datasets.clips` says
    DATASETS_DIR/<id>/prompts.json     as `api.datasets.prompts` and `api.datasets.takes` say, where
                                       it is read aloud and nothing is cut
    DATASETS_DIR/.lock                 as `api.shared_folder` says

Ids are made here and looked up in what is on disk: what a caller writes never becomes a path.
"""

import contextlib
import functools
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from api import shared_folder
from api.background.job_file import Job, read_job
from api.errors import APIError
from api.shared_folder import free_id, now
from machine.storage.atomic import make_folder, write_json

MOST_DATASETS = 200
_DELETED = ".deleted-"


@dataclass(frozen=True)
class CutJob(Job):
    """The cut of a dataset. inputs: what it is of (`api.datasets.uploads.signature`)."""

    inputs: str = ""


@dataclass(frozen=True)
class UploadedDataset:
    """A folder of DATASETS_DIR. language: a code such as `pt` or `en-gb`."""

    folder: Path
    id: str
    name: str
    language: str
    created: str

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


class Datasets:
    """The folder of datasets, read again for each call because replicas write into it too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[UploadedDataset]:
        """Every dataset, the newest first."""
        datasets = shared_folder.read_all(self.folder, self.get)
        return sorted(datasets, key=lambda one: (one.created, one.id), reverse=True)

    def get(self, identity: str) -> UploadedDataset | None:
        """The dataset of an id; None where there is none, and for what cannot be an id."""
        if not shared_folder.ID.fullmatch(identity):
            return None
        folder = self.folder / identity
        make = functools.partial(UploadedDataset, folder)
        return shared_folder.read(make, folder / "dataset.json", identity)

    def find(self, identity: str) -> UploadedDataset:
        """Raises APIError (404), the same for an id that cannot be one."""
        dataset = self.get(identity)
        if dataset is None:
            raise _no_dataset()
        return dataset

    def create(self, name: str, language: str) -> UploadedDataset:
        """An empty dataset. Raises APIError where there are too many, or none can be written."""
        with shared_folder.changing(self.folder):
            if len(self.all()) >= MOST_DATASETS:
                text = f"There are already {MOST_DATASETS} datasets, the limit. Delete one."
                raise APIError(409, "too_many_datasets", text)
            identity = self._made(name)
            made = UploadedDataset(self.folder / identity, identity, name, language, now())
            make_folder(made.folder / "recordings")
            about = asdict(made)
            del about["folder"]
            write_json(made.folder / "dataset.json", about)
        return made

    def _made(self, name: str) -> str:
        """Creates an unused folder; without file locks another replica may be as fast."""
        while True:
            identity = free_id(name, "dataset", os.listdir(self.folder))
            with contextlib.suppress(FileExistsError):
                (self.folder / identity).mkdir()
                return identity

    def remove(self, dataset: UploadedDataset) -> None:
        """Deletes a dataset. It disappears at once; after a kill `remove_rest` deletes the rest.

        Raises APIError if it is already deleted or cannot be deleted.
        """
        gone = self.folder / f"{_DELETED}{dataset.id}-{secrets.token_hex(4)}"
        with changing(dataset):
            dataset.folder.rename(gone)
        with shared_folder.kept(self.folder):
            shutil.rmtree(gone)

    def remove_rest(self) -> None:
        """Removes what a killed deletion left."""
        for path in self.folder.glob(f"{_DELETED}*"):
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def changing(dataset: UploadedDataset, *, uncut: bool = False) -> Iterator[None]:
    """One change of the datasets after another, as `api.shared_folder.changing`.

    Args:
        uncut: Not while the dataset is cut, or waits for it.

    Raises:
        APIError: It is deleted or being cut by now, or what is done inside cannot be kept.
    """
    with shared_folder.changing(dataset.folder.parent):
        if not (dataset.folder / "dataset.json").is_file():
            raise _no_dataset()
        if uncut and dataset.job.is_queued:
            text = "The dataset is being cut or waits to be cut. Wait, or stop the cut."
            raise APIError(409, "being_cut", text, retry_after=5)
        yield


def _no_dataset() -> APIError:
    text = "There is no dataset of that id. /v1/datasets lists them."
    return APIError(404, "no_dataset", text, param="dataset")
