"""Languages as people and files name them, each converted to one code."""

import pytest

from xtts.text.languages import NAMES, code_of, short_code, tag_of

# The bibliographic and terminological codes of ISO 639-2 for each code of ISO 639-1.
THREE = {
    "ar": "ara", "cs": "ces cze", "de": "deu ger", "en": "eng", "es": "spa", "fr": "fra fre",
    "hi": "hin", "hu": "hun", "it": "ita", "ja": "jpn", "ko": "kor", "nl": "nld dut", "pl": "pol",
    "pt": "por", "ru": "rus", "tr": "tur", "zh": "zho chi", "el": "ell gre", "fa": "fas per",
    "is": "isl ice", "ro": "ron rum", "sk": "slk slo", "cy": "cym wel", "uk": "ukr", "sw": "swa",
}  # fmt: skip


@pytest.mark.parametrize("code", THREE)
def test_codes_of_three_letters_and_locales(code):
    for name in [code, code.upper(), *THREE[code].split(), *THREE[code].upper().split()]:
        for region in ("", "-US", "_us", "_US.UTF-8"):
            assert code_of(name + region) == code, name + region


@pytest.mark.parametrize("code", NAMES)
def test_english_names(code):
    name = NAMES[code]
    for written in (name, name.upper(), f" {name} ", f"{name} (Somewhere)", f"British {name}"):
        assert code_of(written) == tag_of(written) == short_code(written) == code, written


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Brazilian Portuguese", "pt"), ("Latin American Spanish", "es"), ("Latin", "la"),
        ("Chinese (Traditional)", "zh"), ("zh-Hant-TW", "zh"), ("cmn-Hans", "zh"), ("iw", "he"),
        ("Norwegian Bokmål", "nb"), ("Spanish; Castilian", "es"), ("English and German", "en"),
        ("en; de", "en"), ("und, de", "de"), ("Deutsch", "de"), ("français", "fr"),
        # Without a two-letter code they stay as they are.
        ("haw", "haw"), ("grc", "grc"), ("Klingon", "klingon"),
    ],
)  # fmt: skip
def test_other_names(name, code):
    assert code_of(name) == code


@pytest.mark.parametrize("name", ["und", "mul", "zxx", "mis", "UND", "und-Latn", "qaa", "", " "])
def test_a_language_that_is_not_stated(name):
    assert code_of(name) == tag_of(name) == ""


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        # Tags read by earlier versions do not change: checkpoints identify their data by them.
        ("en", "en"), ("EN", "EN"), ("zh-CN", "zh-CN"), ("pt-br", "pt-br"), ("Klingon", "Klingon"),
        ("eng", "en"), ("en_US", "en-us"), ("deu-AT", "de-at"), ("pt_BR.UTF-8", "pt-br"),
        ("English", "en"), ("Brazilian Portuguese", "pt"),
    ],
)  # fmt: skip
def test_a_tag_keeps_its_region(name, tag):
    assert tag_of(name) == tag
