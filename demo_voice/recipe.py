"""Sizes, seeds, rates and time shares of the embedded voice's training.

`FULL` trains the voice to ship; `SHORT` runs every stage in seconds, for tests and rehearsals. A
stage trains for a share of the given time, and its learning rate follows that share. The batches
are those of two CPU cores. A stage can resume on another day.
"""

from dataclasses import dataclass

from xtts.model.config import DecoderSteps, TrainingAdvice
from xtts.model.shapes import DVAEShape, GPTShape, SourceFilterShape, SpeakerEncoderShape
from xtts.text.pronunciations import PAUSES, PHONES

# The vocabulary in the order of its ids; the special tokens have the ids of XTTS-v2.
CHARACTERS = ("[STOP]", "[UNK]", "[SPACE]", *PHONES.values(), *PAUSES, "[en]", "[START]")

# Frozen when this voice is fine-tuned: a few clips of one person cannot train the encoder of
# recordings.
ADVICE = TrainingAdvice(
    num_epochs=4,
    learning_rate=2e-6,
    batch_seconds=10.0,
    freeze="conditioning_*,text_*,mel_pos_embedding",
    ema_decay=0.98,
    learn_decoder="auto",
    decoder_rate=4e-4,
    decoder_steps=DecoderSteps(per_minute=60.0, exponent=1.0, most=200),
)


@dataclass(frozen=True)
class StageSchedule:
    """One stage: the share of the time, rows per step, peak learning rate."""

    share: float
    batch: int
    learning_rate: float


@dataclass(frozen=True)
class BaseRecipe:
    """All sizes, counts and rates of `python -m demo_voice`."""

    seed: int
    # Sentences of hibari.
    sentences: int
    # Pseudo-speakers derived from hibari's voice.
    persons: int
    kokoro_sentences: int
    codec: StageSchedule
    listener: StageSchedule
    pretraining: StageSchedule
    vocoder: StageSchedule
    # Steps that train the codec as an autoencoder, before it has a codebook. If it continues from a
    # base, they train only its decoder.
    autoencoder_steps: int
    # Steps with guided attention: two heads of two layers are pulled to the diagonal.
    guided_steps: int
    # Steps of the vocoder with only the spectral loss, before the adversarial loss.
    quiet_steps: int
    gpt: GPTShape
    dvae: DVAEShape
    speaker_encoder: SpeakerEncoderShape
    vocoder_shape: SourceFilterShape
    # Channels of the discriminators' first layer.
    critics: int
    # The maximum number of phones in a piece of text for the packaged voice (`sotaque.piece_tokens`).
    piece_tokens: int
    advice: TrainingAdvice = ADVICE


def _gpt(layers: int, width: int, heads: int) -> GPTShape:
    return GPTShape(
        text_ids=len(CHARACTERS),
        text_start=len(CHARACTERS) - 1,
        text_stop=0,
        layers=layers,
        width=width,
        heads=heads,
        audio_ids=1026,
        audio_start=1024,
        audio_stop=1025,
        max_text_tokens=202,
        max_audio_tokens=325,
    )


FULL = BaseRecipe(
    seed=1,
    sentences=14_000,
    persons=420,
    kokoro_sentences=9_000,
    codec=StageSchedule(0.12, 48, 5e-4),
    listener=StageSchedule(0.06, 128, 2e-3),
    pretraining=StageSchedule(0.22, 48, 1e-3),
    vocoder=StageSchedule(0.60, 8, 5e-4),
    autoencoder_steps=200,
    guided_steps=800,
    quiet_steps=1200,
    gpt=_gpt(layers=4, width=256, heads=4),
    dvae=DVAEShape(num_codes=1024, codebook_dim=128, hidden_dim=128, num_resnet_blocks=3, num_layers=2),
    speaker_encoder=SpeakerEncoderShape(512, (1, 1, 1, 1), (16, 32, 48, 64), keeps_spectrum=True),
    vocoder_shape=SourceFilterShape(384, 6, 128, 4, speaker_channels=64),
    critics=16,
    piece_tokens=90,
)

SHORT = BaseRecipe(
    seed=1,
    sentences=48,
    persons=6,
    kokoro_sentences=6,
    codec=StageSchedule(0.2, 4, 5e-4),
    listener=StageSchedule(0.1, 4, 1e-3),
    pretraining=StageSchedule(0.3, 4, 1e-3),
    vocoder=StageSchedule(0.2, 2, 5e-4),
    autoencoder_steps=2,
    guided_steps=1,
    quiet_steps=1,
    gpt=_gpt(layers=2, width=32, heads=2),
    dvae=DVAEShape(num_codes=1024, codebook_dim=8, hidden_dim=8, num_resnet_blocks=1, num_layers=2),
    speaker_encoder=SpeakerEncoderShape(512, (1, 1, 1, 1), (8, 8, 16, 16), keeps_spectrum=True),
    vocoder_shape=SourceFilterShape(32, 1, 16, 1, speaker_channels=8),
    critics=4,
    piece_tokens=40,
)
