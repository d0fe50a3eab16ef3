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
    AutoCount,
    Count,
    DatasetFolder,
    Folder,
    Means,
    Place,
    Port,
    Positive,
    Switch,
    Text,
)
from xtts.text.languages import CODE_BY_NAME, NAMES

Share = Annotated[float, Field(ge=0, lt=1), Means("a number from 0 to below 1, such as 0.1")]
Weight = Annotated[float, Field(ge=0), Means("a number from 0, such as 0.01")]
Whole = Annotated[int, Field(ge=0, lt=2**32), Means("a whole number from 0")]


def _language_code(text: str) -> str:
    if re.fullmatch(r"[a-z]{2,3}(-[a-z0-9]{2,8})*", text):
        return text
    short = CODE_BY_NAME.get(text) or re.split(r"[_\W]", text)[0]
    if short in NAMES:
        raise ValueError(f"Did you mean {short}?")
    raise ValueError(f"XTTS-v2's are {', '.join(NAMES)}.")


@settings_class(frozen=True, kw_only=True, config=CONFIG)
class TrainSettings(SharedSettings):
    """What a training run is made of. `None` is written as the word in `Means.none`."""

    dataset_dir: DatasetFolder = Path("train/data/demo")
    """The folder with the clips and their transcripts (docs/datasets.md)."""
    max_train_samples: Annotated[
        Annotated[int, Field(ge=1)] | None,
        Means("a whole number from 1; empty or all = all clips", none="all"),
    ] = None
    """How many clips to use, in the order of the metadata; all, or more than there are, uses every
    one."""
    num_epochs: AutoCount = None
    """How often every clip is learned from. auto is what the base model recommends."""
    language: Annotated[
        Text,
        AfterValidator(_language_code),
        Means("a language code of the base model, such as en", words=True),
    ] = "en"
    """The language of the clips, where the metadata does not say it clip by clip."""
    dataset_format: Annotated[
        Text, Means("auto, ljspeech, coqui, columns, pairs, or a formatter of TTS", words=True)
    ] = "auto"
    """How the transcripts are written. auto detects it from the files."""
    suspect_clips: Annotated[
        Literal["keep", "leave_out"], Means("keep or leave_out", words=True)
    ] = "keep"
    """What to do with clips that `train check` finds suspect (docs/datasets.md). keep names them at
    the start of a run and trains on them, leave_out trains without them; no clip is changed."""
    speaker_model: Annotated[Place | None, Means("an ONNX file; empty = none")] = None
    """A second opinion on who speaks, such as ECAPA-TDNN: 16 kHz samples or 80 log-mel bands in, an
    embedding out."""
    spoof_model: Annotated[Place | None, Means("an ONNX file; empty = none")] = None
    """Scores clips as recorded or made, such as AASIST: 16 kHz samples or 80 log-mel bands in."""
    learning_rate: Annotated[
        Annotated[float, Field(gt=0, lt=1)] | None,
        Means("a number above 0 and below 1, such as 5e-6, or auto", none="auto"),
    ] = None
    """The highest learning rate of the schedule. auto is what the base model recommends."""
    batch_seconds: Annotated[
        Annotated[float, Field(ge=1)] | None,
        Means("a number of seconds from 1, or auto", none="auto"),
    ] = None
    """Audio in a batch: its longest clip times its clips. auto is what the base model recommends,
    else it goes by dataset and device, and in any case no more than there is memory for. A run
    keeps the value that it began with, and halves it when memory is short all the same."""
    precision: Annotated[
        Literal["auto", "fp32", "bf16", "fp16"],
        Means("auto, fp32, bf16 or fp16", words=True),
    ] = "auto"
    """Number format of the products; weights stay fp32. auto is bf16 where the machine has it."""
    sample_device: Annotated[
        Literal["auto", "gpu", "cpu", "off"], Means("auto, gpu, cpu or off", words=True)
    ] = "auto"
    """Where the sample of an epoch is spoken. auto is the GPU where it works, else the CPU."""
    sample_text: Annotated[Text | None, Means("a sentence")] = None
    """What the sample says. Empty is what its reference clip says, so that the two compare."""
    sample_every: Count = 1
    """Epochs from one sample to the next, and the last one. Only a saved epoch can be spoken."""
    evaluate_texts: Annotated[
        Place | None, Means("a text file, a sentence a line; empty = built-in ones")
    ] = None
    """What the base and every epoch speak to be judged (docs/evaluation.md). Empty is a set of
    sentences of the language; SAMPLE_DEVICE=off judges nothing."""
    evaluate_recogniser: Annotated[
        Place, Means("auto, off, or a folder with a Whisper model of transformers")
    ] = "auto"
    """What listens to them and counts word errors. auto is pocketsphinx for English, where it is
    installed, and none for other languages."""
    blend: Annotated[
        Annotated[float, Field(gt=0, le=1)] | Literal["auto", "off"],
        Means("auto, off, or a number from 0 to 1", words=True),
    ] = "auto"
    """Share of the fine-tuned weights in checkpoints/best.pt; the rest is the base's. auto judges
    1, 0.7, 0.5 and 0.3 when the run ends and keeps the best. Epochs' own files are never blended.
    """
    learn_decoder: Annotated[Literal["auto", "on", "off"], Means("auto, on or off", words=True)] = (
        "auto"
    )
    """auto learns, when the run ends, the vocoder that speaks the best weights most as the person's
    own clips sound, in the time that judging may take; on takes up to ten minutes; off leaves the
    base's."""
    decoder_clips: Count = 64
    """How many of the person's clips it learns from, and is judged by, at most. Each is spoken once
    before; where that takes more than a quarter of the time, fewer are used."""
    save_every: Count = 1
    """Epochs from one checkpoint to the next, and the last one."""
    keep_checkpoints: Annotated[
        Positive | None, Means("a whole number from 1, or all", none="all")
    ] = 3
    """How many epochs to keep; the best one and the newest sound one stay in any case."""
    resume: Annotated[Place, Means("auto, never, or the path of a checkpoint")] = "auto"
    """auto goes on with the run in OUTPUT_DIR; never moves it to OUTPUT_DIR/archive and begins
    again; a path goes on from that checkpoint."""
    seed: Whole = 0
    """Decides order, dropout and sampling: the same seed gives the same numbers."""
    stop_seconds: Annotated[float, Field(ge=0), Means("a number of seconds from 0")] = 8.0
    """How long a stop (Ctrl-C, docker stop) may take to save. Docker kills after 10 seconds."""
    stall_seconds: Annotated[
        Annotated[float, Field(gt=0)] | None,
        Means("a number of seconds above 0, or off", none="off"),
    ] = 120.0
    """How long a step may take, or ten times the usual step if that is longer. A run that hangs is
    ended then, with exit code 75 and the place where it hung. off waits for ever."""
    validation_every: Count = 1
    """Epochs from one validation to the next, and the last one."""
    log_every: Count = 10
    """Steps from one console line to the next; TensorBoard and metrics.jsonl get every step."""
    tensorboard: Switch = True
    """Starts TensorBoard with the run."""
    tensorboard_port: Port = 6006
    """Its port; when it is taken, the next free one, and the log says so."""
    runs_dir: Folder = Path("train/runs")
    """What TensorBoard shows: the curves of each OUTPUT_DIR in a folder of its own name."""
    cache_dir: Folder = Path("train/cache")
    """Features computed once per clip; it may be deleted at any time."""
    cache: Switch = True
    """Keeps the features of every clip in CACHE_DIR. off computes them for each batch again,
    between the steps, which gives the same losses and takes many times longer: for finding faults.
    """
    compile: Switch = False
    """Compiles the feed-forward half of each block (torch.compile; needs a C++ compiler). Changes
    numbers by rounding only."""
    conditioning: Annotated[
        Literal["other_clip", "same_clip"], Means("other_clip or same_clip", words=True)
    ] = "other_clip"
    """What the voice of a clip is taken from: another clip of its speaker, or, as in Coqui's
    recipe, the clip itself."""
    dropout: Share = 0.1
    """Share of activations dropped in training."""
    warmup_steps: Whole = 25
    """Steps in which the learning rate rises; AdamW's averages (beta 0.96) need about 25."""
    schedule: Annotated[
        Literal["inverse_sqrt", "cosine", "constant"],
        Means("inverse_sqrt, cosine or constant", words=True),
    ] = "inverse_sqrt"
    """How the learning rate falls behind the warm-up. cosine falls to a tenth at the last epoch, so
    it depends on NUM_EPOCHS; inverse_sqrt goes on as it was when a run is made longer."""
    optimizer: Annotated[Literal["adamw", "adamw8bit"], Means("adamw or adamw8bit", words=True)] = (
        "adamw"
    )
    """adamw8bit keeps its averages in 8 bits: 2.6 GB less for XTTS-v2, and slower."""
    gradient_checkpointing: Annotated[
        Literal["auto", "on", "off"], Means("auto, on or off", words=True)
    ] = "auto"
    """Computes activations twice instead of keeping them: a tenth of their memory, a third more
    work, the same numbers. auto is on where the longest clip would not fit otherwise."""
    lora_rank: Annotated[int, Field(ge=0, le=1024), Means("a whole number from 0; 0 = off")] = 0
    """Learns small differences to the transformer's matrices (LoRA) instead of the whole model; 16
    is usual. Less memory, and other languages are kept. Checkpoints hold merged weights."""
    lora_alpha: Annotated[Positive | None, Means("a whole number from 1, or auto", none="auto")] = (
        None
    )
    """Weight of those differences: alpha / rank. auto is twice the rank."""
    freeze: Annotated[Text | None, Means("names of weights with *, separated by commas")] = None
    """Parts that learn nothing, such as conditioning_*,text_embedding. Empty: what the base model
    recommends; none: nothing."""
    ema_decay: Annotated[
        Share | None, Means("a number from 0 to below 1, such as 0.999, or auto", none="auto")
    ] = None
    """Saves and speaks an average of the weights over the steps; 0 = off. auto is what the base
    model recommends."""
    early_stopping: Annotated[
        Positive | None, Means("a whole number from 1, or off", none="off")
    ] = None
    """Ends the run when so many epochs in a row were no better: by the evaluation, or where there
    is none (SAMPLE_DEVICE=off) on the validation clips."""
    weight_decay: Weight = 0.01
    """AdamW's weight decay, on matrices only."""
    gradient_clip: Annotated[float, Field(gt=0), Means("a number above 0, such as 1.0")] = 1.0
    """The largest gradient norm of a step."""
    text_loss_weight: Weight = 0.01
    """Weight of the cross-entropy of the text."""
    audio_loss_weight: Weight = 1.0
    """Weight of the cross-entropy of the audio codes."""


def load(
    argv: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    dotenv_path: Path | None = Path(".env"),
) -> tuple[TrainSettings, SettingsReport]:
    """The settings of a run, and where each came from. Raises SettingsError with every fault."""
    return shared.load(TrainSettings, argv, environ, dotenv_path)
