"""Which recogniser listens to an evaluation: EVALUATE_RECOGNISER, or what is installed."""

from dataclasses import dataclass
from pathlib import Path

from train.evaluation.sentences import EvaluationError
from xtts.evaluation.recogniser import (
    POCKETSPHINX,
    RecogniserError,
    can_hear_english,
    check_folder,
)


@dataclass(frozen=True)
class Recognition:
    """name: as `EvaluateRequest.recogniser`, "" for none; told: what to call it; absent: why there
    is none, or None."""

    name: str
    told: str
    absent: str | None


def recognition_of(setting: str, language: str) -> Recognition:
    """By the setting and the language of the sentences.

    Raises EvaluationError for a folder that holds no Whisper model.
    """
    if setting == "off":
        return Recognition("", "", "EVALUATE_RECOGNISER is off")
    if setting != "auto":
        folder = Path(setting)
        try:
            check_folder(folder)
        except RecogniserError as error:
            raise EvaluationError(f"EVALUATE_RECOGNISER: {error}") from error
        return Recognition(str(folder), f"Whisper ({folder.name})", None)
    if language.split("-")[0] != "en":
        return Recognition(
            "", "", f"none comes with the package for {language}; EVALUATE_RECOGNISER names one"
        )
    if not can_hear_english():
        return Recognition(
            "", "", "pocketsphinx is not installed; it has wheels for Python 3.11 and 3.13, or "
            "EVALUATE_RECOGNISER names a Whisper model",
        )  # fmt: skip
    return Recognition(POCKETSPHINX, POCKETSPHINX, None)
