"""Every name of both programs, and what a person may have meant by one that is none of them."""

import difflib
import re
from collections.abc import Collection

# Both programs share one `.env`, and neither may import the other: so each knows all the names, and
# a test keeps the two lists equal to the classes.
_TRAIN = """
    DATASET_DIR MAX_TRAIN_SAMPLES NUM_EPOCHS LANGUAGE DATASET_FORMAT LEARNING_RATE BATCH_SECONDS
    PRECISION SAMPLE_DEVICE SAMPLE_TEXT SAMPLE_EVERY SAVE_EVERY KEEP_CHECKPOINTS RESUME SEED
    STOP_SECONDS STALL_SECONDS VALIDATION_EVERY LOG_EVERY TENSORBOARD TENSORBOARD_PORT RUNS_DIR
    CACHE_DIR CACHE PREFETCH OVERLAP BUCKETING FUSED_OPTIMIZER COMPILE
    CONDITIONING DROPOUT WARMUP_STEPS WEIGHT_DECAY GRADIENT_CLIP TEXT_LOSS_WEIGHT
    AUDIO_LOSS_WEIGHT SCHEDULE OPTIMIZER GRADIENT_CHECKPOINTING LORA_RANK LORA_ALPHA FREEZE
    EMA_DECAY EARLY_STOPPING
"""
_API = """
    API_HOST API_PORT API_KEY API_ALLOW_NO_KEY VOICE BACKEND LOW_MEMORY VOICES_DIR API_SLOTS
    API_QUEUE API_DEADLINE_SECONDS API_REQUESTS_PER_MINUTE
"""
_SHARED = """
    BASE_MODEL DEVICE SPEAK_PRECISION OUTPUT_DIR NUM_THREADS COQUI_TOS_AGREED XTTS_V2_DIR
    XTTS_V2_URL HF_ENDPOINT
"""
TRAIN_NAMES = frozenset(_TRAIN.split())
API_NAMES = frozenset(_API.split())
SHARED_NAMES = frozenset(_SHARED.split())
NAMES = TRAIN_NAMES | API_NAMES | SHARED_NAMES

# Other programs' families in a shared `.env`: never taken for a slip of the pen.
FOREIGN = (
    "COMPOSE_",
    "DOCKER_",
    "BUILDKIT_",
    "TORCH_",
    "CUDA_",
    "NVIDIA_",
    "HF_",
    "UV_",
    "PIP_",
)


def meant(name: str, ours: Collection[str]) -> list[str]:
    """The names of ours that a person may have meant; empty when `name` is somebody else's.

    Close in spelling (NUM_EPOCH, num-epochs), the same letters (SEDE), or some of the words of one
    of ours (EPOCHS, MAX_SAMPLES); a short word alone (PORT, HOST) is too common for that.
    """
    plain = re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")
    if plain in ours:
        return [plain]
    if plain.startswith(FOREIGN):
        return []
    if close := difflib.get_close_matches(plain, sorted(ours), n=2, cutoff=0.8):
        return close
    if swapped := [one for one in ours if sorted(one) == sorted(plain)]:
        return swapped
    words = set(plain.split("_"))
    return [one for one in sorted(ours) if len(plain) >= 6 and words < set(one.split("_"))][:2]
