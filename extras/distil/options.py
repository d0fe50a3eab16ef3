"""DistilOptions: the options of `python -m train distil`, with their defaults and checks."""

from dataclasses import dataclass
from pathlib import Path

from machine.errors import SotaqueError

DEFAULT_EPOCHS = 15
DEFAULT_MINUTES = 30.0


@dataclass(frozen=True)
class DistilOptions:
    """The options of the command.

    Attributes:
        to: The folder to write.
        layers: The number of layers to keep; None keeps half of them.
        epochs: The number of passes over the lessons.
        minutes: The minutes of the teacher's speech, and the limit for clips.
        texts: A file with a sentence per line; None for the transcripts of the clips.
        force: Whether an earlier voice in `to` is replaced.
    """

    to: Path
    layers: int | None = None
    epochs: int = DEFAULT_EPOCHS
    minutes: float = DEFAULT_MINUTES
    texts: Path | None = None
    force: bool = False

    def check_numbers(self) -> None:
        """Raises SotaqueError for a number out of range; the model limits `layers`."""
        if self.epochs < 1:
            raise SotaqueError(f"--epochs {self.epochs}: give a number of at least 1.")
        if not 0 < self.minutes < float("inf"):
            raise SotaqueError(f"--minutes {self.minutes:g}: give a number above 0.")

    def read_texts(self) -> list[str]:
        """The sentences in `texts`; [] without a file. Raises SotaqueError."""
        if self.texts is None:
            return []
        try:
            lines = [line.strip() for line in self.texts.read_text(encoding="utf-8").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise SotaqueError(f"--texts {self.texts} cannot be read ({error}).") from error
        if not any(lines):
            raise SotaqueError(f"--texts {self.texts} contains no sentence. Write one per line.")
        return [line for line in lines if line]
