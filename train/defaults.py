"""The recipe: warm-up, dropout, the stall limit and other constants, and the values of `auto`.

A recommendation in the base's config.json (`TrainingAdvice`) takes precedence over a constant. Each
function returns (value, reason), which are logged before the run.
"""

from dataclasses import replace

from train.settings import TrainSettings
from xtts.model.config import DecoderSteps, TrainingAdvice
from xtts.workers.decoder_schedule import DEFAULT_STEPS

# As in Coqui's recipe (recipes/ljspeech/xtts_v2/train_gpt_xtts.py), but for the warm-up.
DROPOUT = 0.1
WEIGHT_DECAY = 0.01  # of matrices only
GRADIENT_CLIP = 1.0
TEXT_LOSS_WEIGHT, AUDIO_LOSS_WEIGHT = 0.01, 1.0
WARMUP_STEPS = 25
# The rate of the token embeddings that `train extend` added: everything else only has to adapt.
NEW_ROWS_RATE = 10.0
# Console lines; TensorBoard and metrics.jsonl get every step.
LOG_EVERY = 10
# The time limit of a step, or ten times the usual step if that is longer.
STALL_SECONDS = 120.0
# Clips that train and judge a decoder. The model speaks each of them when it is drawn.
DECODER_CLIPS = 300
DEFAULT_EPOCHS = 10
# As in Coqui's recipe (recipes/ljspeech/xtts_v2/train_gpt_xtts.py); small models name another rate
# in config.json.
XTTS_LEARNING_RATE = 5e-6
# An epoch should hold enough steps to learn from, and a batch enough audio to keep a device busy.
WANTED_STEPS = 16
# Coqui's recipe asks for 252 clips a step; a GPU gets as much as fits, up to this.
LARGEST_BATCH_SECONDS = {"cpu": 40.0, "cuda": 320.0}
_ADVISED = "recommended by the base model"
_DEFAULT = "the default; the base model recommends nothing"


Chosen = tuple[float, str]


def num_epochs(setting: int | None, advice: TrainingAdvice) -> Chosen:
    """NUM_EPOCHS, else the base model's recommendation, else 10."""
    return _first("NUM_EPOCHS", setting, advice.num_epochs, (DEFAULT_EPOCHS, _DEFAULT))


def learning_rate(setting: float | None, advice: TrainingAdvice) -> Chosen:
    """LEARNING_RATE, else the base model's recommendation, else Coqui's recipe."""
    recipe = (XTTS_LEARNING_RATE, "Coqui's recipe for XTTS-v2")
    return _first("LEARNING_RATE", setting, advice.learning_rate, recipe)


def decoder_steps(advice: TrainingAdvice) -> DecoderSteps:
    """The steps of a decoder: the base model's recommendation, else XTTS-v2's."""
    return advice.decoder_steps or DEFAULT_STEPS


def with_advice(settings: TrainSettings, advice: TrainingAdvice) -> TrainSettings:
    """The settings, with LEARN_DECODER=off if it is auto and the base model recommends that."""
    if (settings.learn_decoder, advice.learn_decoder) != ("auto", "off"):
        return settings
    return replace(settings, learn_decoder="off")


def _first(name: str, setting: float | None, advised: float | None, otherwise: Chosen) -> Chosen:
    if setting is not None:
        return setting, name
    return otherwise if advised is None else (advised, _ADVISED)


def batch_seconds(
    setting: float | None,
    advice: TrainingAdvice,
    saved: float | None,
    *,
    device: str,
    total_seconds: float,
    longest_seconds: float,
) -> Chosen:
    """BATCH_SECONDS: the longest clip times the number of clips in a batch.

    A resumed run keeps its value (`saved`): another value would change every step.
    """
    if saved is not None:
        ignored = setting is not None and setting != saved
        note = f"; BATCH_SECONDS={setting:g} needs a new run" if ignored else ""
        return saved, f"as at the start of this run{note}"
    largest = LARGEST_BATCH_SECONDS[device.split(":")[0]]
    fair = min(total_seconds / WANTED_STEPS, largest)
    why = f"about {WANTED_STEPS} steps an epoch, at most {largest:g} s"
    otherwise = (round(fair, 1), why)
    if fair < longest_seconds:
        otherwise = (longest_seconds, "the longest clip")
    return _first("BATCH_SECONDS", setting, advice.batch_seconds, otherwise)
