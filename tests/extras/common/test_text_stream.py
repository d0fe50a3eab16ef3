"""Where text is cut while it arrives."""

import asyncio

import pytest

from api.errors import APIError
from api.schemas import MAX_CHARACTERS
from extras.common.text_stream import MAX_WAITING_CHARACTERS, TextStream, last_clause_end, last_sentence_end

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
    assert text[: last_sentence_end(text)] == whole


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("Good morning to you, my", "Good morning to you,"),
        ("Good morning, my", ""),  # too short
        ("Good morning, my friend; how", "Good morning, my friend;"),
        ("It takes about 1,000", ""),
        ("We meet at ten:", ""),  # "10:30" may follow
        ("I said to him (again, and", "I said to him (again,"),
        ("Call <sub alias='a b c d, e'>it</sub>", ""),
        ("<speak>One, two, three, four, five", ""),
        ("今天天气真的很好，我们", "今天天气真的很好，"),
        ("今天，我们", ""),
    ],
)
def test_a_first_part_may_be_a_clause_of_four_words(text, clause):
    assert text[: last_clause_end(text)] == clause


def taken(*steps: str) -> list[str]:
    """The parts, each taken as soon as it is there; "|" flushes."""

    async def run() -> list[str]:
        stream, parts = TextStream(), list[str]()

        async def take() -> None:
            parts.extend([part async for part in stream])

        taking = asyncio.create_task(take())
        for step in steps:
            if step == "|":
                stream.flush()
            else:
                stream.add(step)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        stream.end()
        await taking
        return parts

    return asyncio.run(run())


def test_later_parts_are_whole_sentences():
    words = "If it rains today, we stay at home, with a book. Then, as always, we eat. ".split(" ")
    assert taken(*(f"{word} " for word in words)) == [
        "If it rains today,",
        "we stay at home, with a book.",
        "Then, as always, we eat.",
    ]


def test_a_flush_ends_a_part_anywhere_and_a_clause_may_follow():
    words = "Turn left at | the next house, and then stop."
    assert taken(*(step if step == "|" else f"{step} " for step in words.split(" "))) == [
        "Turn left at",
        "the next house, and then stop.",
    ]
    again = "Wait. | If it rains today, we stay."
    assert taken(*(step if step == "|" else f"{step} " for step in again.split(" "))) == [
        "Wait.",
        "If it rains today,",
        "we stay.",
    ]


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
    parts = parts_of("." * (MAX_CHARACTERS + 904), " Then he came.")
    assert "".join(parts).endswith("Then he came.") and len("".join(parts)) < MAX_CHARACTERS


def test_a_part_is_no_longer_than_a_request_may_be():
    found = parts_of("word " * 3000)
    assert max(map(len, found)) <= MAX_CHARACTERS
    assert "".join(found).replace(" ", "") == "word" * 3000
    sentences = parts_of("This is one sentence of many. " * 300)
    assert len(sentences) == 3 and all(sentence.endswith(".") for sentence in sentences)


def test_a_client_that_sends_more_than_is_spoken_is_told():
    stream = TextStream()
    stream.add("x" * MAX_WAITING_CHARACTERS)
    with pytest.raises(APIError) as told:
        stream.add("x")
    assert told.value.code == "too_large"
