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
# The time limit of a transcript; a sound of 20 s takes 2 s of a free core.
_MAX_ANSWER_SECONDS = 120.0
_PEAK = 0.7
_PADDING_SAMPLES = RATE // 4
# Two words a second, three tokens a word, 20 s. More tokens are a hallucination of the recogniser.
_MAX_TOKENS = 128
# CTranslate2's files, for faster-whisper, which would download the second if it were missing.
_CTRANSLATE2_MODEL, _CTRANSLATE2_TOKENIZER = "model.bin", "tokenizer.json"
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
    if (folder / _CTRANSLATE2_MODEL).is_file():
        if not (folder / _CTRANSLATE2_TOKENIZER).is_file():
            raise RecogniserError(
                f"{folder} has a {_CTRANSLATE2_MODEL}, but no {_CTRANSLATE2_TOKENIZER}. Copy the one of "
                "the same Whisper model into the folder; it is not downloaded."
            )
        if importlib.util.find_spec("faster_whisper") is None:
            raise RecogniserError(
                f"{folder} contains a Whisper model for faster-whisper, which is not installed. "
                f"Install it with: {commands.install_extra('faster-whisper')}, or name a folder "
                "in the format of transformers."
            )
        return
    try:
        model_type = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecogniserError(
            f"{folder} is not a folder with a Whisper model: its config.json cannot be read "
            f"({error}). Use a folder in the format of transformers, such as a copy of "
            "openai/whisper-base, or of CTranslate2, such as a copy of Systran/faster-whisper-base."
        ) from error
    if model_type != "whisper":
        raise RecogniserError(f"{folder} contains a model of type {model_type!r}; a Whisper model is needed.")


def recogniser_of(setting: str, language: str) -> tuple[str, str | None]:
    """The name of the recogniser that EVALUATE_RECOGNISER means for a language, as in
    `open_recogniser`; or "" and why there is none.

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
    if (folder / _CTRANSLATE2_MODEL).is_file():
        return FasterWhisper(folder, language, threads)
    return Whisper(folder, language)


class Pocketsphinx(Recogniser):
    """pocketsphinx with its English model. It does not know the expected text.

    Each decoder has a process. It holds the GIL: two decoders in threads were as slow as one, and
    interrupted the speech that is computed in parallel.
    """

    def __init__(self, threads: int = 1) -> None:
        if not can_hear_english():
            raise RecogniserError("pocketsphinx is not installed; it has wheels for Python 3.11 and 3.13.")
        self.at_once = max(1, min(threads, MAX_DECODERS))
        self._idle_decoders: SimpleQueue[JsonLineProcess | None] = SimpleQueue()
        for _ in range(self.at_once):
            self._idle_decoders.put(None)  # started when it is needed
        # A decoder dies with the thread that started it, and callers' threads may end.
        self._starting_thread = ThreadPoolExecutor(1, thread_name_prefix="decoders")
        weakref.finalize(self, _end_decoders, self._idle_decoders)

    def hear(self, samples: np.ndarray) -> str:
        """As in `Recogniser`. Raises RecogniserError; the next sentence gets a new decoder."""
        decoder, transcript = self._idle_decoders.get(), None
        try:
            if decoder is None:
                command = module_command("xtts.evaluation.pocketsphinx_child")
                decoder = self._starting_thread.submit(JsonLineProcess, command).result()
            with NamedTemporaryFile() as sound:  # a pipe would block on a decoder that hangs
                sound.write(pcm(samples))
                sound.flush()
                decoder.send({"sound": sound.name})
                transcript = str(decoder.receive(_MAX_ANSWER_SECONDS)["heard"])
            return transcript
        except (OSError, EOFError) as error:
            reason = decoder.errors.last_line() if decoder else str(error)
            raise RecogniserError(f"pocketsphinx failed: {reason or 'its process ended or hung'}.") from error
        finally:
            if decoder is not None and transcript is None:  # a late answer would be another sentence's
                decoder.end()
                decoder = None
            self._idle_decoders.put(decoder)


def _end_decoders(decoders: "SimpleQueue[JsonLineProcess | None]") -> None:
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
        generation = self._model.generation_config
        generation.max_length, generation.max_new_tokens, generation.do_sample = None, _MAX_TOKENS, False
        # English-only models reject the language option.
        self._options: dict[str, str] = (
            {"language": language.split("-")[0], "task": "transcribe"}
            if getattr(generation, "is_multilingual", False)
            else {}
        )

    def hear(self, samples: np.ndarray) -> str:
        import torch

        with torch.inference_mode():
            inputs = self._processor(_normalize(samples), sampling_rate=RATE, return_tensors="pt")
            ids = self._model.generate(inputs.input_features, **self._options)
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
            _normalize(samples),
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


def heard_words(tokenizer: "Tokenizer", transcript: str, language: str) -> list[str]:
    """As `words_of`, for a transcript, which may be empty or not readable."""
    with suppress(TextError):
        return words_of(tokenizer, transcript.replace("[", " ").replace("<", " "), language)
    return transcript.lower().split()


def num_errors(reference: Sequence[str], heard: Sequence[str]) -> int:
    """The edit distance in words: substitutions, deletions and insertions (Levenshtein 1966)."""
    row = list(range(len(heard) + 1))
    for num_words, word in enumerate(reference, start=1):
        previous, row = row, [num_words]
        for column, heard_word in enumerate(heard, start=1):
            substituted = previous[column - 1] + (word != heard_word)
            row.append(min(previous[column] + 1, row[-1] + 1, substituted))
    return row[-1]


def pcm(samples: np.ndarray) -> bytes:
    """A waveform at 16 kHz as 16-bit samples, normalised and padded, for pocketsphinx."""
    return (_normalize(samples) * 32767).astype("<i2").tobytes()


def _normalize(samples: np.ndarray) -> np.ndarray:
    """Normalises the peak, and adds a quarter of a second of silence at both ends."""
    peak = max(float(np.abs(samples).max(initial=0.0)), 1e-4)
    padded: np.ndarray = np.pad(samples.astype(np.float32) / peak * _PEAK, _PADDING_SAMPLES)
    return padded
