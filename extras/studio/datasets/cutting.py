"""Cuts datasets with `python -m train cut`, one at a time, at a lower priority than speech.

The queue is on disk (`job.json`). The replica that holds the lock file of DATASETS_DIR works on the
queue (`extras.common.work_queue`).
"""

import contextlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from api.errors import APIError
from api.shared_folder import now
from extras.common.work_queue import WorkQueue, write_job
from extras.studio.datasets import clips, recorded_takes, uploads
from extras.studio.datasets.dataset_store import CutJob, Datasets, UploadedDataset, changing_dataset
from extras.studio.datasets.prompts import refuse_read_aloud
from machine.process import module_command
from machine.threads import ONE_THREAD

# The module that cuts; replaced in tests.
MODULE = "train"


class CutQueue(WorkQueue[UploadedDataset]):
    """Cuts the queued datasets.

    Args:
        changed: Called with a dataset's id when the state of its cut has changed.
        recogniser: The folder of a Whisper model that transcribes recordings without a text.
    """

    work_name, lock_name = "cut", ".cutting.lock"
    # Ten hours of English take half an hour on one core. The limit ends the cut of a broken file.
    max_seconds = 12 * 3600.0

    def __init__(
        self,
        datasets: Datasets,
        changed: Callable[[str], None],
        module: str = MODULE,
        recogniser: str | None = None,
    ) -> None:
        super().__init__(datasets, changed, module)
        self._recogniser = recogniser

    def ask(self, dataset: UploadedDataset) -> CutJob:
        """Queues a cut. Blocks. Raises APIError if it is already queued or has no recording."""
        with changing_dataset(dataset, refuse_while_cut=True):
            refuse_read_aloud(dataset)
            if not uploads.recordings(dataset):
                text = "There is nothing to cut yet: upload a recording."
                raise APIError(409, "no_recording", text)
            return write_job(
                dataset.folder, dataset.job, state="queued", asked=now(), started=None, ended=None, message=""
            )

    def _repair(self) -> None:
        self._store.remove_leftovers()
        for dataset in self._store.all():
            # A kill may have left metadata.csv without the newest correction or take.
            with contextlib.suppress(APIError), changing_dataset(dataset):
                adopt(dataset)
                uploads.remove_leftovers(dataset)
                recorded_takes.repair(dataset)
                clips.write_metadata(dataset)

    def _environment(self) -> Mapping[str, str]:
        return ONE_THREAD

    def _prepare(self, dataset: UploadedDataset) -> tuple[str, ...]:
        with changing_dataset(dataset):
            inputs = uploads.signature(dataset)
            if dataset.job.inputs != inputs:
                # The unfinished cut is of other recordings; none of it may become a clip.
                shutil.rmtree(dataset.cutting, ignore_errors=True)
            write_job(dataset.folder, dataset.job, inputs=inputs)
        paths = [str(recording.path.resolve()) for recording in uploads.recordings(dataset)]
        options = ["--to", str(dataset.cutting.resolve()), "--language", dataset.language]
        if (text := uploads.text_of(dataset)) is not None:
            options += ["--text", str(text.resolve())]
        elif self._recogniser is not None:
            options += ["--recogniser", str(Path(self._recogniser).resolve())]
        return module_command(self.module, "cut", *paths, *options)

    def _store_results(self, dataset: UploadedDataset, state: str) -> None:
        if state == "done":
            adopt(dataset)
            clips.write_metadata(dataset)


def adopt(dataset: UploadedDataset) -> None:
    """Replaces the previous cut with the finished one, if there is one. Blocks.

    Call it inside `changing_dataset`, and again after a kill.
    """
    if not (dataset.cutting / "cut.json").is_file():
        return
    before = dataset.folder / ".clips-before"
    shutil.rmtree(before, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        dataset.clips.rename(before)
    dataset.cutting.rename(dataset.clips)
    shutil.rmtree(before, ignore_errors=True)
