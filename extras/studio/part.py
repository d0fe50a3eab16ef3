"""The studio's state in the service: datasets, their cuts, takes and trainings."""

from collections.abc import Coroutine

from api.state import AppState
from extras.studio.datasets.cutting import CutQueue
from extras.studio.datasets.dataset_store import Datasets
from extras.studio.datasets.take_checking import TakeChecker
from extras.studio.settings import StudioServiceSettings
from extras.studio.trainings import Trainings


class Studio:
    """State that the routes share."""

    def __init__(self, state: AppState) -> None:
        settings = state.settings
        assert isinstance(settings, StudioServiceSettings)
        self.takes = TakeChecker(state.decoding)
        self.datasets = Datasets(settings.datasets_dir, settings.datasets_max_gb * 10**9)
        self.cuts = CutQueue(
            self.datasets,
            lambda dataset: state.events.tell("dataset", {"id": dataset}),
            recogniser=settings.cut_recogniser,
        )
        self.trainings = Trainings(settings, self.datasets)

    def works(self) -> list[Coroutine[object, object, None]]:
        """The cut queue, which works as long as the service runs."""
        return [self.cuts.work()]

    def why_kept(self, run_id: str) -> str:
        """Why a run cannot be deleted: it has an open training; "" if it can."""
        if self.trainings.queue.open_job_of(run_id) is None:
            return ""
        return "A training of this run is queued or running. Cancel it first."
