"""The recipe: what every run does, and what `auto` means, from the base's advice.

What the base's config.json recommends (`TrainingAdvice`) comes before a constant. Each function
returns (value, reason), which are printed before the run.
"""

from xtts.model.config import TrainingAdvice

# As in Coqui's recipe (recipes/ljspeech/xtts_v2/train_gpt_xtts.py), but for the warm-up.
DROPOUT = 0.1
WEIGHT_DECAY = 0.01  # of matrices only
GRADIENT_CLIP = 1.0
TEXT_LOSS_WEIGHT, AUDIO_LOSS_WEIGHT = 0.01, 1.0
WARMUP_STEPS = 25
# LoRA's alpha, as a multiple of its rank.
ALPHA_OF_RANK = 2
# The rate of the token embeddings that `train extend` added: everything else only has to adapt.
NEW_ROWS_RATE = 10.0
# Console lines; TensorBoard and metrics.jsonl get every step.
LOG_EVERY = 10
# A step may take as long, or ten times the usual step if that is longer.
STALL_SECONDS = 120.0
# That train and judge a decoder. The model speaks each of them once first.
DECODER_CLIPS = 64
DEFAULT_EPOCHS = 10
# As in Coqui's recipe (recipes/ljspeech/xtts_v2/train_gpt_xtts.py); small models name their own in
# config.json.
XTTS_LEARNING_RATE = 5e-6
# An epoch should hold enough steps to learn from, and a batch enough audio to keep a device busy.
WANTED_STEPS = 16
# Coqui's recipe asks for 252 clips a step; a GPU gets what it has room for, up to this.
LARGEST_BATCH_SECONDS = {"cpu": 40.0, "cuda": 320.0}
_ADVISED = "recommended by the base model"
_DEFAULT = "the default; the base model recommends nothing"


Chosen = tuple[float, str]


def num_epochs(setting: int | None, advice: TrainingAdvice) -> Chosen:
    """NUM_EPOCHS, else what the base model recommends, else 10."""
    return _first("NUM_EPOCHS", setting, advice.num_epochs, (DEFAULT_EPOCHS, _DEFAULT))


def learning_rate(setting: float | None, advice: TrainingAdvice) -> Chosen:
    """LEARNING_RATE, else what the base model recommends, else Coqui's recipe."""
    recipe = (XTTS_LEARNING_RATE, "Coqui's recipe for XTTS-v2")
    return _first("LEARNING_RATE", setting, advice.learning_rate, recipe)


def ema_decay(advice: TrainingAdvice) -> Chosen:
    """What the base model recommends, else 0: no average."""
    return _first("", None, advice.ema_decay, (0.0, _DEFAULT))


def _first(name: str, setting: float | None, advised: float | None, otherwise: Chosen) -> Chosen:
    if setting is not None:
        return setting, name
    return otherwise if advised is None else (advised, _ADVISED)


def batch_seconds(
    setting: float | None,
    advice: TrainingAdvice,
    kept: float | None,
    *,
    device: str,
    total_seconds: float,
    longest_seconds: float,
) -> Chosen:
    """BATCH_SECONDS: longest clip times clips in a batch.

    A resumed run keeps its own (`kept`): with another budget no step would be the same.
    """
    if kept is not None:
        ignored = setting is not None and setting != kept
        note = f"; BATCH_SECONDS={setting:g} needs a new run" if ignored else ""
        return kept, f"as at the start of this run{note}"
    largest = LARGEST_BATCH_SECONDS[device.split(":")[0]]
    fair = min(total_seconds / WANTED_STEPS, largest)
    why = f"about {WANTED_STEPS} steps an epoch, at most {largest:g} s"
    otherwise = (round(fair, 1), why)
    if fair < longest_seconds:
        otherwise = (longest_seconds, "the longest clip")
    return _first("BATCH_SECONDS", setting, advice.batch_seconds, otherwise)
