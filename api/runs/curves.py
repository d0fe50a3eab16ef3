"""Mean loss of each epoch, read incrementally from metrics.jsonl."""

from dataclasses import dataclass, field
from pathlib import Path

from api.runs import listing


@dataclass
class _Curve:
    end: int = 0
    sums: dict[int, tuple[float, int]] = field(default_factory=dict)


class LossCurves:
    """What was read of each file."""

    def __init__(self) -> None:
        self._curves: dict[Path, _Curve] = {}

    def read(self, path: Path) -> None:
        """Goes on where the last call ended; a file that was cut back is read anew."""
        curve = self._curves.setdefault(path, _Curve())
        while True:
            rows, end = listing.records(path, curve.end)
            if end < curve.end:
                curve.sums.clear()
            for row in rows:
                if row.get("kind") == "train" and isinstance(row.get("loss"), float):
                    total, count = curve.sums.get(int(row["epoch"]), (0.0, 0))
                    curve.sums[int(row["epoch"])] = (total + row["loss"], count + 1)
            moved, curve.end = end != curve.end, end
            if not rows or not moved:
                return

    def losses(self, path: Path) -> dict[int, float]:
        """Epoch -> mean training loss."""
        curve = self._curves.get(path, _Curve())
        return {epoch: total / count for epoch, (total, count) in curve.sums.items()}

    def end(self, path: Path) -> int:
        """How much of the file is known, in bytes."""
        return self._curves.get(path, _Curve()).end
