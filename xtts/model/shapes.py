"""The shapes of GPT, vocoder, speaker encoder and DVAE, sample rates, and other fixed sizes.

The defaults are XTTS-v2's.
"""

from dataclasses import dataclass
from math import prod

# Samples per code at 22,050 Hz (Coqui's gpt_code_stride_len).
SAMPLES_PER_CODE = 1024
# The sample rates of codes and conditioning, and of the vocoder's output.
CODE_RATE = 22_050
VOCODER_RATE = 24_000
# Coqui fills the prefix with this id, and its repetition penalty sees it.
PLACEHOLDER_ID = 1
# The number of conditioning latents before the text (Coqui's gpt_num_latents).
NUM_LATENTS = 32
# Memory does not limit the speed of smaller models, and rounding their weights is more audible.
MIN_QUANTIZED_WIDTH = 512


@dataclass(frozen=True)
class GPTShape:
    """Sizes of the GPT (441 M parameters with 6,681 text ids)."""

    text_ids: int
    text_start: int
    text_stop: int = 0
    layers: int = 30
    width: int = 1024
    heads: int = 16
    audio_ids: int = 1026
    audio_start: int = 1024
    audio_stop: int = 1025
    max_text_tokens: int = 402
    max_audio_tokens: int = 605

    @property
    def text_positions(self) -> int:
        """Rows of the text position table: the tokens, START and STOP."""
        return self.max_text_tokens + 2

    @property
    def audio_positions(self) -> int:
        """Rows of the audio position table: Coqui adds one for its single conditioning input."""
        return self.max_audio_tokens + 3

    @property
    def max_codes(self) -> int:
        """The code limit of one utterance (28 s)."""
        return self.max_audio_tokens - 3


@dataclass(frozen=True)
class VocoderShape:
    """HiFi-GAN's sizes (Kong et al. 2020, V1, extended by a condition in each layer)."""

    upsample_initial_channel: int = 512
    upsample_rates: tuple[int, ...] = (8, 8, 2, 2)
    upsample_kernel_sizes: tuple[int, ...] = (16, 16, 4, 4)
    resblock_type: str = "1"
    resblock_kernel_sizes: tuple[int, ...] = (3, 7, 11)
    resblock_dilation_sizes: tuple[tuple[int, ...], ...] = ((1, 3, 5), (1, 3, 5), (1, 3, 5))

    def __post_init__(self) -> None:
        if SAMPLES_PER_CODE % self.hop:
            raise ValueError(
                f"the product of upsample_rates is {self.hop}, which does not divide the "
                f"{SAMPLES_PER_CODE} samples of a code"
            )

    @property
    def hop(self) -> int:
        """One step of the input, in samples at 24 kHz; `output_hop_length` in Coqui's config."""
        return prod(self.upsample_rates)

    @property
    def steps_per_code(self) -> int:
        """Steps per code after the first interpolation, before the one to 24,000 Hz."""
        return SAMPLES_PER_CODE // self.hop

    @property
    def reach(self) -> int:
        """The number of input steps to each side on which a sample depends at most."""
        samples = 3  # the last convolution, 7 wide
        sizes = zip(self.upsample_rates, self.upsample_kernel_sizes, strict=True)
        # Type 1 has an undilated convolution after each dilated one (HiFi-GAN, appendix A.1).
        has_undilated = self.resblock_type == "1"
        for rate, kernel in reversed(list(sizes)):
            samples += max(
                (size - 1) // 2 * (sum(dilations) + has_undilated * len(dilations))
                for size, dilations in zip(
                    self.resblock_kernel_sizes, self.resblock_dilation_sizes, strict=True
                )
            )
            samples = -(-(samples + kernel) // rate)
        return samples + 3  # the first convolution, 7 wide

    @property
    def edge_steps(self) -> int:
        """Copies of the first and last step around an utterance; their audio is dropped.

        Without them, the convolutions read zeros, which the vocoder never saw in training: 20 ms of
        noise at -34 dBFS after silence at -70, with a small voice. Four copies leave at most -69
        dBFS (three -61, six -80).
        """
        return 4

    def first_weight(self, width: int) -> tuple[str, tuple[int, ...]]:
        """The name and the shape of the first weight; width: of the latents."""
        return "conv_pre.weight", (self.upsample_initial_channel, width, 7)


@dataclass(frozen=True)
class SourceFilterShape:
    """Sizes of the vocoder for small voices (`xtts.model.source_filter`).

    Attributes:
        channels, layers: The size of the network that predicts the filters.
        pitch_channels, pitch_layers: The size of the network that predicts the pitch.
        kernel, expansion: The sizes of the blocks of both.
        window: The samples of a filter's window.
        speaker_channels: The channels through which the speaker reaches every block; 0 if the
            speaker only reaches the first layer of the filters.
    """

    channels: int
    layers: int
    pitch_channels: int
    pitch_layers: int
    kernel: int = 5
    expansion: int = 3
    window: int = 1024
    speaker_channels: int = 0

    @property
    def hop(self) -> int:
        """As in `VocoderShape`: a quarter of the window."""
        return self.window // 4

    @property
    def steps_per_code(self) -> int:
        """As in `VocoderShape`."""
        return SAMPLES_PER_CODE // self.hop

    @property
    def margin(self) -> int:
        """The samples of a window before its step, and after it."""
        return (self.window - self.hop) // 2

    @property
    def reach(self) -> int:
        """As in `VocoderShape`, for a sample whose phase is given."""
        blocks = self.layers + self.pitch_layers + 2
        # Windows overlap two steps to each side, twice; a pitch depends on its neighbours.
        return self.kernel // 2 * blocks + 2 * -(-self.margin // self.hop) + 1

    @property
    def edge_steps(self) -> int:
        """As in `VocoderShape`. After four copies, the last 17 ms still had noise, up to 35 dB
        louder than the silence before it."""
        return self.reach

    def first_weight(self, width: int) -> tuple[str, tuple[int, ...]]:
        """As in `VocoderShape`."""
        return "filters.first.weight", (self.channels, width, self.kernel)


AnyVocoderShape = VocoderShape | SourceFilterShape


@dataclass(frozen=True)
class SpeakerEncoderShape:
    """H/ASP's sizes (https://arxiv.org/abs/2009.14153).

    keeps_spectrum: whether the encoder hears a recording's mean spectrum, which H/ASP removes. A
    speaker is easier to verify without it, and easier to imitate with it.
    """

    embedding_width: int = 512
    layers: tuple[int, ...] = (3, 4, 6, 3)
    num_filters: tuple[int, ...] = (32, 64, 128, 256)
    keeps_spectrum: bool = False


@dataclass(frozen=True)
class DVAEShape:
    """The frozen codec's sizes; `num_codes` comes from the GPT's audio ids."""

    num_codes: int = 1024
    codebook_dim: int = 512
    hidden_dim: int = 512
    num_resnet_blocks: int = 3
    num_layers: int = 2
