"""Every setting of training: name, default, bounds, description.

The string under a field is at once the comment in `.env.example`, the text of `--help` and the row
in `docs/settings.md`. Read once in `train.__main__`, then passed.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass as settings_class

from machine.settings import loading as shared
from machine.settings.loading import SettingsReport, SharedSettings
from machine.settings.types import (
    CONFIG,
    Count,
    DatasetFolder,
    Folder,
    Means,
    PathOrWord,
    Port,
    Positive,
    SampleDevice,
    Switch,
    Text,
)
from xtts.text.languages import ENGLISH_NAMES, tag_of

Whole = Annotated[int, Field(ge=0, lt=2**32), Means("a whole number from 0")]


def _language_code(text: str) -> str:
    if re.fullmatch(r"[a-z]{2,3}(-[a-z0-9]{2,8})*", tag := tag_of(text)):
        return tag
    raise ValueError(f"XTTS-v2's are {', '.join(ENGLISH_NAMES)}.")


@settings_class(frozen=True, kw_only=True, config=CONFIG)
class TrainSettings(SharedSettings):
    """The settings of a training run. `Means.none` is the word that stands for `None`."""

    dataset_dir: DatasetFolder = Path("train/data/demo")
    """The folder with the clips and their transcripts (docs/datasets.md)."""
    max_train_samples: Annotated[
        Annotated[int, Field(ge=1)] | None,
        Means("a whole number from 1; empty or all = all clips", none="all"),
    ] = None
    """How many clips to use, in the order of the metadata. A number above the size of the dataset
    uses every clip."""
    num_epochs: Annotated[
        Annotated[int, Field(ge=1, le=100_000)] | None,
        Means("a whole number from 1 to 100000, or auto", none="auto"),
    ] = None
    """How many epochs to train: passes over the dataset. auto is the base model's recommendation
    (demo 4), or else 10, as for XTTS-v2."""
    language: Annotated[
        Text,
        AfterValidator(_language_code),
        Means("a language code of the base model, such as en", words=True),
    ] = "en"
    """The language of the clips, unless the metadata names a language for each clip."""
    dataset_format: Annotated[
        Text, Means("auto, ljspeech, coqui, columns, pairs, folders, or a formatter of TTS", words=True)
    ] = "auto"
    """The format of the transcripts. auto detects it from the files."""
    suspect_clips: Annotated[Literal["keep", "leave_out"], Means("keep or leave_out", words=True)] = "keep"
    """Whether to train on the clips that `train check` reports as suspect (docs/datasets.md). keep
    lists them at the start of a run and trains on them; leave_out trains without them. No file is
    changed."""
    learning_rate: Annotated[
        Annotated[float, Field(gt=0, lt=1)] | None,
        Means("a number above 0 and below 1, such as 5e-6, or auto", none="auto"),
    ] = None
    """The peak learning rate of the schedule. auto is the base model's recommendation (demo
    2e-6), or else that of Coqui's recipe, 5e-6, as for XTTS-v2."""
    rehearsal: Annotated[
        Annotated[float, Field(gt=0, le=0.9)] | Literal["auto", "off"],
        Means("auto, off, or a number above 0, to 0.9", words=True),
    ] = "auto"
    """The share of an epoch's audio in the languages that the base already speaks, while it learns
    an added one: clips of the dataset, or else up to 20 minutes of sentences that the base speaks
    when the run begins. auto is all such clips, or else a quarter."""
    batch_seconds: Annotated[
        Annotated[float, Field(ge=1, le=100_000)] | None,
        Means("a number of seconds from 1 to 100000, or auto", none="auto"),
    ] = None
    """The size of a batch in seconds: its longest clip times its number of clips. auto takes the
    base model's recommendation, or else a size for this dataset and device; never more than fits in
    memory. A resumed run keeps the value that it began with. If memory still runs out, the run
    halves it."""
    precision: Annotated[
        Literal["auto", "fp32", "bf16", "fp16"], Means("auto, fp32, bf16 or fp16", words=True)
    ] = "auto"
    """The number format of matrix products; weights stay fp32. auto is bf16 if the machine supports
    it."""
    sample_device: SampleDevice = "auto"
    """The device that speaks each epoch's sample. auto is the GPU if it works, else the CPU. off
    speaks none."""
    sample_text: Annotated[Text | None, Means("a sentence")] = None
    """The text of the sample. Empty takes the text of its reference clip, so that you can compare
    the two."""
    sample_every: Count = 1
    """Speaks a sample every N epochs and after the last one. Only a saved epoch can speak."""
    evaluate_texts: Annotated[
        PathOrWord | None, Means("a text file, a sentence a line; empty = built-in ones")
    ] = None
    """The sentences that the base and every epoch speak for the evaluation (docs/evaluation.md).
    Empty takes the built-in sentences of the language. With SAMPLE_DEVICE=off there is no
    evaluation."""
    evaluate_recogniser: Annotated[
        PathOrWord, Means("auto, off, or a folder with a Whisper model of transformers")
    ] = "auto"
    """The speech recogniser that measures the word error rate in the evaluation. auto is
    pocketsphinx for English if it is installed, and no recogniser for other languages."""
    evaluate_naturalness: Annotated[Literal["auto", "off"], Means("auto or off", words=True)] = "auto"
    """Whether the evaluation judges how natural candidates sound, from 1 to 5. auto does so if
    distillmos is installed."""
    blend: Annotated[
        Annotated[float, Field(gt=0, le=1)] | Literal["auto", "off"],
        Means("auto, off, or a number above 0, to 1", words=True),
    ] = "auto"
    """The share of fine-tuned weights in checkpoints/best.pt; the rest are the base's. auto judges
    0.7, 0.5 and 0.3 when the run ends, if the nearest epoch lost something that the base has. The
    checkpoints of the epochs are never blended."""
    learn_decoder: Annotated[Literal["auto", "on", "off"], Means("auto, on or off", words=True)] = "auto"
    """Trains the decoder (vocoder) on the person's own clips, a part in each epoch. auto does so
    unless the base model recommends off. off keeps the base's decoder."""
    save_every: Count = 1
    """Saves a checkpoint every N epochs and after the last one."""
    keep_checkpoints: Annotated[Positive | None, Means("a whole number from 1, or all", none="all")] = 3
    """How many epochs' checkpoints to keep. The best one and the newest verified one always stay.
    """
    resume: Annotated[PathOrWord, Means("auto, never, or the path of a checkpoint")] = "auto"
    """auto resumes the run in OUTPUT_DIR. never moves that run to OUTPUT_DIR/archive and starts a
    new one. A path starts from that checkpoint."""
    seed: Whole = 0
    """The seed of clip order, dropout and sampling. The same seed gives the same numbers."""
    stop_seconds: Annotated[float, Field(ge=0, le=86_400), Means("a number of seconds from 0 to 86400")] = 8.0
    """The time limit for saving after a stop (Ctrl-C, docker stop). `docker stop` alone kills after
    10 seconds; docker-compose-training.yml waits two minutes."""
    tensorboard: Switch = True
    """Starts TensorBoard together with the run."""
    tensorboard_port: Port = 6006
    """The port of TensorBoard. If it is in use, TensorBoard takes the next free port and the log
    names it."""
    runs_dir: Folder = Path("train/runs")
    """The folder that TensorBoard shows. Each OUTPUT_DIR has its curves in a subfolder of the same
    name."""
    cache_dir: Folder = Path("train/cache")
    """The feature cache: features computed once per clip. You may delete it at any time."""
    optimizer: Annotated[Literal["adamw", "adamw8bit"], Means("adamw or adamw8bit", words=True)] = "adamw"
    """The optimizer. adamw8bit keeps its averages in 8 bits: it saves 2.6 GB for XTTS-v2 and is
    slower."""
    gradient_checkpointing: Annotated[Literal["auto", "on", "off"], Means("auto, on or off", words=True)] = (
        "auto"
    )
    """Computes activations twice instead of keeping them: a tenth of their memory, a third more
    work, the same numbers. auto is on only if the longest clip would not fit otherwise."""
    lora_rank: Annotated[int, Field(ge=0, le=1024), Means("a whole number from 0; 0 = off")] = 0
    """The rank of LoRA adapters, which train instead of the whole model; 16 is usual. LoRA needs
    less memory and preserves the other languages. Checkpoints hold merged weights."""
    early_stopping: Annotated[Positive | None, Means("a whole number from 1, or off", none="off")] = None
    """Ends the run after N epochs in a row without improvement. The evaluation decides, or the
    validation loss if there is no evaluation (SAMPLE_DEVICE=off)."""


def load(
    argv: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    dotenv_path: Path | None = Path(".env"),
) -> tuple[TrainSettings, SettingsReport]:
    """Returns the settings of a run and their sources. Raises SettingsError with all errors."""
    return shared.load(TrainSettings, argv, environ, dotenv_path)
