"""Text to ids, and long texts to pieces."""

import json
import re
import sys
import time
from dataclasses import replace
from types import ModuleType

import pytest

from machine import commands
from tests.models import ALL_CHARACTERS, ALL_LANGUAGES, tiny_base
from xtts.model.config import PIECE_TOKENS, ModelConfig
from xtts.text import tokenizer as tokenizer_module
from xtts.text.errors import TextError
from xtts.text.normalization.registry import COQUI, NEWEST
from xtts.text.reading import clean_text
from xtts.text.tokenizer import Tokenizer, TokenizerSpec
from xtts.voices.base_models import DEMO


@pytest.fixture(scope="module")
def tokenizer(base_folder):
    return Tokenizer(ModelConfig.read(base_folder), base_folder)


@pytest.fixture(scope="module")
def polyglot(tmp_path_factory):
    """A tokenizer for all languages of XTTS-v2."""
    folder = tmp_path_factory.mktemp("polyglot")
    tiny_base(folder, languages=ALL_LANGUAGES, characters=ALL_CHARACTERS)
    return Tokenizer(ModelConfig.read(folder), folder)


@pytest.fixture(scope="module")
def embedded():
    return Tokenizer(ModelConfig.read(DEMO), DEMO)


def test_a_text_has_ids_behind_its_language(tokenizer):
    ids = tokenizer.encode("hello there", "en")
    for named in ("en-us", "eng", "en_GB", "English"):
        assert ids == tokenizer.encode("  Hello\tthere ", named)
    assert ids[0] != tokenizer.encode("hello there", "pt")[0]
    assert ids[1:] == tokenizer.encode("hello there", "pt")[1:]


def test_an_unknown_language_names_the_known(tokenizer):
    with pytest.raises(TextError, match="en, pt"):
        tokenizer.encode("hello", "xx")


@pytest.mark.parametrize("text", ["", "   ", "...!?", "\u200b\u200e", "🙂", "\x07"])
def test_nothing_to_speak_is_told(text):
    with pytest.raises(TextError, match="nothing to speak"):
        clean_text(text)


def test_control_and_zero_width_characters_go():
    assert clean_text("a\u200bb\x00c\n d") == "abc d"
    assert clean_text("e\u0301") == "é"
    assert clean_text("he\x00llo\u202e there\ufeff") == "hello there"


def texts(tokenizer, text, language="en"):
    return [piece.text for piece in tokenizer.split(text, language)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use `<div>` for that.", "use div for that"),
        ("It is a `List<String>`.", "it is a list string"),
        ("A ``<br>`` and `</p>`.", "a br and p"),
        ("| a | b |\n|---|---|\n| one<br>two | three<br/> |", "a b one two three"),
    ],
)
def test_inline_code_and_tables_with_breaks_are_read_and_not_refused(tokenizer, text, expected):
    """Their signs look like tags, and an unknown tag is refused."""
    assert re.findall(r"\w+", " ".join(texts(tokenizer, text))) == expected.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>\nHm, what?\n</think>\nHello.", "hello."),
        ("Hm, what?</think>Hello.", "hello."),
        ("<b>Hello</b>, <i>you</i>!<br>Yes.", "hello, you! yes."),
        ("<p>Hello.</p><ul><li>One.</li></ul>", "hello. one."),
    ],
)
def test_answers_of_chat_models_are_read_without_thoughts_and_formatting(tokenizer, text, expected):
    """Only with Markdown switched off are they refused as unknown tags (docs/text.md)."""
    assert " ".join(texts(tokenizer, text)) == expected
    with pytest.raises(TextError, match="tag"):
        list(tokenizer.split(text, "en", plain=True))


def test_a_short_text_is_one_piece_with_the_ids_that_it_has_alone(tokenizer):
    (piece,) = tokenizer.split("Hello there, Mr. Smith. Yes!", "en")
    assert piece.text == "hello there, mister smith. yes!"
    assert piece.ids == tokenizer.encode("Hello there, Mr. Smith. Yes!", "en")


def test_a_sentence_without_a_full_stop_is_cut_at_clauses_then_spaces(tokenizer):
    clauses = texts(tokenizer, "some words in a clause, " * 60)
    assert all(piece.endswith(",") for piece in clauses[:-1])
    words = texts(tokenizer, "words " * 300)
    assert " ".join(words).split() == ["words"] * 300


def test_a_number_is_not_cut_at_its_point(tokenizer):
    pieces = texts(tokenizer, "it costs 3.14 in all and nothing else at all here " * 30)
    assert " ".join(pieces).count("three point one four") == 30


@pytest.mark.parametrize(
    ("language", "text", "most", "ends"),
    [
        ("en", "the river rose again, and nobody in the village was surprised. " * 60, 250, ".!?"),
        ("pt", "o rio subiu outra vez, e ninguém na aldeia ficou surpreendido! " * 60, 203, ".!?"),
        ("en", "x" * 3000, 250, "x"),
    ],
    ids=["en", "pt", "one word"],
)
def test_nothing_over_a_limit_leaves_and_nothing_is_lost(tokenizer, language, text, most, ends):
    """Limits: tokens, and characters for each language. The model's codes hold 28 s at most."""
    pieces = tokenizer.split(text, language)
    assert len(pieces) > 5
    for piece in pieces:
        assert len(piece.text) <= most and len(piece.ids) <= tokenizer.max_tokens
        assert piece.text[-1] in ends
    assert "".join(piece.text for piece in pieces).replace(" ", "") == text.replace(" ", "")


def test_a_row_of_dots_in_a_long_text_is_no_reason_to_refuse_it(tokenizer):
    pieces = texts(tokenizer, "A sentence of some length, it is. ... -- * * * \n" * 60)
    assert all(any(letter.isalpha() for letter in piece) for piece in pieces)
    assert "".join(pieces).count("sentence") == 60


def test_as_much_as_a_book_is_refused_before_anything_is_done_with_it(tokenizer):
    with pytest.raises(TextError, match=r"100,000 characters; at most 90,000"):
        tokenizer.split("a" * 100_000, "en")


def test_signs_and_emoji_that_are_unknown_are_left_out(tokenizer):
    ids = set(tokenizer.encode("hello there", "en"))
    assert set(tokenizer.encode("hello 🙂❤️† there", "en")) == ids
    assert tokenizer.read("hello 🙂 ж", "en").missing == ["🙂", "ж"]  # a clip must not have any
    assert tokenizer.read("hello", "en").missing == []


@pytest.mark.parametrize("text", ["你好 world", "Hello Ж there", "weather in नमस्ते"])
@pytest.mark.parametrize("read", ["encode", "split"])
def test_letters_that_the_voice_cannot_say_are_refused_by_name(tokenizer, text, read):
    """They were once left out: 0.4 s of near-silence with status 200."""
    strange = next(word for word in text.split() if not word.isascii())
    with pytest.raises(TextError, match=f"cannot say '{strange}' in language en.*{strange[0].lower()}"):
        getattr(tokenizer, read)(text, "en")


def test_what_the_normaliser_cannot_read_is_refused_with_the_word(polyglot):
    """num2words has no ordinals in Czech, so Coqui's normaliser raises."""
    coquis = TokenizerSpec(polyglot.spec.folder, COQUI).open()
    with pytest.raises(TextError, match=r"'12\.' cannot be read in language cs \(NotImpl"):
        coquis.encode("dnes je 12. prosince a prší", "cs")
    assert polyglot.read("dnes je 12. prosince a prší", "cs").words == ("dnes je dvanáctého prosince a prší")


def test_the_normaliser_stands_in_the_key_of_caches(polyglot):
    coquis = TokenizerSpec(polyglot.spec.folder, COQUI).open()
    assert coquis.fingerprint != polyglot.fingerprint and polyglot.spec.normalizer == NEWEST
    assert coquis.read("it is $5", "en").words == "it is five dollars"


def test_a_language_in_brackets_is_a_word_and_no_mark(polyglot):
    """`[pt]` inside a text once made the model take the rest for Portuguese."""
    plain, marked = polyglot.split("hello pt there", "en"), polyglot.split("hello [pt] there", "en")
    assert [piece.ids for piece in plain] == [piece.ids for piece in marked]


@pytest.mark.parametrize("text", ["9" * 307, "0" * 4096, "call 1.234.567.890.123.456.789.012.345"])
@pytest.mark.parametrize("read", ["encode", "split"])
def test_a_number_that_is_too_long_is_refused_at_once(tokenizer, text, read):
    started = time.process_time()
    with pytest.raises(TextError, match=r"digits; at most 24|too many to be read"):
        getattr(tokenizer, read)(text, "en")
    assert time.process_time() - started < 0.5


LONG = {
    "hyphens": "a-" * 2048,
    "euros": "1€" * 2048,
    "words": "word " * 400,
    "ones": "1 " * 2048,
    "exclamations": "no" + "!" * 4094,
    "one word": "supercalifragilistic" * 204,
}


@pytest.mark.parametrize("name", LONG)
def test_a_text_of_4096_characters_is_read_in_time(embedded, name):
    embedded.split("Yes, 1.", "en")
    started = time.process_time()
    pieces = embedded.split(LONG[name][:4096], "en")
    assert time.process_time() - started < 1.5
    assert all(len(piece.ids) - 1 <= embedded.piece_tokens for piece in pieces)


def test_the_embedded_voice_is_asked_for_no_more_than_it_learned(embedded, tokenizer):
    """It once got 250 characters at a time, although it had learned from 80 codes at most."""
    assert embedded.piece_tokens == 90 and tokenizer.piece_tokens == tokenizer.max_tokens
    text = (
        "The sun had set behind the hill, and the road was dark. Nobody came along for hours and "
        "hours that evening except for the old man with his dog, who lived by the river. 999,999!"
    )
    pieces = embedded.split(text, "en")
    assert all(len(piece.ids) - 1 <= embedded.piece_tokens for piece in pieces)
    assert pieces[1].text.endswith("wID hIz dOg,")
    # Cut only between words, and evenly: no single word is left at the end.
    assert min(len(piece.text.split()) for piece in pieces) > 1


def test_a_folder_of_the_embedded_voice_from_before_is_asked_for_as_little(tmp_path):
    for name in ("config.json", "vocab.json"):
        (tmp_path / name).write_bytes((DEMO / name).read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    del config["sotaque"]["piece_tokens"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert ModelConfig.read(tmp_path).piece_tokens == PIECE_TOKENS["cmu_phones"] == 36


def test_other_languages_of_the_base_are_another_fingerprint(base_folder):
    """Refusals are stored under the fingerprint, and may depend on the languages."""
    config = ModelConfig.read(base_folder)
    fewer = replace(config, languages=("en",))
    tokenizer, other = Tokenizer(config, base_folder), Tokenizer(fewer, base_folder)
    assert tokenizer.fingerprint == Tokenizer(config, base_folder).fingerprint != other.fingerprint


def test_a_missing_extra_is_named_with_a_line_that_works(polyglot, monkeypatch):
    monkeypatch.setitem(sys.modules, "pypinyin", None)
    monkeypatch.setitem(sys.modules, "distutils", ModuleType("distutils"))  # as some packages do
    with pytest.raises(TextError) as caught:
        polyglot.encode("你好", "zh")
    told = str(caught.value)
    assert "pypinyin" in told and "jieba" not in told
    assert told.endswith(commands.install_extra("languages"))


NUMBERS_OF_UNICODE = "Water is H\u2082O, 5 m\u00b2, x\u00b3, \u2154 of it, step \u2460 of \u2163. "


@pytest.mark.parametrize("normalizer", [NEWEST, COQUI])
@pytest.mark.parametrize("language", ["en", "de", "pt", "ru", "ar", "ko"])
def test_a_number_of_unicode_refuses_no_text(polyglot, language, normalizer):
    tokenizer = replace(polyglot.spec, normalizer=normalizer).open()
    pieces = tokenizer.split(NUMBERS_OF_UNICODE * 4, language)
    assert pieces and all(piece.ids for piece in pieces)


@pytest.mark.parametrize(
    "text", ["hello \u4f60\u597d", "9" * 30, "[pause:x]", "&#20320; there", "", "# \u4f60"]
)
def test_the_preview_refuses_what_speaking_refuses(tokenizer, text):
    with pytest.raises(TextError) as spoken:
        tokenizer.split(text, "en")
    with pytest.raises(TextError) as shown:
        tokenizer.show(text, "en")
    assert str(shown.value) == str(spoken.value)


def test_markdown_is_read_unless_a_text_is_plain(tokenizer):
    text = "### Example\nA **big** one &amp; more"
    assert tokenizer.show(text, "en") == ["example", "[0.6 s]", "a big one and more"]
    assert "hash" in " ".join(tokenizer.show(text, "en", plain=True))
    assert tokenizer.split(text, "en")[0].text == "example"
    assert "hash" in tokenizer.split(text, "en", plain=True)[0].text


MARKED = (
    *("`a`", "*a*", "_a_", "~~a~~", "| a | b |", "# a", "> a", "a &amp; b", "a\\_b", "$x^2$"),
    *("[a](b)", "<b>a</b>", "[pause:1s] a", "- a", "+ a", "a\n\nb", "a\u2029b", "a\n=", "a"),
)


@pytest.mark.parametrize("text", MARKED)
def test_markup_is_looked_for_where_a_text_has_its_marks(embedded, monkeypatch, text):
    pieces = embedded.split(text, "en")
    monkeypatch.setattr(tokenizer_module, "_MARKED", re.compile(""))
    assert embedded.split(text, "en") == pieces
