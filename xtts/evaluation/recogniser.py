"""Speech recognition of spoken sentences with pocketsphinx or a local Whisper model.

pocketsphinx recognises English, if it is installed. A Whisper model comes from a folder on this
machine and runs in transformers or faster-whisper. Nothing is downloaded: pocketsphinx includes its
English model, and Whisper's folder is opened with `local_files_only`. Importing this module imports
neither these packages nor torch.
"""

import importlib
import importlib.util
import json
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

import numpy as np

from machine import commands
from machine.errors import SotaqueError
from machine.onnxruntime import import_quietly
from machine.process import JsonLineProcess, module_command
from machine.text import first_line
from xtts.evaluation.pocketsphinx_child import RATE as RATE
from xtts.text.errors import TextError
from xtts.text.languages import short_code

if TYPE_CHECKING:
    from xtts.text.tokenizer import Tokenizer

POCKETSPHINX = "pocketsphinx"
# Each decoder needs a copy of the language model.
MAX_DECODERS = 2
# A sound of 20 s takes 2 s of a free core.
_LONGEST_SECONDS = 120.0
_LOUDNESS = 0.7
_PADDING = RATE // 4
# Two words a second, three tokens a word, 20 s. More tokens are a hallucination of the recogniser.
_MAX_TOKENS = 128
# CTranslate2's files, for faster-whisper, which would download the second if it were missing.
_CONVERTED, _CONVERTED_WORDS = "model.bin", "tokenizer.json"
# Languages written without spaces, whose characters are counted instead of words.
_WITHOUT_SPACES = ("zh", "ja")


class RecogniserError(SotaqueError):
    """A recogniser cannot be opened, or failed; the message says why."""


class Recogniser(ABC):
    """Transcribes sentences independently of each other, `at_once` of them in parallel threads."""

    at_once = 1

    @abstractmethod
    def hear(self, samples: np.ndarray) -> str:
        """The transcript of a waveform `[samples]` at 16 kHz."""


def can_hear_english() -> bool:
    """Whether pocketsphinx is installed and can be imported."""
    try:
        importlib.import_module(POCKETSPHINX)
    except ImportError:
        return False
    return True


def check_folder(folder: Path) -> None:
    """Raises RecogniserError unless a folder contains a Whisper model in the format of
    transformers, or of CTranslate2 with faster-whisper installed."""
    if (folder / _CONVERTED).is_file():
        if not (folder / _CONVERTED_WORDS).is_file():
            raise RecogniserError(
                f"{folder} has a {_CONVERTED}, but no {_CONVERTED_WORDS}. Copy the one of the same "
                "Whisper model into the folder; it is not downloaded."
            )
        if importlib.util.find_spec("faster_whisper") is None:
            raise RecogniserError(
                f"{folder} contains a Whisper model for faster-whisper, which is not installed. "
                f"Install it with: {commands.install_extra('faster-whisper')}, or name a folder "
                "in the format of transformers."
            )
        return
    try:
        kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecogniserError(
            f"{folder} is not a folder with a Whisper model: its config.json cannot be read "
            f"({error}). Use a folder in the format of transformers, such as a copy of "
            "openai/whisper-base, or of CTranslate2, such as a copy of Systran/faster-whisper-base."
        ) from error
    if kind != "whisper":
        raise RecogniserError(f"{folder} contains a model of type {kind!r}; a Whisper model is needed.")


def recogniser_of(setting: str, language: str) -> tuple[str, str | None]:
    """The recogniser for a language by EVALUATE_RECOGNISER, as in `open_recogniser`; or "" and the reason
    for none.

    Raises SotaqueError for a folder that holds no Whisper model.
    """
    if setting == "off":
        return "", "EVALUATE_RECOGNISER is off"
    if setting not in ("auto", POCKETSPHINX):
        folder = Path(setting)
        try:
            check_folder(folder)
        except RecogniserError as error:
            raise SotaqueError(f"EVALUATE_RECOGNISER: {error}") from error
        return str(folder), None
    if short_code(language) != "en":
        return "", (
            f"no recogniser for {language} is included; name a Whisper model with EVALUATE_RECOGNISER"
        )
    if not can_hear_english():
        return "", (
            "pocketsphinx is not installed; it has wheels for Python 3.11 and 3.13, or name a "
            "Whisper model with EVALUATE_RECOGNISER"
        )
    return POCKETSPHINX, None


def open_recogniser(name: str, language: str, threads: int) -> Recogniser:
    """Opens a recogniser. name: `POCKETSPHINX`, or the folder of a Whisper model. Raises
    RecogniserError."""
    if name == POCKETSPHINX:
        return Pocketsphinx(threads)
    folder = Path(name)
    check_folder(folder)
    if (folder / _CONVERTED).is_file():
        return FasterWhisper(folder, language, threads)
    return Whisper(folder, language)


class Pocketsphinx(Recogniser):
    """pocketsphinx with its English model. It does not know the expected text.

    Each decoder has a process: it holds the GIL, so two in threads were as slow as one, and
    interrupted the speech that is computed in parallel.
    """

    def __init__(self, threads: int = 1) -> None:
        if not can_hear_english():
            raise RecogniserError("pocketsphinx is not installed; it has wheels for Python 3.11 and 3.13.")
        self.at_once = max(1, min(threads, MAX_DECODERS))
        self._idle: SimpleQueue[JsonLineProcess | None] = SimpleQueue()
        for _ in range(self.at_once):
            self._idle.put(None)  # started when it is needed
        # A decoder dies with the thread that started it, and callers' threads may end.
        self._starting = ThreadPoolExecutor(1, thread_name_prefix="decoders")
        weakref.finalize(self, _end, self._idle)

    def hear(self, samples: np.ndarray) -> str:
        """As in `Recogniser`. Raises RecogniserError; the next sentence gets a new decoder."""
        decoder, heard = self._idle.get(), None
        try:
            if decoder is None:
                command = module_command("xtts.evaluation.pocketsphinx_child")
                decoder = self._starting.submit(JsonLineProcess, command).result()
            with NamedTemporaryFile() as sound:  # a pipe would block on a decoder that hangs
                sound.write(pcm(samples))
                sound.flush()
                decoder.send({"sound": sound.name})
                heard = str(decoder.receive(_LONGEST_SECONDS)["heard"])
            return heard
        except (OSError, EOFError) as error:
            why = decoder.errors.last_line() if decoder else str(error)
            raise RecogniserError(f"pocketsphinx failed: {why or 'its process ended or hung'}.") from error
        finally:
            if decoder is not None and heard is None:  # a late answer would be another sentence's
                decoder.end()
                decoder = None
            self._idle.put(decoder)


def _end(decoders: "SimpleQueue[JsonLineProcess | None]") -> None:
    while not decoders.empty():
        if (decoder := decoders.get()) is not None:
            decoder.end()


class Whisper(Recogniser):
    """A Whisper model with transformers, for any of its languages. Runs on the CPU, to leave the
    GPU's memory to training."""

    def __init__(self, folder: Path, language: str) -> None:
        transformers = importlib.import_module("transformers")
        local = {"local_files_only": True}
        with _report_faults(folder):
            self._processor = transformers.WhisperProcessor.from_pretrained(folder, **local)
            model = transformers.WhisperForConditionalGeneration.from_pretrained(folder, **local)
        self._model = model.eval()
        chosen = self._model.generation_config
        chosen.max_length, chosen.max_new_tokens, chosen.do_sample = None, _MAX_TOKENS, False
        # English-only models reject the language option.
        self._options: dict[str, str] = (
            {"language": language.split("-")[0], "task": "transcribe"}
            if getattr(chosen, "is_multilingual", False)
            else {}
        )

    def hear(self, samples: np.ndarray) -> str:
        import torch

        with torch.inference_mode():
            given = self._processor(_loud(samples), sampling_rate=RATE, return_tensors="pt")
            ids = self._model.generate(given.input_features, **self._options)
            texts = self._processor.batch_decode(ids, skip_special_tokens=True)
        return str(texts[0]).strip()


class FasterWhisper(Recogniser):
    """A Whisper model in CTranslate2's format with faster-whisper, several times as fast on a
    CPU."""

    def __init__(self, folder: Path, language: str, threads: int) -> None:
        library = import_quietly("faster_whisper")
        with _report_faults(folder):
            # Computes in the type of the weights, which is int8 in most copies.
            self._model = library.WhisperModel(
                str(folder), device="cpu", cpu_threads=threads, local_files_only=True
            )
        self._language = language.split("-")[0] if self._model.model.is_multilingual else "en"

    def hear(self, samples: np.ndarray) -> str:
        # A single temperature, because the fallback temperatures sample at random.
        segments, _ = self._model.transcribe(
            _loud(samples),
            language=self._language,
            temperature=0.0,
            without_timestamps=True,
            condition_on_previous_text=False,
            max_new_tokens=_MAX_TOKENS,
        )
        return " ".join(segment.text.strip() for segment in segments).strip()


@contextmanager
def _report_faults(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise RecogniserError(
            f"The Whisper model in {folder} cannot be opened: {first_line(error)}."
        ) from error


def words_of(tokenizer: "Tokenizer", text: str, language: str) -> list[str]:
    """The words of a text for comparison: in lower case, with numbers in words; in Chinese and
    Japanese the characters. Raises TextError."""
    words = [word.lower() for word in tokenizer.spelled(text, language)]
    return list("".join(words)) if language.split("-")[0] in _WITHOUT_SPACES else words


def heard_words(tokenizer: "Tokenizer", heard: str, language: str) -> list[str]:
    """As `words_of`, for a transcript, which may be empty or not readable."""
    with suppress(TextError):
        return words_of(tokenizer, heard.replace("[", " ").replace("<", " "), language)
    return heard.lower().split()


def num_errors(reference: Sequence[str], heard: Sequence[str]) -> int:
    """The edit distance in words: substitutions, deletions and insertions (Levenshtein 1966)."""
    row = list(range(len(heard) + 1))
    for number, word in enumerate(reference, start=1):
        before, row = row, [number]
        for place, other in enumerate(heard, start=1):
            row.append(min(before[place] + 1, row[-1] + 1, before[place - 1] + (word != other)))
    return row[-1]


def pcm(samples: np.ndarray) -> bytes:
    """A waveform at 16 kHz as 16-bit samples, loud and padded, as pocketsphinx hears it."""
    return (_loud(samples) * 32767).astype("<i2").tobytes()


def _loud(samples: np.ndarray) -> np.ndarray:
    """Normalises the peak, and adds a quarter of a second of silence at both ends."""
    loudest = max(float(np.abs(samples).max(initial=0.0)), 1e-4)
    padded: np.ndarray = np.pad(samples.astype(np.float32) / loudest * _LOUDNESS, _PADDING)
    return padded
