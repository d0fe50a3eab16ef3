"""SynthesisRequest: what is to be said, and how. Importing this module imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xtts import arguments
from xtts.arguments import SEED, SPEED, TEMPERATURE
from xtts.inference.defaults import SamplingParams
from xtts.text.tokenizer import Piece, Tokenizer


@dataclass(frozen=True)
class SynthesisRequest:
    """One text to be spoken.

    Attributes:
        text: What is said; split into pieces that the model can say at once.
        language: The text's.
        seed: The same seed gives the same sound on the same machine.
        temperature: How freely codes are drawn: None is the model's own, 0 the likeliest each time.
        speed: 2 takes half the time, at the same pitch.
        max_codes: The most that each piece may take, 46 ms each; None is the model's own.
        pieces: Of the text, where another process has read it.
        whole: Nothing is heard before all of a piece is spoken, so that it can be spoken again.
        sampling: How codes are drawn, where not as the model's config says.

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
    sampling: SamplingParams | None = None

    def __post_init__(self) -> None:
        arguments.text("text", self.text)
        arguments.text("language", self.language)
        # As Python's own numbers: a notebook has numpy's.
        object.__setattr__(self, "seed", arguments.whole_number("seed", self.seed, SEED))
        object.__setattr__(self, "speed", arguments.number("speed", self.speed, SPEED))
        if self.temperature is not None:
            temperature = arguments.number("temperature", self.temperature, TEMPERATURE)
            object.__setattr__(self, "temperature", temperature)

    def rules(self, own: SamplingParams) -> SamplingParams:
        """How codes are drawn, where a model's own manner is `own`."""
        rules = self.sampling or own
        if self.temperature is None:
            return rules
        return replace(rules, temperature=self.temperature, greedy=self.temperature == 0)

    def read(self, tokenizer: Tokenizer) -> list[Piece]:
        """Its pieces. Raises TextError."""
        if self.pieces is not None:
            return list(self.pieces)
        return tokenizer.split(self.text, self.language)
