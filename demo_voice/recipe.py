"""Sizes, seeds and step counts of the embedded voice's training.

`FULL` is what ships, `SHORT` is for tests. Lengths are steps, not minutes: the same recipe gives
the same voice, in minutes on a GPU and in hours on 2 cores.
"""

from dataclasses import dataclass, replace

from xtts.model.config import TrainingAdvice
from xtts.model.shapes import DVAEShape, GPTShape, SpeakerEncoderShape, VocoderShape
from xtts.text.phonemes import PAUSES, PHONES

# The vocabulary in the order of its ids; the special tokens have XTTS-v2's places.
CHARACTERS = ("[STOP]", "[UNK]", "[SPACE]", *PHONES.values(), *PAUSES, "[en]", "[START]")

# Frozen in a fine-tune of this voice. A few clips of one person cannot train the encoder of
# recordings, and the vocoder knows only the latents that it produces now: after a fine-tune of it,
# awb sounded like another person (docs/benchmarks-history.md).
ADVICE = TrainingAdvice(
    num_epochs=4,
    learning_rate=3e-4,
    batch_seconds=10.0,
    freeze="conditioning_*,text_*,mel_pos_embedding",
    ema_decay=0.98,
)


@dataclass(frozen=True)
class StageSchedule:
    """One stage: optimizer steps, rows per step (for the GPT, `positions` limits them), peak
    learning rate."""

    steps: int
    batch: int
    learning_rate: float


@dataclass(frozen=True)
class BaseRecipe:
    """All sizes, counts and rates of `python -m demo_voice`."""

    seed: int
    sentences: int
    # Sentences of `accents`, for the parts that a fine-tune never changes, and of `neighbours`.
    accented: int
    neighbouring: int
    # Sentences of 13 to 40 words, by flite and by the neighbours from which the GPT learns.
    lengthy: int
    lengthy_neighbouring: int
    lengthy_parts: int
    codec_clips: int
    autoencoder: StageSchedule
    codec: StageSchedule
    listener: StageSchedule
    pretraining: StageSchedule
    # Positions of the GPT in a pretraining step: as many as `pretraining.batch` rows of one
    # sentence.
    positions: int
    # The share of the rows that begin a passage of several clips; the others are single clips. With
    # 0.4, passages take two thirds of the time, because they are three times as long.
    joined: float
    guided_steps: int
    timbred_from: int
    pretrained: tuple[str, ...]
    vocoder: StageSchedule
    tuning: StageSchedule
    # For a packaged voice (`--from`): the further steps of codec, GPT and vocoder.
    again: tuple[StageSchedule, StageSchedule, StageSchedule]
    steps_with_one: int
    gpt: GPTShape
    dvae: DVAEShape
    speaker_encoder: SpeakerEncoderShape
    vocoder_shape: VocoderShape
    # The most phones in a piece of text for the packaged voice (`sotaque.piece_tokens`).
    piece_tokens: int
    advice: TrainingAdvice = ADVICE
    # Steps in which only the codec's decoder learns, because it is not packaged.
    decoder_alone: int = 0

    def continued(self) -> "BaseRecipe":
        """The recipe for a packaged voice: no guided attention, and random timbres from the
        start."""
        codec, pretraining, tuning = self.again
        return replace(
            self, codec=codec, pretraining=pretraining, tuning=tuning, timbred_from=0,
            guided_steps=1, decoder_alone=codec.steps // 8,
        )  # fmt: skip


def _gpt(layers: int, width: int, heads: int) -> GPTShape:
    return GPTShape(
        text_ids=len(CHARACTERS), text_start=len(CHARACTERS) - 1, text_stop=0,
        layers=layers, width=width, heads=heads,
        audio_ids=1026, audio_start=1024, audio_stop=1025, max_text_tokens=202,
        max_audio_tokens=325,
    )  # fmt: skip


# The speakers that the GPT learns: pseudo-speakers of flite, and those of `neighbours` that a
# recogniser understands as well.
PRETRAINED = tuple(
    """slt rms kal16 slt-low slt-lower slt-deep slt-high rms-low rms-small rms-smaller rms-tiny
    kal16-small kal16-tiny bdl bdl-small clb clb-low""".split()
)

FULL = BaseRecipe(
    seed=1,
    sentences=30_000,
    accented=3_300,
    neighbouring=5_000,
    lengthy=6_000,
    lengthy_neighbouring=1_500,
    lengthy_parts=15,
    codec_clips=6_000,
    autoencoder=StageSchedule(1500, 24, 1e-3),
    codec=StageSchedule(10_000, 32, 5e-4),
    listener=StageSchedule(500, 16, 1e-3),
    pretraining=StageSchedule(11_000, 16, 1e-3),
    positions=2_560,
    joined=0.4,
    guided_steps=800,
    timbred_from=8_500,
    pretrained=PRETRAINED,
    vocoder=StageSchedule(2_000, 4, 1e-3),
    tuning=StageSchedule(9_500, 4, 6e-4),
    again=(
        StageSchedule(6_000, 32, 4e-4),
        StageSchedule(6_000, 16, 6e-4),
        StageSchedule(7_500, 4, 5e-4),
    ),
    steps_with_one=200,
    gpt=_gpt(layers=4, width=256, heads=4),
    dvae=DVAEShape(
        num_codes=1024, codebook_dim=128, hidden_dim=128, num_resnet_blocks=3, num_layers=2
    ),
    speaker_encoder=SpeakerEncoderShape(512, (1, 1, 1, 1), (16, 32, 48, 64)),
    vocoder_shape=VocoderShape(
        256, (8, 8, 4, 4), (16, 16, 8, 8), "2", (3, 5, 7), ((1, 2), (2, 6), (3, 12))
    ),
    piece_tokens=36,
)

SHORT = BaseRecipe(
    seed=1,
    sentences=24,
    accented=22,
    neighbouring=12,
    lengthy=6,
    lengthy_neighbouring=4,
    lengthy_parts=2,
    codec_clips=40,
    autoencoder=StageSchedule(2, 4, 1e-3),
    codec=StageSchedule(2, 4, 5e-4),
    listener=StageSchedule(2, 4, 1e-3),
    pretraining=StageSchedule(2, 4, 1e-3),
    positions=1_000,
    joined=0.4,
    guided_steps=1,
    timbred_from=1,
    pretrained=("slt", "rms"),
    vocoder=StageSchedule(2, 2, 5e-4),
    tuning=StageSchedule(2, 2, 2e-4),
    again=(StageSchedule(2, 4, 5e-4), StageSchedule(2, 4, 1e-3), StageSchedule(2, 2, 2e-4)),
    steps_with_one=1,
    gpt=_gpt(layers=2, width=32, heads=2),
    dvae=DVAEShape(num_codes=1024, codebook_dim=8, hidden_dim=8, num_resnet_blocks=1, num_layers=2),
    speaker_encoder=SpeakerEncoderShape(512, (1, 1, 1, 1), (8, 8, 16, 16)),
    vocoder_shape=VocoderShape(32, (8, 8, 4, 4), (16, 16, 8, 8), "2", (3,), ((1, 2),)),
    piece_tokens=40,
)
