"""Settings of the studio: those that the service and the trainer share, and the service's."""

from pathlib import Path
from typing import Annotated

from pydantic.dataclasses import dataclass as settings_class

from api.settings import ApiSettings
from machine.settings.loading import SharedSettings
from machine.settings.types import CONFIG, Count, Folder, Means, Names, PathOrWord


@settings_class(frozen=True, kw_only=True, config=CONFIG)
class StudioSettings(SharedSettings):
    """Settings that the page and the trainer of the queue share."""

    datasets_dir: Folder = Path("datasets")
    """The folder of uploaded recordings and of the datasets cut from them. Replicas share it, and
    `train queue` trains on these datasets."""
    queue_dir: Folder = Path("train/queue")
    """The folder of the training queue. The page and the API write a job for each training, and
    `train queue` runs it. Everyone who can write into this folder can start trainings."""
    dataset_roots: Annotated[Names, Means("folders, separated by commas; none = no folder")] = ("train/data",)
    """The folders in which a job of the queue may name a dataset by its path. Datasets in
    DATASETS_DIR are always allowed."""


@settings_class(frozen=True, kw_only=True, config=CONFIG)
class StudioServiceSettings(StudioSettings, ApiSettings):
    """Settings of the service."""

    datasets_max_gb: Count = 20
    """The maximum size of all datasets together in GB, including recordings. The service also
    leaves 1 GB of the disk free."""
    datasets_host_path: Annotated[PathOrWord | None, Means("a path; empty = DATASETS_DIR")] = None
    """The path of DATASETS_DIR outside the container, for the training command that the page
    shows."""
    cut_recogniser: Annotated[PathOrWord | None, Means("a folder; empty = none")] = None
    """A Whisper model that transcribes uploaded recordings without a text, as in
    `train cut --recogniser` (docs/cutting.md). It runs on this machine."""


SETTINGS = (StudioSettings, StudioServiceSettings)
