"""Languages as people and files name them, and the language of a text."""

from pathlib import Path

import pytest

from xtts.text.languages import ENGLISH_NAMES, FUNCTION_WORDS, code_of, other_language, short_code, tag_of

# The bibliographic and terminological codes of ISO 639-2 for each code of ISO 639-1.
THREE = {
    "ar": "ara",
    "cs": "ces cze",
    "de": "deu ger",
    "en": "eng",
    "es": "spa",
    "fr": "fra fre",
    "hi": "hin",
    "hu": "hun",
    "it": "ita",
    "ja": "jpn",
    "ko": "kor",
    "nl": "nld dut",
    "pl": "pol",
    "pt": "por",
    "ru": "rus",
    "tr": "tur",
    "zh": "zho chi",
    "el": "ell gre",
    "fa": "fas per",
    "is": "isl ice",
    "ro": "ron rum",
    "sk": "slk slo",
    "cy": "cym wel",
    "uk": "ukr",
    "sw": "swa",
}


@pytest.mark.parametrize("code", THREE)
def test_codes_of_three_letters_and_locales(code):
    for name in [code, code.upper(), *THREE[code].split(), *THREE[code].upper().split()]:
        for region in ("", "-US", "_us", "_US.UTF-8"):
            assert code_of(name + region) == code, name + region


@pytest.mark.parametrize("code", ENGLISH_NAMES)
def test_english_names(code):
    name = ENGLISH_NAMES[code]
    for written in (name, name.upper(), f" {name} ", f"{name} (Somewhere)", f"British {name}"):
        assert code_of(written) == tag_of(written) == short_code(written) == code, written


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Brazilian Portuguese", "pt"),
        ("Latin American Spanish", "es"),
        ("Latin", "la"),
        ("Chinese (Traditional)", "zh"),
        ("zh-Hant-TW", "zh"),
        ("cmn-Hans", "zh"),
        ("iw", "he"),
        ("Norwegian Bokmål", "nb"),
        ("Spanish; Castilian", "es"),
        ("English and German", "en"),
        ("en; de", "en"),
        ("und, de", "de"),
        ("Deutsch", "de"),
        ("français", "fr"),
        # Without a two-letter code they stay as they are.
        ("haw", "haw"),
        ("grc", "grc"),
        ("Klingon", "klingon"),
    ],
)
def test_other_names(name, code):
    assert code_of(name) == code


@pytest.mark.parametrize("name", ["und", "mul", "zxx", "mis", "UND", "und-Latn", "qaa", "", " "])
def test_a_language_that_is_not_stated(name):
    assert code_of(name) == tag_of(name) == ""


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        # Tags read by earlier versions do not change: checkpoints identify their data by them.
        ("en", "en"),
        ("EN", "EN"),
        ("zh-CN", "zh-CN"),
        ("pt-br", "pt-br"),
        ("Klingon", "Klingon"),
        ("eng", "en"),
        ("en_US", "en-us"),
        ("deu-AT", "de-at"),
        ("pt_BR.UTF-8", "pt-br"),
        ("English", "en"),
        ("Brazilian Portuguese", "pt"),
    ],
)
def test_a_tag_keeps_its_region(name, tag):
    assert tag_of(name) == tag


# These texts are for evaluations; the function words were not chosen on them.
TEXTS = Path(__file__).parents[3] / "train/data/evaluation"
# Czech inflects most words: too few are fixed, so there is no answer.
TOLD = set(FUNCTION_WORDS) - {"cs", "tr"}


@pytest.mark.parametrize("written", ENGLISH_NAMES)
def test_a_language_is_never_taken_for_a_third_one(written):
    texts = (TEXTS / f"{written}.txt").read_text(encoding="utf-8").splitlines()
    assert other_language(texts, written) is None
    for named in FUNCTION_WORDS:
        assert other_language(texts, named) in (None, written)
    if written in TOLD - {"en"}:
        assert other_language(texts, "en") == written


def test_few_words_and_unknown_languages_say_nothing():
    german = "Der Hund und die Katze sind nicht im Haus. "
    assert other_language([german * 10], "en") == "de"
    assert other_language([german], "en") is None
    assert other_language([german * 10], "ja") is None
