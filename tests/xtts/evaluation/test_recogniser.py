"""Transcripts of pocketsphinx for the demo's clips, and of a Whisper with random weights; how
errors are counted. Nothing is downloaded."""

import contextlib
import csv
import importlib
import json
import os
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from xtts import audio
from xtts.evaluation import recogniser
from xtts.evaluation.recogniser import (
    POCKETSPHINX,
    RATE,
    RecogniserError,
    check_folder,
    heard_words,
    num_errors,
    open_recogniser,
    words_of,
)
from xtts.model.config import ModelConfig
from xtts.text.tokenizer import Tokenizer
from xtts.voices.base_models import DEMO

CLIPS = Path("train/data/demo")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(ModelConfig.read(DEMO), DEMO)


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A multilingual Whisper of one layer, saved as transformers saves it."""
    from tokenizers.pre_tokenizers import ByteLevel

    transformers = importlib.import_module("transformers")

    folder = tmp_path_factory.mktemp("whisper")
    signs = [
        "endoftext",
        "startoftranscript",
        "en",
        "pt",
        "translate",
        "transcribe",
        "startoflm",
        "startofprev",
        "nospeech",
        "notimestamps",
    ]
    tokens = [*sorted(ByteLevel.alphabet()), *(f"<|{sign}|>" for sign in signs)]
    ids = {token: number for number, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    words = transformers.WhisperTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    features = transformers.WhisperFeatureExtractor()
    transformers.WhisperProcessor(features, words).save_pretrained(folder)
    start, end = ids["<|startoftranscript|>"], ids["<|endoftext|>"]
    config = transformers.WhisperConfig(
        vocab_size=len(tokens),
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        pad_token_id=end,
        bos_token_id=end,
        eos_token_id=end,
        decoder_start_token_id=start,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    model = transformers.WhisperForConditionalGeneration(config)
    model.save_pretrained(folder)
    transformers.GenerationConfig(
        is_multilingual=True,
        lang_to_id={"<|en|>": ids["<|en|>"], "<|pt|>": ids["<|pt|>"]},
        task_to_id={name: ids[f"<|{name}|>"] for name in ("translate", "transcribe")},
        no_timestamps_token_id=ids["<|notimestamps|>"],
        decoder_start_token_id=start,
        eos_token_id=end,
        pad_token_id=end,
        bos_token_id=end,
        max_length=448,
    ).save_pretrained(folder)
    return folder


def clips(count: int) -> tuple[list[str], list[np.ndarray]]:
    with (CLIPS / "metadata.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="|"))[:count]
    waves = [audio.read(next(CLIPS.rglob(f"{name}.*")), RATE).numpy() for name, _ in rows]
    return [text for _, text in rows], waves


def test_pocketsphinx_hears_most_words_and_each_sentence_by_itself(tokenizer):
    pytest.importorskip(POCKETSPHINX, reason="it has wheels for Python 3.11 and 3.13")
    texts, waves = clips(8)
    two = open_recogniser(POCKETSPHINX, "en", 2)
    with ThreadPoolExecutor(two.at_once) as pool:
        heard = list(pool.map(two.hear, waves))
    sentences = [words_of(tokenizer, text, "en") for text in texts]
    errors = [
        num_errors(words, heard_words(tokenizer, transcript, "en"))
        for words, transcript in zip(sentences, heard, strict=True)
    ]
    assert sum(errors) < 0.3 * sum(map(len, sentences)), heard
    assert [two.hear(wave) for wave in waves[::-1]] == heard[::-1]
    assert open_recogniser(POCKETSPHINX, "en", 1).hear(waves[1]) == heard[1]


def test_a_decoder_that_ends_fails_its_sentence_and_a_new_one_outlives_its_callers():
    pytest.importorskip(POCKETSPHINX, reason="it has wheels for Python 3.11 and 3.13")
    _, (wave,) = clips(1)
    recognisers, before = [recogniser.Pocketsphinx()], decoders()

    def hear() -> str:
        with ThreadPoolExecutor(1) as pool:  # its thread ends with each sentence
            return pool.submit(recognisers[0].hear, wave).result()

    heard = hear()
    (first,) = decoders() - before
    assert hear() == heard != ""
    os.kill(first, signal.SIGKILL)
    with pytest.raises(RecogniserError, match="its process ended or hung"):
        hear()
    assert hear() == hear() == heard
    (second,) = decoders() - before
    recognisers.clear()
    assert not psutil.pid_exists(second)


def test_a_decoder_that_hangs_is_replaced(monkeypatch):
    pytest.importorskip(POCKETSPHINX, reason="it has wheels for Python 3.11 and 3.13")
    _, (wave,) = clips(1)
    ear, before = recogniser.Pocketsphinx(), decoders()
    heard = ear.hear(wave)
    (hung,) = decoders() - before
    os.kill(hung, signal.SIGSTOP)
    monkeypatch.setattr(recogniser, "_MAX_ANSWER_SECONDS", 0.2)
    with pytest.raises(RecogniserError, match="its process ended or hung"):
        ear.hear(wave)
    monkeypatch.undo()
    assert ear.hear(wave) == heard
    assert not psutil.pid_exists(hung)


def test_a_decoder_that_cannot_be_started_is_told_of(monkeypatch):
    pytest.importorskip(POCKETSPHINX, reason="it has wheels for Python 3.11 and 3.13")
    ear = recogniser.Pocketsphinx()

    def refused(command: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(recogniser, "JsonLineProcess", refused)
    with pytest.raises(RecogniserError, match="Too many open files"):
        ear.hear(np.zeros(RATE, dtype=np.float32))
    monkeypatch.undo()
    assert ear.hear(np.zeros(RATE, dtype=np.float32)) is not None


def decoders() -> set[int]:
    """The processes of decoders of this process."""
    processes = set()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if "xtts.evaluation.pocketsphinx_child" in child.cmdline():
                processes.add(child.pid)
    return processes


def test_silence_and_nothing_are_no_words():
    pytest.importorskip(POCKETSPHINX, reason="it has wheels for Python 3.11 and 3.13")
    ear = open_recogniser(POCKETSPHINX, "en", 1)
    for samples in (RATE, 0):
        assert len(ear.hear(np.zeros(samples, dtype=np.float32)).split()) <= 1


def test_a_whisper_of_a_local_folder_listens_without_a_network(whisper, monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a connection was asked for")

    monkeypatch.setattr("socket.socket.connect", refused)
    check_folder(whisper)
    _, waves = clips(2)
    listener = open_recogniser(str(whisper), "pt", 1)
    heard = [listener.hear(wave) for wave in waves]
    assert heard == [listener.hear(wave) for wave in waves]
    asked: Any = listener
    assert asked._options["language"] == "pt"


def test_a_folder_that_holds_no_whisper_is_told_of(tmp_path, whisper):
    with pytest.raises(RecogniserError, match=r"config\.json cannot be read"):
        check_folder(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(RecogniserError, match="'bert'; a Whisper model"):
        open_recogniser(str(tmp_path), "en", 1)
    (tmp_path / "config.json").write_bytes((whisper / "config.json").read_bytes())
    with pytest.raises(RecogniserError, match="cannot be opened"):
        open_recogniser(str(tmp_path), "en", 1)


def test_a_converted_whisper_is_heard_by_faster_whisper(tmp_path, whisper, monkeypatch):
    pytest.importorskip("faster_whisper", reason="an extra that is not in the locks")
    converters = importlib.import_module("ctranslate2.converters")
    transformers = importlib.import_module("transformers")
    folder = tmp_path / "converted"
    source = tmp_path / "source"
    shutil.copytree(whisper, source)
    # The converter requires heads that follow the text; a model of one layer has none.
    chosen = transformers.GenerationConfig.from_pretrained(source)
    chosen.alignment_heads, chosen.suppress_tokens, chosen.begin_suppress_tokens = [[0, 0]], [], []
    chosen.save_pretrained(source)
    converters.TransformersConverter(str(source)).convert(str(folder))
    transformers.WhisperTokenizerFast.from_pretrained(source).save_pretrained(folder)
    assert (folder / "tokenizer.json").is_file()
    ear = open_recogniser(str(folder), "pt", 1)
    assert isinstance(ear, recogniser.FasterWhisper)
    _, waves = clips(2)
    first = [ear.hear(wave) for wave in waves]
    assert [type(text) for text in first] == [str, str]
    assert [ear.hear(wave) for wave in waves] == first


def test_a_converted_whisper_is_asked_for_words_without_chance(tmp_path, monkeypatch):
    asked = list[dict[str, Any]]()

    class Model:
        is_multilingual = True

    class WhisperModel:
        def __init__(self, folder: str, **options: Any) -> None:
            assert options["local_files_only"] and folder == str(tmp_path)
            self.model = Model()

        def transcribe(self, samples: np.ndarray, **options: Any) -> tuple[list[Any], None]:
            asked.append(options)
            parts = [SimpleNamespace(text=" Bom"), SimpleNamespace(text=" dia.")]
            return parts, None

    (tmp_path / "model.bin").touch()
    with pytest.raises(RecogniserError, match="but no tokenizer"):
        open_recogniser(str(tmp_path), "pt-BR", 1)
    (tmp_path / "tokenizer.json").touch()
    monkeypatch.setattr(recogniser.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(RecogniserError, match=r"pip install -e '.\[faster-whisper\]'"):
        open_recogniser(str(tmp_path), "pt-BR", 1)
    monkeypatch.setattr(recogniser.importlib.util, "find_spec", lambda _name: object())
    library = SimpleNamespace(WhisperModel=WhisperModel)
    monkeypatch.setitem(sys.modules, "faster_whisper", library)
    assert open_recogniser(str(tmp_path), "pt-BR", 1).hear(np.zeros(RATE)) == "Bom dia."
    assert (asked[0]["language"], asked[0]["temperature"]) == ("pt", 0.0)


def test_pocketsphinx_that_is_missing_is_told_of(monkeypatch):
    monkeypatch.setitem(sys.modules, POCKETSPHINX, None)
    assert not recogniser.can_hear_english()
    with pytest.raises(RecogniserError, match="pocketsphinx is not installed"):
        open_recogniser(POCKETSPHINX, "en", 1)


@pytest.mark.parametrize(
    ("spoken", "heard", "errors"),
    [
        ("a b c", "a b c", 0),
        ("a b c", "a x c", 1),
        ("a b c", "a c", 1),
        ("a b", "a x b y", 2),
        ("a b c", "", 3),
        ("", "a", 1),
        ("the cat sat", "cat sat the", 2),
    ],
)
def test_errors_are_words_replaced_left_out_or_added(spoken, heard, errors):
    assert num_errors(spoken.split(), heard.split()) == errors


def test_numbers_capitals_and_signs_are_no_errors(tokenizer):
    spoken = words_of(tokenizer, "Nine men, 3 pianos: don\u2019t!", "en")
    assert spoken == heard_words(tokenizer, "nine men three pianos don't", "en")
    assert heard_words(tokenizer, "", "en") == []
    assert heard_words(tokenizer, "[UNK] a", "en")[-1] == "a"


def test_where_no_spaces_are_written_characters_count():
    class Spelling:
        def spelled(self, text: str, language: str) -> list[str]:
            return text.split()

    spelling: Any = Spelling()
    assert words_of(spelling, "你好 世界", "zh-cn") == list("你好世界")
    assert words_of(spelling, "Bom DIA", "pt") == ["bom", "dia"]
