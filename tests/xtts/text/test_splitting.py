"""Where a text is cut, for any text."""

from hypothesis import given
from hypothesis import strategies as st

from xtts.text.splitting import Limits, cut

TEXTS = st.text(st.sampled_from("ab é.,!。 -5€"), max_size=300)


@given(TEXTS, st.integers(1, 60), st.integers(1, 60))
def test_nothing_is_lost_and_every_piece_fits(text, characters, tokens):
    counted: list[int] = []

    def count(part: str) -> int:
        counted.append(len(part.strip()))
        return 2 * part.count("5") + len(part) // 2

    limits = Limits(characters, tokens, count)
    pieces = cut(text, limits)
    assert "".join(pieces) == text
    assert all(limits.fits(piece) or len(piece) == 1 for piece in pieces)
    # The work grows no faster than the text: parts that are too long are not counted.
    assert max(counted, default=0) <= characters


def test_sentences_come_before_clauses_and_clauses_before_words():
    text = "One, two and three. Four and five, six and seven and eight and nine."
    pieces = [piece.strip() for piece in cut(text, Limits(24, 24))]
    assert pieces == ["One, two and three.", "Four and five,", "six and seven and", "eight and nine."]


def test_words_are_cut_evenly():
    """If the first piece were filled, the last one would be a single word."""
    pieces = cut("word " * 9, Limits(40, 40))
    assert [len(piece.split()) for piece in pieces] == [5, 4]


def test_a_long_word_is_cut_where_a_new_one_begins():
    assert cut("5€6€7€8€", Limits(4, 4)) == ["5€6€", "7€8€"]
