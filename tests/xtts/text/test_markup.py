"""Markup: pauses and a part of SSML. Text that is not a tag is spoken; unknown tags are refused."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xtts.text import markup
from xtts.text.errors import TextError
from xtts.text.markup import (
    PARAGRAPH_SECONDS,
    MarkedText,
    marked_texts,
    of_request,
    voices_named,
)
from xtts.text.normalization.registry import rules_of

ENGLISH = rules_of("en")


def said(text: str) -> str:
    return " ".join(" ".join(one.text.split()) for one in marked_texts(text, ENGLISH))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a[pause:500ms]b", [MarkedText("a"), MarkedText("b", 0.5)]),
        ("a [ Pause : 1.5 s ] b", [MarkedText("a "), MarkedText(" b", 1.5)]),
        ("a[PAUSE:250MS]b", [MarkedText("a"), MarkedText("b", 0.25)]),
        ("[pause:1s]a", [MarkedText("a", 1.0)]),
        ("a[pause:1s]", [MarkedText("a", 0.0, 1.0)]),
        ("a[pause:1s][pause:250ms]b", [MarkedText("a"), MarkedText("b", 1.25)]),
        ('a<break time="500ms"/>b', [MarkedText("a"), MarkedText("b", 0.5)]),
        ('a<BREAK TIME="250MS"/>b', [MarkedText("a"), MarkedText("b", 0.25)]),
        ("a<break time='1.5s'></break>b", [MarkedText("a"), MarkedText("b", 1.5)]),
        ('a<break strength="x-strong"/>b', [MarkedText("a"), MarkedText("b", 1.0)]),
        ("<break/>b", [MarkedText("b", markup.STRENGTHS["medium"])]),
        ("a\n\nb", [MarkedText("a"), MarkedText("b", PARAGRAPH_SECONDS)]),
        ("a\r\n \t\r\n\nb", [MarkedText("a\r"), MarkedText("b", PARAGRAPH_SECONDS)]),
        ("\n\na\nb\n\n", [MarkedText("a\nb")]),
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
        ('<say-as interpret-as="telephone">555 1234</say-as>',
         "five five five, one two three four"),
        ('<say-as interpret-as="date" format="dmy">3/5/2024</say-as>',
         "May third, twenty twenty-four"),
        ('<say-as interpret-as="date">3/5/2024</say-as>', "March fifth, twenty twenty-four"),
        ('<say-as interpret-as="cardinal">1999</say-as>',
         "one thousand nine hundred and ninety-nine"),
        ('<say-as interpret-as="ordinal">21</say-as>', "twenty-first"),
        ('<say-as interpret-as="time">3:05 pm</say-as>', "three oh five p m"),
        ('the <sub alias="World Wide Web Consortium">W3C</sub> says',
         "the World Wide Web Consortium says"),
        ("<?xml version='1.0'?><speak version='1.1'>a &lt; b &amp; c <!-- no --></speak>",
         "a < b & c"),
        ("<speak><p><s>One.</s> <s>Two.</s></p></speak>", "One. Two."),
    ],
)  # fmt: skip
def test_what_tags_make_of_a_text(text, expected):
    assert said(text) == expected


@pytest.mark.parametrize(
    "text",
    ["a < b and c > d", "I <3 you", "x<y", "[sic] he said", "a [b] c", "<a@b.example>", "1 < 2 > 0",
     "AT&T", "f(x) <- y", "[1:2]", "[see: this]"],
)  # fmt: skip
def test_a_sign_that_begins_no_tag_is_text(text):
    assert said(text) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('<prosody rate="slow">a</prosody>', "<prosody> is unknown"),
        ("press <enter> now", "<enter> is unknown"),
        ("[laugh:soft] ha", "laugh"),
        ("[pause]", "not a valid pause"),
        ("[pause:soon]", "not a valid pause"),
        ("a [pause:500ms b", "not a valid pause"),
        ("<break time=500ms/>", "is malformed"),
        ("a <break", "is malformed"),
        ('<break time="soon"/>', "is not valid"),
        ('<break time="11s"/>', "too long"),
        ("[pause:10s]" * 7 + "a", "at most 60 s"),
        ("<speak>a", "<speak> is not closed"),
        ("a</p>", "closes a tag that is not open"),
        ('<sub alias="b">a', "<sub> is not closed"),
        ("<sub>a</sub>", "alias"),
        ('<sub alias="[pause:1s]">a</sub>', "contains a tag"),
        ("<speak>&lt;break/&gt; a</speak>", "a tag inside words"),
        ('[break time="1s"] a', "known are [pause:500ms]"),
        ('<say-as interpret-as="song">a</say-as>', "Known are characters"),
        ('<say-as interpret-as="date">soon</say-as>', "cannot be read as a date"),
        ('<say-as interpret-as="digits">abc</say-as>', "cannot be read as digits"),
        ('<say-as interpret-as="digits">1<break/>2</say-as>', "may contain text only"),
        ('<say-as interpret-as="digits">1[voice:ben]2</say-as>', "not a change of voice"),
        ('<sub alias="[voice:ben]">a</sub>', "contains a tag"),
        ("[voice:] a", "[voice:NAME]"),
        ("[voice:a", "[voice:NAME]"),
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


def test_a_minute_of_pauses_is_allowed_and_a_millisecond_more_is_told():
    tenths = "".join(f"{number}[pause:0.1s]" for number in range(600)) + "a"
    assert sum(one.before for one in marked_texts(tenths, None)) == pytest.approx(60.0)
    with pytest.raises(TextError, match=r"add up to 60\.001 s; at most 60 s"):
        marked_texts(f"[pause:1ms]{tenths}", None)
    with pytest.raises(TextError, match=r"add up to 60\.04 s; at most 60 s"):
        marked_texts("[pause:10s]" * 6 + "[pause:40ms]a", None)


NAMES = st.sampled_from([*markup.TAGS, "prosody", "voice", "enter", "BREAK", "pause", "zq"])
VALUES = st.sampled_from(
    ["500ms", "1s", "zq", "", "characters", "date", "99s", "-1s", "1e9s", "<", ">"]
)
TAGS = st.builds(
    lambda begin, name, attribute, quote, value, end: (
        f"{begin}{name} {attribute}={quote}{value}{quote}{end}"
    ),
    st.sampled_from(["<", "</", "[", "< ", "&lt;"]), NAMES,
    st.sampled_from(["time", "alias", "interpret-as", "strength", "zq"]),
    st.sampled_from(['"', "'", ""]), VALUES, st.sampled_from([">", "/>", "]", "", " >"]),
)  # fmt: skip
BRACKETS = st.builds(
    lambda name, value, end: f"[{name}:{value}{end}", NAMES, VALUES, st.sampled_from(["]", ""])
)
PIECES = st.one_of(
    TAGS, BRACKETS, st.sampled_from(["hello", " ", "\n\n", "a < b", "<p>", "</p>", "<speak>"])
)


@settings(max_examples=400, derandomize=True)
@given(st.lists(PIECES, max_size=8).map("".join))
def test_fuzzed_markup_is_refused_or_gone(text):
    try:
        found = marked_texts(text, ENGLISH)
    except TextError as error:
        assert str(error)
        return
    words = " ".join(one.text for one in found)
    left = re.sub(r"&lt;", "", words)  # not XML: an ampersand is plain text
    assert not re.search(r"</?(break|say-as|sub|speak|prosody|voice|p|s)\b[^<]*>", left, re.I), (
        words
    )
    assert not re.search(r"\[(pause|break|prosody)", left, re.I), words
    assert sum(one.before + one.after for one in found) <= 60


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a[voice:ben]b[/voice]c", [("a", ""), ("b", "ben"), ("c", "")]),
        ("[ Voice : Anna  Maria ] a", [(" a", "Anna Maria")]),
        ("a[style:whisper]b[/style]c", [("a", ""), ("b", ":whisper"), ("c", "")]),
        ("[voice:ben]a[style:calm]b[/style]c", [("a", "ben"), ("b", "ben:calm"), ("c", "ben")]),
        ("[voice:ben:calm]a[style:loud]b[/style]c[voice:eva]d",
         [("a", "ben:calm"), ("b", "ben:loud"), ("c", "ben"), ("d", "eva")]),
        ("[voice:ben][style:calm][/voice]a", [("a", "")]),
        ("[style:x]a[/voice]b", [("a", ":x"), ("b", "")]),
    ],
)  # fmt: skip
def test_a_text_changes_voice_and_style(text, expected):
    assert [(one.text, one.voice) for one in marked_texts(text, ENGLISH)] == expected
    named = dict.fromkeys(voice for _, voice in expected if voice)
    assert set(named) <= set(voices_named(text))


def test_a_pause_stands_between_two_voices():
    assert marked_texts("a[pause:1s][voice:ben]b[pause:500ms]", ENGLISH) == [
        MarkedText("a"), MarkedText("b", 1.0, 0.5, "ben"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("named", "voice", "expected"),
    [("ben", "anna", "ben"), (":calm", "anna", "anna:calm"), (":calm", "anna:loud", "anna:calm"),
     (":calm", "default", "default:calm")],
)  # fmt: skip
def test_a_style_alone_is_of_the_person_whom_the_request_names(named, voice, expected):
    assert of_request(named, voice) == expected
