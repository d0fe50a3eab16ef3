"""Markdown and entities in requests: marks are not spoken, and similar text is kept."""

import time

import pytest

from xtts.text import markdown


def plain(text: str) -> str:
    return " ".join(markdown.read_markdown(text).split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("### Example\nIt works.", "Example It works."),
        ("Title\n=====\nText", "Title Text"),
        ("One **very** *big* `red` ~~old~~ __fox__ _ran_.", "One very big red old fox ran."),
        ("- one\n- two\n* three", "one two three"),
        ("> It is said.", "It is said."),
        ("Before\n```py\nx = 1\n```\nafter", "Before after"),
        ("| Year | Ships |\n|---|---|\n| 1901 | 12 |", "Year, Ships 1901, 12"),
        ("See [the page](https://a.b/c) and ![a cat](cat.png)[^1].\n[^1]: A note.", "See the page and ."),
        ("Text.\n\n[1]: https://a.b/c", "Text."),
        ("a \\* b", "a * b"),
        ("don&#39;t &amp; &quot;won&rsquo;t&quot; &#x41;", 'don\'t & "won’t" A'),
        ("one<!-- no -->two", "one two"),
        ("Use `<div>` and `List<String>`.", "Use div and List String ."),
        ("Use ``<div>`` and ``a < b``.", "Use div and a < b."),
        ("| a | b |\n|---|---|\n| c<br>d | e |", "a, b c, d, e"),
        ("<think>\nHm.\n</think>\nHello <b>you</b>!<br/>Bye", "Hello you! Bye"),
        ("Hm.</think>Hello", "Hello"),
        ("<ul><li>One</li><li>10<sup>6</sup></li></ul>", "One 10⁶"),
        ("Solve $x^2 \\leq 4$ for $5.", "Solve x^2 ≤ 4 for $5."),
    ],
)
def test_marks_and_entities_are_not_said(text, expected):
    assert plain(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "3. Platz",
        "5. Mai 2024",
        "5 * 3 * 2",
        "snake_case_name",
        "#1 hit",
        "AT&T and R&D; x",
        "[Anna]: Hello.",
        "[pause:500ms] [voice:ben](softly) [/voice]",
        "a < b > c",
        "-5 °C",
        '<break time="1s"/> <prosody>',
        "<speak>a &lt; b **c**</speak>",
        "&unknownname; &copy",
        "***",
        "$5 *",
        "A_B",
        "a | b | c",
        "\\[pause:1s\\]",
    ],
)
def test_what_only_looks_like_markdown_stays(text):
    assert plain(text) == " ".join(text.split())


def test_an_entity_or_a_code_block_makes_no_tag_and_no_silence():
    assert "[" not in plain("a &#91;pause:9s&#93; b") and "<" not in plain("a &lt;break/&gt; b")
    assert plain("```\nonly code\n```") == "``` only code ```"


def test_the_items_of_a_numbered_list_are_paragraphs():
    assert markdown.read_markdown("1. open\n2. close") == "\n1. open\n\n2. close"


def test_a_heading_is_a_paragraph_of_its_own():
    assert markdown.read_markdown("# A\nb").split("\n") == ["", "A", "", "b"]


@pytest.mark.parametrize(
    "mark",
    [
        "*",
        "**a",
        "[a](",
        "`",
        "~~",
        "_a",
        "&amp",
        "![",
        "|a",
        "- \n",
        "`<a",
        "``a",
        "<br>",
        "<think>",
        "$x^",
        "1.\n",
    ],
)
def test_a_mass_of_marks_takes_no_longer_than_a_text(mark):
    started = time.thread_time()
    markdown.read_markdown((mark * 50_000)[:90_000])
    assert time.thread_time() - started < 1.0
