"""Languages in the spelling of each client."""

import pytest

from api.errors import APIError
from api.speech.speaking import code_of, language_of
from xtts.text.languages import ENGLISH_NAMES

XTTS = (
    "en",
    "es",
    "fr",
    "de",
    "it",
    "pt",
    "pl",
    "tr",
    "ru",
    "nl",
    "cs",
    "ar",
    "zh-cn",
    "hu",
    "ko",
    "ja",
    "hi",
)


@pytest.mark.parametrize(
    ("asked", "spoken"),
    [
        ("en", "en"),
        ("EN", "en"),
        ("en-US", "en"),
        ("en_GB", "en"),
        ("English", "en"),
        ("american english", "en"),
        ("eng", "en"),
        ("ger", "de"),
        ("deu-AT", "de"),
        ("pt-br", "pt"),
        ("Brazilian Portuguese", "pt"),
        ("zh", "zh-cn"),
        ("zh-cn", "zh-cn"),
        ("zh-TW", "zh-cn"),
        ("Chinese", "zh-cn"),
        # hexgrad/kokoro, kokoro/pipeline.py: LANG_CODES
        ("a", "en"),
        ("b", "en"),
        ("e", "es"),
        ("f", "fr"),
        ("h", "hi"),
        ("i", "it"),
        ("j", "ja"),
        ("p", "pt"),
        ("z", "zh-cn"),
        # The client leaves the choice to the server: vLLM-omni's Auto, AllTalk's auto, Coqui's
        # empty field.
        ("Auto", ""),
        ("auto", ""),
        ("", ""),
        (None, ""),
        ("  ", ""),
        ("und", ""),
    ],
)
def test_what_is_asked_for_becomes_the_voices_own_word(asked, spoken):
    assert language_of(asked, XTTS) == spoken


def test_every_language_of_xtts_has_a_name_that_leads_back_to_it():
    assert {code_of(name) for name in ENGLISH_NAMES.values()} == set(ENGLISH_NAMES)
    assert {language_of(name, XTTS) for name in ENGLISH_NAMES.values()} == set(XTTS)


def test_another_language_is_refused_with_those_that_there_are():
    with pytest.raises(APIError) as caught:
        language_of("Klingon", ("en", "pt"), "lang_code")
    assert (caught.value.status, caught.value.param) == (400, "lang_code")
    assert caught.value.detail == "lang_code is 'Klingon'. This voice speaks en, pt."


@pytest.mark.parametrize("asked", ["../../x", "..", "(en)", "@x", "."])
def test_what_is_no_language_is_refused_and_not_the_voices_own(asked):
    with pytest.raises(APIError) as caught:
        language_of(asked, ("en", "pt"))
    assert (caught.value.status, caught.value.code) == (400, "language_unsupported")


def test_before_the_voice_is_open_a_language_is_not_judged():
    assert language_of("Klingon", ()) == "klingon"
    assert language_of("English", ()) == "en"
