"""Markup: pauses, voices and styles. Text that is not a tag is spoken; unknown tags are refused."""

import pytest

from xtts.text.errors import TextError
from xtts.text.markup import PARAGRAPH_SECONDS, MarkedText, full_voice_name, marked_texts, voices_named


def words_of(text: str) -> str:
    return " ".join(" ".join(part.text.split()) for part in marked_texts(text, None))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a[pause:500ms]b", [MarkedText("a"), MarkedText("b", 0.5)]),
        ("a [ Pause : 1.5 s ] b", [MarkedText("a "), MarkedText(" b", 1.5)]),
        ("a[PAUSE:250MS]b", [MarkedText("a"), MarkedText("b", 0.25)]),
        ("[pause:1s]a", [MarkedText("a", 1.0)]),
        ("a[pause:1s]", [MarkedText("a", 0.0, 1.0)]),
        ("a[pause:1s][pause:250ms]b", [MarkedText("a"), MarkedText("b", 1.25)]),
        ("a\n\nb", [MarkedText("a"), MarkedText("b", PARAGRAPH_SECONDS)]),
        ("a\r\n \t\r\n\nb", [MarkedText("a\r"), MarkedText("b", PARAGRAPH_SECONDS)]),
        ("\n\na\nb\n\n", [MarkedText("a\nb")]),
    ],
)
def test_pauses_stand_between_what_is_said(text, expected):
    parts = marked_texts(text, None)
    if parts and parts[-1].after == PARAGRAPH_SECONDS:
        parts[-1] = MarkedText(parts[-1].text, parts[-1].before)
    assert parts == expected


@pytest.mark.parametrize(
    "text", ["[sic] he said", "a [b] c", "<a@b.example>", "AT&T", "[1:2]", "[see: this]"]
)
def test_a_sign_that_begins_no_tag_is_text(text):
    assert words_of(text) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[laugh:soft] ha", "laugh"),
        ("[pause]", "not a valid pause"),
        ("[pause:soon]", "not a valid pause"),
        ("a [pause:500ms b", "not a valid pause"),
        ("[pause:10s]" * 7 + "a", "at most 60 s"),
        ("[voice:] a", "[voice:NAME]"),
        ("[voice:a", "[voice:NAME]"),
    ],
)
def test_what_is_not_known_is_refused_by_name(text, told):
    with pytest.raises(TextError) as refused:
        marked_texts(text, None)
    assert told in str(refused.value)


def test_a_minute_of_pauses_is_allowed_and_a_millisecond_more_is_told():
    tenths = "".join(f"{number}[pause:0.1s]" for number in range(600)) + "a"
    assert sum(part.before for part in marked_texts(tenths, None)) == pytest.approx(60.0)
    with pytest.raises(TextError, match=r"add up to 60\.001 s; at most 60 s"):
        marked_texts(f"[pause:1ms]{tenths}", None)
    with pytest.raises(TextError, match=r"add up to 60\.04 s; at most 60 s"):
        marked_texts("[pause:10s]" * 6 + "[pause:40ms]a", None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a[voice:ben]b[/voice]c", [("a", ""), ("b", "ben"), ("c", "")]),
        ("[ Voice : Anna  Maria ] a", [(" a", "Anna Maria")]),
        ("a[style:whisper]b[/style]c", [("a", ""), ("b", ":whisper"), ("c", "")]),
        ("[voice:ben]a[style:calm]b[/style]c", [("a", "ben"), ("b", "ben:calm"), ("c", "ben")]),
        (
            "[voice:ben:calm]a[style:loud]b[/style]c[voice:eva]d",
            [("a", "ben:calm"), ("b", "ben:loud"), ("c", "ben"), ("d", "eva")],
        ),
        ("[voice:ben][style:calm][/voice]a", [("a", "")]),
        ("[style:x]a[/voice]b", [("a", ":x"), ("b", "")]),
    ],
)
def test_a_text_changes_voice_and_style(text, expected):
    assert [(part.text, part.voice) for part in marked_texts(text, None)] == expected
    named = dict.fromkeys(voice for _, voice in expected if voice)
    assert set(named) <= set(voices_named(text))


def test_a_pause_stands_between_two_voices():
    assert marked_texts("a[pause:1s][voice:ben]b[pause:500ms]", None) == [
        MarkedText("a"),
        MarkedText("b", 1.0, 0.5, "ben"),
    ]


@pytest.mark.parametrize(
    ("named", "voice", "expected"),
    [
        ("ben", "anna", "ben"),
        (":calm", "anna", "anna:calm"),
        (":calm", "anna:loud", "anna:calm"),
        (":calm", "default", "default:calm"),
    ],
)
def test_a_style_alone_is_of_the_person_whom_the_request_names(named, voice, expected):
    assert full_voice_name(named, voice) == expected
