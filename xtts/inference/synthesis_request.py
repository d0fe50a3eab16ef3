"""SynthesisRequest: a text to speak and its parameters.

Importing this module does not import torch.
"""

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
        text: The text, which is split into pieces that the model can speak at once.
        language: The language of the text.
        seed: On the same machine, the same seed gives the same sound.
        temperature: The sampling temperature; None is the model's default, 0 always takes the
            likeliest code.
        speed: 2 is twice as fast, at the same pitch.
        max_codes: The code limit of each piece, 46 ms per code; None is the model's.
        pieces: The pieces of the text, if another process has read it.
        whole: Whether the sound of a piece is sent only when it is complete, so that it can be
            spoken again.
        sampling: Sampling parameters instead of the model's.
        plain: Whether Markdown and HTML entities in the text are plain characters.

    Raises ArgumentError for an invalid value.
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
    plain: bool = False

    def __post_init__(self) -> None:
        arguments.text("text", self.text)
        arguments.text("language", self.language)
        # Converted to Python numbers: a notebook may pass numpy's.
        object.__setattr__(self, "seed", arguments.whole_number("seed", self.seed, SEED))
        object.__setattr__(self, "speed", arguments.number("speed", self.speed, SPEED))
        if self.temperature is not None:
            temperature = arguments.number("temperature", self.temperature, TEMPERATURE)
            object.__setattr__(self, "temperature", temperature)

    def rules(self, defaults: SamplingParams) -> SamplingParams:
        """The sampling parameters; `defaults` are the model's."""
        rules = self.sampling or defaults
        if self.temperature is None:
            return rules
        return replace(rules, temperature=self.temperature, greedy=self.temperature == 0)

    def read(self, tokenizer: Tokenizer) -> list[Piece]:
        """Its pieces. Raises TextError."""
        if self.pieces is not None:
            return list(self.pieces)
        return tokenizer.split(self.text, self.language, plain=self.plain)
