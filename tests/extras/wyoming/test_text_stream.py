"""Where text is cut while it arrives."""

import asyncio

import pytest

from api.errors import APIError
from api.schemas import MOST_CHARACTERS
from extras.wyoming.text_stream import MOST_WAITING, TextStream, last_end

SPELLED = '<say-as interpret-as="characters">All? Of it. And</say-as>'


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("Good morning. How", "Good morning."),
        ("Good morning.", ""),  # more may follow: "3.5", "example.org"
        ("Really?! Yes", "Really?!"),
        ('"Come in." He sat', '"Come in."'),
        ("It costs 3.5 euros", ""),
        ("Ask Dr. Smith", ""),
        ("Am 3. Mai", ""),
        ("J. S. Bach wrote", ""),
        ("One. Two. Three", "One. Two."),
        ("First line\nsecond", "First line\n"),
        ("你好。再", "你好。"),
        ("「はい。」と", "「はい。」"),
        ("क्या? हाँ। वह", "क्या? हाँ।"),
        (f"{SPELLED} is that. So", f"{SPELLED} is that."),
        ("<speak>One. Two. ", ""),
        ("Wait [pause: it. is", ""),
        ("a < bee. It is", "a < bee."),
        ("Das ist z. B. so", ""),
    ],
)
def test_it_is_cut_behind_whole_sentences(text, whole):
    assert text[: last_end(text)] == whole


def parts_of(*chunks: str) -> list[str]:
    """The parts, if all chunks arrive before any part is taken."""

    async def run() -> list[str]:
        stream = TextStream()
        for chunk in chunks:
            stream.add(chunk)
        stream.end()
        return [part async for part in stream]

    return asyncio.run(run())


def test_the_parts_are_the_whole_text():
    """Text that is complete at the start is one part."""
    text = "One sentence. Another one! And a tail"
    for size in (1, 3, 100):
        chunks = [text[at : at + size] for at in range(0, len(text), size)]
        assert " ".join(parts_of(*chunks)) == text
    assert parts_of(text) == [text]


def test_signs_alone_are_no_part():
    assert parts_of("*** ", "🙂\n") == []
    assert parts_of("Well done! ", "🙂\n") == ["Well done! 🙂"]


def test_a_sentence_behind_more_signs_than_a_request_may_have_is_spoken():
    """A line of a table or of dots is left out, and no more than it."""
    parts = parts_of("." * (MOST_CHARACTERS + 904), " Then he came.")
    assert "".join(parts).endswith("Then he came.") and len("".join(parts)) < MOST_CHARACTERS


def test_a_part_is_no_longer_than_a_request_may_be():
    found = parts_of("word " * 3000)
    assert max(map(len, found)) <= MOST_CHARACTERS
    assert "".join(found).replace(" ", "") == "word" * 3000
    sentences = parts_of("This is one sentence of many. " * 300)
    assert len(sentences) == 3 and all(sentence.endswith(".") for sentence in sentences)


def test_a_client_that_sends_more_than_is_spoken_is_told():
    stream = TextStream()
    stream.add("x" * MOST_WAITING)
    with pytest.raises(APIError) as told:
        stream.add("x")
    assert told.value.code == "too_large"
