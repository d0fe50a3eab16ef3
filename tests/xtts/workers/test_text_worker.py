"""Texts are read in a separate process: whatever happens there is a refusal here."""

import os
import signal
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from machine.errors import SotaqueError
from tests.models import ALL_CHARACTERS, ALL_LANGUAGES, tiny_base
from xtts.model.config import ModelConfig
from xtts.text.errors import TextError
from xtts.text.normalization.registry import NEWEST
from xtts.text.tokenizer import Tokenizer, TokenizerSpec
from xtts.workers import text_worker
from xtts.workers.failures import WorkerFailed, answer_to_error
from xtts.workers.text_worker import TextWorker

# Answers that it has loaded the model; then does what each text says.
ODD = """
    import json, os, signal, sys, time
    for line in sys.stdin:
        asked = json.loads(line)
        word = asked.get("read", "")
        if word == "hang": time.sleep(60)
        while word == "spin": pass
        if word == "kill": os.kill(os.getpid(), signal.SIGKILL)
        kind, _, mark = word.partition(" ")
        if kind == "once" and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "crash": os.kill(os.getpid(), signal.SIGSEGV)
        if word == "garble": print("what?", flush=True)
        answer = {"pieces": [[[1, 2], 0.0, 0.0, [], ""]]} if word else {"loaded": True}
        print(json.dumps(answer), flush=True)
"""
NUMBERED = {
    "hi": "मेरे पास 12.5 और 2nd किताबें हैं",
    "cs": "dnes je 2. a 1234567 lidí",
    "es": "tengo 1.234.567,89 y 2º",
    "it": "sono 123456789012345678901234 e 3°",
    "pt": "são 10,5 e 2ª",
    "pl": "jest 12345 i 2nd",
    "tr": "saat 14:30. 3üncü 99999999999999",
    "ru": "их 2-й и 1234567890123456789",
    "ar": "عندي 25 كتاب 2ث",
    "ko": "12.5 초 2번째 123456789012345678",
    "de": "Am 3. Mai 2024 um 18:30",
    "fr": "le 1er à 18h30, 12,50 €",
    "nl": "de 2e van 1.000.000",
    "hu": "a 3. és 12,5",
}


def spec(folder: Path, normalizer: str = NEWEST) -> TokenizerSpec:
    return TokenizerSpec(folder, normalizer)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("polyglot")
    return tiny_base(made, languages=ALL_LANGUAGES, characters=ALL_CHARACTERS)


@pytest.fixture(scope="module")
def worker(folder: Path) -> Iterator[TextWorker]:
    made = TextWorker()
    made.open(spec(folder))
    yield made
    made.close()


@pytest.fixture
def odd() -> Iterator[TextWorker]:
    made = TextWorker((sys.executable, "-c", textwrap.dedent(ODD)), max_seconds=0.5)
    yield made
    made.close()


def test_it_reads_as_the_tokenizer_does(worker, folder):
    text = "Hello there, Mr. Smith. " * 40
    tokenizer = Tokenizer(ModelConfig.read(folder), folder)
    pieces = worker.read(spec(folder), text, "en")
    assert [piece.ids for piece in pieces] == [piece.ids for piece in tokenizer.split(text, "en")]


def test_pauses_come_with_the_pieces(worker, folder):
    pieces = worker.read(spec(folder), "[pause:1s]hello[pause:500ms]there[pause:250ms]", "en")
    assert [(piece.before, piece.after) for piece in pieces] == [(1.0, 0.0), (0.5, 0.25)]


@pytest.mark.parametrize("language", NUMBERED)
def test_numbers_of_fourteen_languages_are_read_or_refused_in_time(worker, folder, language):
    before = worker.pid
    for text in (NUMBERED[language], "9" * 307, f"{NUMBERED[language]}. " * 100):
        started = time.monotonic()
        try:
            pieces = worker.read(spec(folder), text, language)
        except TextError as error:
            assert "cannot be read" in str(error) or "digits" in str(error), error
        else:
            assert all(piece.ids for piece in pieces) and pieces
        assert time.monotonic() - started < 2.0
    assert worker.pid == before


def test_a_text_that_takes_too_long_is_refused_by_the_child_itself(folder):
    """The normaliser never ends: CPU time is limited, and the process survives."""
    slow = """
        import xtts.text.reading, xtts.workers.text_worker, sys
        def endless(self, text, short, spoken=False):
            while text == "slow": pass
            return text, text
        xtts.text.reading.Reader._normalise = endless
        xtts.workers.text_worker.MAX_CPU_SECONDS = 0.2
        sys.exit(xtts.workers.text_worker.main())
    """
    worker = TextWorker((sys.executable, "-c", textwrap.dedent(slow)))
    worker.open(spec(folder))
    before = worker.pid
    with pytest.raises(TextError, match="too long to read"):
        worker.read(spec(folder), "slow", "en")
    assert worker.read(spec(folder), "quick", "en") and worker.pid == before
    worker.close()


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("hang", WorkerFailed, r"twice in a row\. It did not answer within 0\.5 s"),
        ("kill", WorkerFailed, "twice in a row.*SIGKILL"),
        ("crash", TextError, "Two processes crashed .* ended by SIGSEGV"),
        ("garble", TextError, "Two processes crashed"),
        ("spin", TextError, "too long to read"),
    ],
)
def test_a_text_is_blamed_for_what_ended_its_process_only_where_it_was_the_reason(
    odd, monkeypatch, text, error, told
):
    # A spinning process gets this much CPU in half a second even on a busy machine; a hanging one
    # uses none.
    monkeypatch.setattr(text_worker, "MAX_CPU_SECONDS", 0.02)
    odd.open(spec(Path("x")))
    before = odd.pid
    with pytest.raises(error, match=told) as raised:
        odd.read(spec(Path("x")), text, "en")
    answer = answer_to_error(raised.value, "cpu")
    assert answer and answer["reason_code"] == ("refused" if error is TextError else "text_process")
    assert [piece.ids for piece in odd.read(spec(Path("x")), "hello", "en")] == [[1, 2]]
    assert odd.pid != before
    with pytest.raises(ProcessLookupError):
        os.kill(before or 0, 0)


def test_a_process_that_was_killed_is_replaced_and_the_text_is_read(odd, tmp_path):
    odd.open(spec(Path("x")))
    assert odd.pid
    os.kill(odd.pid, signal.SIGKILL)
    assert odd.read(spec(Path("x")), "Good morning, dear.", "en")
    assert odd.read(spec(Path("x")), f"once {tmp_path / 'mark'}", "en")
    os.kill(odd.pid, signal.SIGKILL)
    odd.open(spec(Path("y")))  # also replaced if a voice is to be opened


def test_a_text_is_not_blamed_for_one_crash_after_a_kill(odd):
    odd.open(spec(Path("x")))
    assert odd.pid
    os.kill(odd.pid, signal.SIGKILL)
    with pytest.raises(WorkerFailed, match=r"twice in a row.*SIGKILL"):
        odd.read(spec(Path("x")), "crash", "en")
    with pytest.raises(TextError, match="Two processes crashed"):
        odd.read(spec(Path("x")), "crash", "en")


def test_a_folder_that_cannot_be_read_is_told_when_it_is_opened(worker, tmp_path):
    with pytest.raises(SotaqueError, match=r"config\.json is missing"):
        worker.open(spec(tmp_path))


def test_a_process_that_does_not_start_is_told_when_a_voice_is_opened(tmp_path):
    with pytest.raises(SotaqueError, match="does not start"):
        TextWorker((sys.executable, "-c", "raise SystemExit(1)")).open(spec(tmp_path))
