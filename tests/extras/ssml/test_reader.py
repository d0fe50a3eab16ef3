"""SSML: which tags are read, what is only text, and which tags are refused by name."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extras.ssml.reader import BREAK_SECONDS, TAGS
from machine import extras
from tests.api.heard import refused
from tests.api.paths import served
from tests.models import tiny_base
from xtts.model.config import ModelConfig
from xtts.text.errors import TextError
from xtts.text.markup import PARAGRAPH_SECONDS, MarkedText, marked_texts
from xtts.text.normalization.registry import rules_of
from xtts.text.tokenizer import Tokenizer

ENGLISH = rules_of("en")


def said(text: str) -> str:
    return " ".join(" ".join(marked.text.split()) for marked in marked_texts(text, ENGLISH))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a<break time="500ms"/>b', [MarkedText("a"), MarkedText("b", 0.5)]),
        ('a<BREAK TIME="250MS"/>b', [MarkedText("a"), MarkedText("b", 0.25)]),
        ("a<break time='1.5s'></break>b", [MarkedText("a"), MarkedText("b", 1.5)]),
        ('a<break strength="x-strong"/>b', [MarkedText("a"), MarkedText("b", 1.0)]),
        ("<break/>b", [MarkedText("b", BREAK_SECONDS["medium"])]),
        ("<p>a</p><p>b</p>", [MarkedText("a"), MarkedText("b", PARAGRAPH_SECONDS)]),
    ],
)
def test_pauses_stand_between_what_is_said(text, expected):
    found = marked_texts(text, ENGLISH)
    if found and found[-1].after == PARAGRAPH_SECONDS:
        found[-1] = MarkedText(found[-1].text, found[-1].before)
    assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<say-as interpret-as="characters">K9</say-as>', "kay, nine"),
        ('<say-as interpret-as="digits">2024</say-as>', "two zero two four"),
        ('<say-as interpret-as="telephone">555 1234</say-as>', "five five five, one two three four"),
        ('<say-as interpret-as="date" format="dmy">3/5/2024</say-as>', "May third, twenty twenty-four"),
        ('<say-as interpret-as="date">3/5/2024</say-as>', "March fifth, twenty twenty-four"),
        ('<say-as interpret-as="cardinal">1999</say-as>', "one thousand nine hundred and ninety-nine"),
        ('<say-as interpret-as="ordinal">21</say-as>', "twenty-first"),
        ('<say-as interpret-as="time">3:05 pm</say-as>', "three oh five p m"),
        ('the <sub alias="World Wide Web Consortium">W3C</sub> says', "the World Wide Web Consortium says"),
        ("<?xml version='1.0'?><speak version='1.1'>a &lt; b &amp; c <!-- no --></speak>", "a < b & c"),
        ("<speak><p><s>One.</s> <s>Two.</s></p></speak>", "One. Two."),
    ],
)
def test_what_tags_make_of_a_text(text, expected):
    assert said(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d",
        "I <3 you",
        "x<y",
        "[sic] he said",
        "a [b] c",
        "<a@b.example>",
        "1 < 2 > 0",
        "AT&T",
        "f(x) <- y",
        "[1:2]",
        "[see: this]",
    ],
)
def test_a_sign_that_begins_no_tag_is_text(text):
    assert said(text) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('<prosody rate="slow">a</prosody>', "<prosody> is unknown"),
        ("press <enter> now", "<enter> is unknown"),
        ("<break time=500ms/>", "is malformed"),
        ("a <break", "is malformed"),
        ('<break time="soon"/>', "is not valid"),
        ('<break time="11s"/>', "too long"),
        ("<speak>a", "<speak> is not closed"),
        ("a</p>", "closes a tag that is not open"),
        ('<sub alias="b">a', "<sub> is not closed"),
        ("<sub>a</sub>", "alias"),
        ('<sub alias="[pause:1s]">a</sub>', "contains a tag"),
        ("<speak>&lt;break/&gt; a</speak>", "a tag inside words"),
        ('[break time="1s"] a', "known are [pause:500ms]"),
        ('<say-as interpret-as="song">a</say-as>', "Known are characters"),
        ('<say-as interpret-as="date">soon</say-as>', "cannot be read as a date"),
        ('<say-as interpret-as="date" format="y">99999999999999999999</say-as>', "cannot be read as a date"),
        ('<say-as interpret-as="digits">abc</say-as>', "cannot be read as digits"),
        ('<say-as interpret-as="digits">1<break/>2</say-as>', "may contain text only"),
        ('<say-as interpret-as="digits">1[voice:ben]2</say-as>', "not a change of voice"),
        ('<sub alias="[voice:ben]">a</sub>', "contains a tag"),
    ],
)
def test_what_is_not_known_is_refused_by_name(text, told):
    with pytest.raises(TextError) as refused:
        marked_texts(text, ENGLISH)
    assert told in str(refused.value)


@pytest.mark.parametrize("language", ["ar", "ko"])
def test_an_ordinal_is_refused_where_the_rules_have_none(language):
    with pytest.raises(TextError, match="'12' cannot be read as an ordinal"):
        marked_texts('<say-as interpret-as="ordinal">12</say-as>', rules_of(language))


NAMES = st.sampled_from([*TAGS, "prosody", "voice", "enter", "BREAK", "pause", "zq"])
VALUES = st.sampled_from(["500ms", "1s", "zq", "", "characters", "date", "99s", "-1s", "1e9s", "<", ">"])
TAGS = st.builds(
    lambda begin, name, attribute, quote, value, end: f"{begin}{name} {attribute}={quote}{value}{quote}{end}",
    st.sampled_from(["<", "</", "[", "< ", "&lt;"]),
    NAMES,
    st.sampled_from(["time", "alias", "interpret-as", "strength", "zq"]),
    st.sampled_from(['"', "'", ""]),
    VALUES,
    st.sampled_from([">", "/>", "]", "", " >"]),
)
BRACKETS = st.builds(
    lambda name, value, end: f"[{name}:{value}{end}", NAMES, VALUES, st.sampled_from(["]", ""])
)
PIECES = st.one_of(TAGS, BRACKETS, st.sampled_from(["hello", " ", "\n\n", "a < b", "<p>", "</p>", "<speak>"]))


@settings(max_examples=400, derandomize=True)
@given(st.lists(PIECES, max_size=8).map("".join))
def test_fuzzed_markup_is_refused_or_gone(text):
    try:
        found = marked_texts(text, ENGLISH)
    except TextError as error:
        assert str(error)
        return
    words = " ".join(piece.text for piece in found)
    left = re.sub(r"&lt;", "", words)  # not XML: an ampersand is plain text
    assert not re.search(r"</?(break|say-as|sub|speak|prosody|voice|p|s)\b[^<]*>", left, re.I), words
    assert not re.search(r"\[(pause|break|prosody)", left, re.I), words
    assert sum(piece.before + piece.after for piece in found) <= 60


@pytest.mark.parametrize("tag", ["[break:500ms]", "[lang:en]", "[prosody rate="])
def test_a_tag_in_the_wrong_brackets_is_shown_whole(tag):
    with pytest.raises(TextError, match=re.escape(f"The tag {tag!r} is unknown")):
        marked_texts(f"{tag} x", ENGLISH)


def test_without_the_extra_its_tags_are_refused_and_other_signs_are_text(monkeypatch):
    monkeypatch.setattr(extras, "first", lambda _: None)
    for tag in ("<break/>", "<p>", "</s>"):
        with pytest.raises(TextError, match=f"{tag!r} needs extras/ssml"):
            marked_texts(f"Go {tag} on", ENGLISH)
    assert said("a < b, I <3 you") == "a < b, I <3 you"


def test_an_alias_is_spoken_in_place_of_its_text_and_has_the_words(tmp_path):
    tiny_base(tmp_path)
    text = 'Go <sub alias="World Wide Web">WWW</sub> <break/> on'
    pieces = Tokenizer(ModelConfig.read(tmp_path), tmp_path).split(text, "en")
    words = [word.text for piece in pieces for word in piece.words]
    assert words == ["Go", "World", "Wide", "Web", "on"]


@pytest.mark.parametrize("path", served("/v1/audio/speech", "/dev/captioned_speech"))
def test_an_unknown_tag_in_a_request_is_refused_by_its_name(real, path):
    answer = real.client.post(path, json={"input": "Go <prosody rate='slow'>on</prosody>."})
    assert refused(answer) == (422, "refused") and "<prosody>" in answer.json()["detail"]
