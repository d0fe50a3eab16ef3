"""Ten thousand random texts in every language: ids or a refusal, always within a second."""

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.models import ALL_CHARACTERS, ALL_LANGUAGES, tiny_base
from xtts.model.config import ModelConfig
from xtts.text.errors import TextError
from xtts.text.tokenizer import Tokenizer

pytestmark = pytest.mark.slow

WORDS = st.one_of(
    st.text(max_size=12),  # all planes
    st.from_regex(r"[0-9]{1,30}([.,][0-9]{1,30})*(st|nd|º|ª|er|\.|-й|番|번째)?", fullmatch=True),
    st.from_regex(r"[$£€][0-9.,]{1,40}|[0-9.,]{1,40}[$£€%°]", fullmatch=True),
    st.from_regex(
        r"</?(break|say-as|sub|speak|prosody|x)"
        r"( (time|alias|interpret-as)=?[\"']?[a-z0-9]{0,9}[\"']?)?/?>?",
        fullmatch=True,
    ),
    st.from_regex(r"\[(pause|en|x):?[0-9]{0,5}(ms|s)?\]?", fullmatch=True),
    st.text(st.sampled_from("\x00\x07\u200b\u202e\ufeff\ufe0f\U000e0100\u0301 \t\n"), max_size=6),
    st.sampled_from(["你好", "こんにちは", "привет", "नमस्ते", "안녕하세요", "مرحبا", "Mr.", "a-" * 30, "…"]),
)
TEXTS = st.lists(WORDS, max_size=20).map(" ".join)


@pytest.fixture(scope="module")
def polyglot(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("polyglot")
    tiny_base(folder, languages=ALL_LANGUAGES, characters=ALL_CHARACTERS)
    tokenizer = Tokenizer(ModelConfig.read(folder), folder)
    tokenizer.warm_up()
    return tokenizer


@settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(text=TEXTS)
def test_ids_or_a_refusal_and_nothing_else(polyglot, text):
    for language in ALL_LANGUAGES:
        # A second try, in case the machine and not the text was slow.
        assert seconds(polyglot, text, language) < 1.0 or seconds(polyglot, text, language) < 1.0


def seconds(polyglot: Tokenizer, text: str, language: str) -> float:
    """CPU seconds of this thread for a text that is split into pieces or refused."""
    started = time.thread_time()
    try:
        assert polyglot.encode(text, language)
        for piece in polyglot.split(text, language):
            assert piece.ids and 0 <= piece.before <= 60 and 0 <= piece.after <= 60
    except TextError as error:
        assert str(error)
    return time.thread_time() - started


def test_the_folder_is_of_all_languages(polyglot):
    assert len(polyglot.languages) == 17
