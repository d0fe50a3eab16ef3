"""EARLY_STOPPING: stops a run after N epochs without improvement.

The evaluation's verdict decides; without one, or after judging ended, the validation loss.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from train.evaluation.floors import FEWEST_FINISHED
from xtts.voices.evaluation_file import Evaluation


@dataclass
class EarlyStopping:
    """epochs: the number of epochs without a better verdict or audio loss that ends the run; None
    for no limit."""

    epochs: int | None = None
    best_loss: float = math.inf
    best_epoch: int = 0
    newest_epoch: int = 0
    # (epoch of the verdict, newer epochs that were judged, in order); kept in evaluation.json, not
    # in checkpoints.
    judged: tuple[int, list[int]] | None = None

    def record_loss(self, epoch: int, audio_loss: float) -> None:
        """Records the validation of epoch `epoch` (from 1). A non-finite loss never improves."""
        self.newest_epoch = epoch
        if audio_loss < self.best_loss or not self.best_epoch:
            self.best_loss, self.best_epoch = audio_loss, epoch

    def record_evaluation(self, evaluation: Evaluation | None, saved: Sequence[int]) -> None:
        """Records an evaluation's verdict, if there is one. saved: the epochs saved so far."""
        if evaluation is None or evaluation.verdict is None:
            return
        # Too few sentences judge nothing; then the validation loss decides.
        enough = len(evaluation.candidates[0].sentences) >= FEWEST_FINISHED
        epochs = [one.epoch for one in evaluation.candidates if enough and one.kind == "epoch"]
        unjudged = sum(epoch > max(epochs, default=0) for epoch in saved)
        self.record_verdict(evaluation.verdict.epoch, epochs, unjudged)

    def record_verdict(self, best_epoch: int, judged: Iterable[int], unjudged: int) -> None:
        """Records the best epoch of the evaluation (0 for the base) and the judged epochs.

        unjudged: the number of newer saved epochs. One may still be judged. If there are more,
        judging is late or ended, and the validation loss decides.
        """
        newer = sorted(epoch for epoch in judged if epoch > best_epoch)
        self.judged = (best_epoch, newer) if unjudged <= 1 else None

    @property
    def over(self) -> bool:
        """Whether the run must end."""
        if self.judged is not None:
            return self.epochs is not None and len(self.judged[1]) >= self.epochs
        waited = self.newest_epoch - self.best_epoch
        return self.epochs is not None and self.best_epoch > 0 and waited >= self.epochs

    @property
    def reason(self) -> str:
        """The log line when the run ends early."""
        if self.judged is not None:
            best, newer = self.judged
            what = f"epoch {best}" if best else "the base"
            return (
                f"The evaluation found nothing better since {what}. The run ends after epoch "
                f"{newer[-1]} (EARLY_STOPPING={self.epochs}). Raise EARLY_STOPPING, or set it to "
                "off, to continue."
            )
        return (
            f"No epoch since {self.best_epoch} (audio loss {self.best_loss:.3f}) was better. "
            f"The run ends after epoch {self.newest_epoch} (EARLY_STOPPING={self.epochs}). The "
            "best one is kept. Raise EARLY_STOPPING, or set it to off, to continue."
        )

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"best_loss": self.best_loss, "best_epoch": self.best_epoch, "newest_epoch": self.newest_epoch}

    def resume(self, state: dict[str, Any] | None) -> None:
        """Loads the state of a checkpoint; without one, counting starts now."""
        for name, value in (state or {}).items():
            setattr(self, name, value)
