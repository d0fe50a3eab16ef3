"""The names of the core's settings, "did you mean" suggestions, and other tools' names for them."""

import difflib
import re
from collections.abc import Collection, Mapping

# Both programs share one `.env`, and neither may import the other. So both use this list, and a
# test keeps it equal to the classes. The extras declare their settings themselves.
CORE_SETTINGS = frozenset(
    """
    API_ALLOWED_HOSTS API_ALLOWED_ORIGINS API_ALLOW_NO_KEY API_ALLOW_TRAINING API_HOST API_KEY
    API_PORT API_STRICT BACKEND BASE_MODEL BATCH_SECONDS BLEND CACHE_DIR COQUI_TOS_AGREED
    DATASET_DIR DATASET_FORMAT DEVICE EARLY_STOPPING EVALUATE_NATURALNESS EVALUATE_RECOGNISER
    EVALUATE_TEXTS GRADIENT_CHECKPOINTING GUARD HF_ENDPOINT KEEP_CHECKPOINTS LANGUAGE LEARNING_RATE
    LEARN_DECODER LORA_RANK LOW_MEMORY MAX_TRAIN_SAMPLES NUM_EPOCHS NUM_THREADS OPTIMIZER OUTPUT_DIR
    PRECISION PRONUNCIATIONS REHEARSAL RESUME RUNS_DIR SAMPLE_DEVICE SAMPLE_EVERY SAMPLE_TEXT
    SAVE_EVERY SEED SPEAK_PRECISION STOP_SECONDS SUSPECT_CLIPS TENSORBOARD TENSORBOARD_PORT VOICE
    VOICES_DIR WATERMARK XTTS_V2_DIR
    """.split()
)
# Settings of earlier versions, each with the clause that tells its user what applies now. It follows
# "NAME is no longer a setting;".
RETIRED = {
    **dict.fromkeys(("PREFETCH", "OVERLAP", "BUCKETING", "FUSED_OPTIMIZER"), "that option is always on"),
    "LEARN_SPEAKER": "LEARN_DECODER replaces it",
    "CACHE": "features are always kept in CACHE_DIR",
    "COMPILE": "nothing is compiled",
    "CONDITIONING": "another clip of the same speaker conditions a training step",
    "SCHEDULE": "the learning rate rises, then falls with the inverse square root of the step",
    "WARMUP_STEPS": "the learning rate rises for 25 steps",
    "DROPOUT": "it is 0.1",
    "WEIGHT_DECAY": "it is 0.01",
    "GRADIENT_CLIP": "it is 1",
    "TEXT_LOSS_WEIGHT": "it is 0.01",
    "AUDIO_LOSS_WEIGHT": "it is 1",
    "LORA_ALPHA": "it is twice LORA_RANK",
    "FREEZE": "the base model's config.json says what stays frozen",
    "EMA_DECAY": "the base model's config.json says it",
    "NEW_LANGUAGE_RATE": "new tokens learn at 10 times the rate",
    "VALIDATION_EVERY": "every epoch is validated",
    "LOG_EVERY": "the console has a line every 10 steps, metrics.jsonl every step",
    "STALL_SECONDS": "a step may take 120 seconds, or ten times the usual step",
    "DECODER_CLIPS": "up to 300 clips train and judge the decoder",
    "XTTS_V2_URL": "HF_ENDPOINT names a mirror of the hub, XTTS_V2_DIR a folder with the files",
    "API_SLOTS": "4 requests are spoken in parallel on a CPU, up to 16 on a GPU by its memory",
    "API_QUEUE": "32 requests may wait",
    "API_DEADLINE_SECONDS": "a request has 30 seconds until its first audio",
    "API_REQUESTS_PER_MINUTE": "it is 600 for each address",
}

# Prefixes of other programs' names in a shared `.env`, which are never typing errors.
FOREIGN_PREFIXES = tuple("COMPOSE_ DOCKER_ BUILDKIT_ TORCH_ CUDA_ NVIDIA_ HF_ UV_ PIP_".split())

# Names of the same settings in other trainers (Coqui's, Hugging Face's, Lightning's). A user who
# writes one expects it to work.
_NAMES_IN_OTHER_TRAINERS = {
    "BATCH_SECONDS": """BATCH_SIZE TRAIN_BATCH_SIZE PER_DEVICE_TRAIN_BATCH_SIZE MAX_BATCH_SIZE
        GRADIENT_ACCUMULATION_STEPS GRAD_ACCUM GRAD_ACCUM_STEPS GRAD_ACUMM_STEPS""",
    "LEARNING_RATE": "LR BASE_LR MAX_LR INIT_LR",
    "NUM_EPOCHS": "EPOCHS N_EPOCHS MAX_EPOCHS NUM_TRAIN_EPOCHS TRAIN_EPOCHS MAX_STEPS NUM_STEPS",
    "PRECISION": "FP16 BF16 MIXED_PRECISION USE_AMP AMP DTYPE",
    "SAVE_EVERY": "SAVE_STEP SAVE_STEPS SAVE_INTERVAL",
    "KEEP_CHECKPOINTS": "SAVE_TOTAL_LIMIT SAVE_N_CHECKPOINTS SAVE_TOP_K",
    "RESUME": "RESUME_FROM_CHECKPOINT RESTORE_PATH CONTINUE_PATH",
    "LORA_RANK": "LORA_R",
    "SEED": "RANDOM_SEED TRAINING_SEED MANUAL_SEED",
}
# Names so common that they may belong to another program that shares the `.env`.
_COMMON_NAMES = {
    "API_PORT": "PORT HTTP_PORT SERVER_PORT",
    "API_HOST": "HOST HTTP_HOST SERVER_HOST BIND",
    "BASE_MODEL": "MODEL MODEL_NAME MODEL_PATH MODEL_DIR",
    "DEVICE": "GPU USE_GPU USE_CUDA CUDA GPU_ID",
    "NUM_THREADS": "WORKERS NUM_WORKERS THREADS",
    "DATASET_DIR": "DATASET DATA_DIR DATA_PATH DATASET_PATH",
    "OUTPUT_DIR": "OUTPUT OUT_DIR OUTPUT_PATH OUT_PATH",
    "RUNS_DIR": "LOG_DIR LOGDIR LOGGING_DIR",
    "SAMPLE_TEXT": "TEXT PROMPT",
    "VOICE": "SPEAKER SPEAKER_NAME",
}


def _by_foreign_name(words: Mapping[str, str]) -> dict[str, str]:
    return {foreign: ours for ours, foreign_names in words.items() for foreign in foreign_names.split()}


BY_TRAINER_NAME = _by_foreign_name(_NAMES_IN_OTHER_TRAINERS)
BY_COMMON_NAME = _by_foreign_name(_COMMON_NAMES)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")


def setting_for_common_name(name: str) -> str:
    """Our setting for a common name such as PORT or MODEL; "" for none."""
    return BY_COMMON_NAME.get(_plain(name), "")


def likely_names(name: str, ours: Collection[str]) -> list[str]:
    """The settings that a user may have meant by `name`; empty if it belongs to another program.

    It recognises another trainer's name (LR, BATCH_SIZE), a close spelling (NUM_EPOCH, num-epochs),
    the same letters (SEDE), or a subset of the words (MAX_SAMPLES). Common names (PORT, HOST) are
    left to `setting_for_common_name`.
    """
    plain = _plain(name)
    if plain in ours:
        return [plain]
    if BY_TRAINER_NAME.get(plain) in ours:
        return [BY_TRAINER_NAME[plain]]
    if plain.startswith(FOREIGN_PREFIXES) or plain in BY_COMMON_NAME:
        return []
    if close := difflib.get_close_matches(plain, sorted(ours), n=2, cutoff=0.8):
        return close
    if anagrams := [setting for setting in sorted(ours) if sorted(setting) == sorted(plain)]:
        return anagrams
    words = set(plain.split("_"))
    return [setting for setting in sorted(ours) if len(plain) >= 6 and words < set(setting.split("_"))][:2]
