"""What a run is evaluated by: sentences, the person's recordings, and what listens to them."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from machine.errors import SotaqueError
from machine.storage.hashes import sha256_of
from train.dataset.dataset import Clip, Dataset
from train.evaluation import sentences
from train.evaluation.person import recordings_of
from train.evaluation.sentences import EvaluationSentence
from train.sampling.sample_files import SampleReference
from train.settings import TrainSettings
from xtts.evaluation.recogniser import (
    POCKETSPHINX,
    RecogniserError,
    can_hear_english,
    check_folder,
)

log = logging.getLogger("train")

# Without a recogniser one sentence in so many is also heard: at full size the vocoder costs more
# than all else together.
SOUNDED_EVERY = 3
FEWEST_VALIDATION_CLIPS = 5


@dataclass(frozen=True)
class EvaluationPlan:
    """What is spoken by everybody, and by whom it is compared.

    Attributes:
        sentences: In their order.
        clips: All of the person's clips, for the rate.
        recordings: Those that are listened to.
        base: {name, sha256} as in a manifest.
        recogniser: What listens to the sentences, as `EvaluateRequest.recogniser`; "" is none.
        no_recogniser: Why there is none, or None.
    """

    sentences: Sequence[EvaluationSentence]
    reference: SampleReference
    clips: Sequence[Clip]
    recordings: Sequence[Clip]
    base: dict[str, str]
    recogniser: str
    no_recogniser: str | None

    @property
    def sentence_set(self) -> str:
        """What makes two evaluations comparable."""
        return sentences.set_sha256(self.sentences, sha256_of(self.reference.path), self.recogniser)

    @property
    def sounded_every(self) -> int:
        """One sentence in so many goes through the vocoder; all where a recogniser listens."""
        return 1 if self.recogniser else SOUNDED_EVERY


def plan_of(
    settings: TrainSettings, data: Dataset, reference: SampleReference, base: dict[str, str]
) -> EvaluationPlan:
    """What this run is evaluated by. Raises SotaqueError for EVALUATE_TEXTS and
    EVALUATE_RECOGNISER."""
    spoken_from = next(clip for clip in data.clips if clip.path == reference.path)
    clips = [clip for clip in data.clips if clip.speaker == spoken_from.speaker]
    recordings = recordings_of(data, spoken_from.speaker, spoken_from)
    own = Path(settings.evaluate_texts) if settings.evaluate_texts else None
    texts = sentences.planned(own, reference.language, recordings, settings.seed)
    recogniser = recogniser_of(settings.evaluate_recogniser, reference.language)
    return EvaluationPlan(texts, reference, clips, recordings, base, *recogniser)


def warn_of_few_clips(data: Dataset) -> None:
    """A loss of one or two clips is a lottery; what helps is told."""
    if len(data.validation) < FEWEST_VALIDATION_CLIPS:
        log.warning(
            "Validation has %d clips, fewer than %d: its loss says little about an epoch. Add "
            "clips (a twentieth of them validate, of 100 clips five), or name validation clips in "
            "a metadata_val.csv (docs/datasets.md).", len(data.validation), FEWEST_VALIDATION_CLIPS,
        )  # fmt: skip


def recogniser_of(setting: str, language: str) -> tuple[str, str | None]:
    """As in `EvaluationPlan`, by the setting and the language of the sentences.

    Raises SotaqueError for a folder that holds no Whisper model.
    """
    if setting == "off":
        return "", "EVALUATE_RECOGNISER is off"
    if setting != "auto":
        folder = Path(setting)
        try:
            check_folder(folder)
        except RecogniserError as error:
            raise SotaqueError(f"EVALUATE_RECOGNISER: {error}") from error
        return str(folder), None
    if language.split("-")[0] != "en":
        return "", f"none comes with the package for {language}; EVALUATE_RECOGNISER names one"
    if not can_hear_english():
        return "", (
            "pocketsphinx is not installed; it has wheels for Python 3.11 and 3.13, or "
            "EVALUATE_RECOGNISER names a Whisper model"
        )
    return POCKETSPHINX, None
