"""What one request asks of a voice. Importing this module imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xtts import arguments
from xtts.arguments import SEED, SPEED, TEMPERATURE
from xtts.model.config import SamplingParams
from xtts.text.tokenizer import Piece, Tokenizer


@dataclass(frozen=True)
class SynthesisParams:
    """What is to be spoken. temperature: None is the model's own, 0 the likeliest code each time;
    max_codes: the most that each piece may take; pieces: of the text, where another process has
    read it; whole: nothing is heard before all is spoken, so that a piece can be spoken again.

    Raises ArgumentError for a value that cannot be spoken with, however it was asked for.
    """

    text: str
    language: str
    seed: int = 0
    temperature: float | None = None
    speed: float = 1.0
    max_codes: int | None = None
    pieces: Sequence[Piece] | None = None
    whole: bool = False

    def __post_init__(self) -> None:
        arguments.text("text", self.text)
        arguments.text("language", self.language)
        # As Python's own numbers: a notebook has numpy's.
        object.__setattr__(self, "seed", arguments.whole_number("seed", self.seed, SEED))
        object.__setattr__(self, "speed", arguments.number("speed", self.speed, SPEED))
        if self.temperature is not None:
            found = arguments.number("temperature", self.temperature, TEMPERATURE)
            object.__setattr__(self, "temperature", found)

    def rules(self, own: SamplingParams) -> SamplingParams:
        """How codes are drawn, where a model's own manner is `own`."""
        if self.temperature is None:
            return own
        return replace(own, temperature=self.temperature, greedy=self.temperature == 0)

    def read(self, tokenizer: Tokenizer) -> list[Piece]:
        """Its pieces. Raises TextError."""
        if self.pieces is not None:
            return list(self.pieces)
        return tokenizer.split(self.text, self.language)
