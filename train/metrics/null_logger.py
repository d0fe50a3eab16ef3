"""The logger of ranks other than 0: logs nothing."""

from typing import Any

from train.metrics.logs import Logs


class NullLogger(Logs):
    """Logs that write nothing."""

    def __init__(self) -> None:
        """Opens no file."""

    def __exit__(self, *_: object) -> None:
        """Has none to close."""

    def step(self, *_: Any, **__: Any) -> None:
        """Said by rank 0."""

    def epoch(self, *_: Any, **__: Any) -> None:
        """Said by rank 0."""

    def sample(self, *_: Any, **__: Any) -> None:
        """Said by rank 0."""

    def evaluation(self, *_: Any, **__: Any) -> None:
        """Said by rank 0."""
