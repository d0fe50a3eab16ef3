"""Each written word is mapped to the ids of its normalised text."""

import random
import string

import pytest

from tests.models import tiny_base
from xtts.text.errors import TextError
from xtts.text.tokenizer import Piece, Tokenizer
from xtts.text.written_words import SpokenWord, place_words, written_words
from xtts.voices.voice_files import VoiceSpec, find_voice


@pytest.fixture(scope="module")
def phones() -> Tokenizer:
    """The tokenizer of the embedded voice, whose ids are phones."""
    return find_voice(VoiceSpec("demo")).tokenizer.open()


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tokenizer whose ids are letters, like that of XTTS-v2."""
    folder = tiny_base(
        tmp_path_factory.mktemp("letters") / "voice", characters=string.ascii_lowercase + ".,'!?-"
    )
    return find_voice(VoiceSpec(str(folder))).tokenizer.open()


def spoken_words(tokenizer: Tokenizer, pieces: list[Piece]) -> list[tuple[str, str]]:
    """The written words of all pieces, each with the tokens that say it."""
    words = list[tuple[str, str]]()
    for piece in pieces:
        for word in piece.words:
            tokens = "".join(map(tokenizer.token, piece.ids[word.first - 1 : word.last]))
            if word.text:
                words.append((word.text, tokens))
            else:
                words[-1] = (words[-1][0], f"{words[-1][1]}[SPACE]{tokens}")
    return [(word, tokens.replace("[SPACE]", " ")) for word, tokens in words]


@pytest.mark.parametrize(
    ("text", "short", "words"),
    [
        ("Hello, (big) world!", "en", ["Hello", "big", "world"]),
        ("He paid $5.50 & left — 25 %.", "en", ["He", "paid", "$5.50", "&", "left", "25", "%"]),
        ("The U.S. won… today 😀", "en", ["The", "U.S.", "won", "today"]),
        ("«Oui», dit-elle. ¿Sí?", "fr", ["Oui", "dit-elle", "Sí"]),
        ("你好，world 3。", "zh", ["你", "好", "world", "3"]),
        ("さくら、咲く。", "ja", ["さくら", "咲く"]),
    ],
)
def test_words_as_they_are_written(text, short, words):
    assert written_words(text, short) == words


def test_numbers_and_abbreviations_keep_their_own_sound(phones):
    pieces = phones.split("Dr. Smith paid $5.50 for 3 of the U.S. maps (left, right).", "en")
    words = spoken_words(phones, pieces)
    assert words == [
        ("Dr", "dAktR"),
        ("Smith", "smIT"),
        ("paid", "ped"),
        ("$5.50", "fYv dAlRz @nd fIfti sEnts"),
        ("for", "fOr"),
        ("3", "Tri"),
        ("of", "Vv"),
        ("the", "D@"),
        ("U.S.", "ju.Es"),
        ("maps", "m&ps"),
        ("left", "lEft"),
        ("right", "rYt"),
    ]


def test_letters_are_read_as_phones_are(letters):
    words = spoken_words(letters, letters.split("Dr. No's dog paid $5, twice.", "en"))
    assert words == [
        ("Dr", "doctor"),
        ("No's", "no's"),
        ("dog", "dog"),
        ("paid", "paid"),
        ("$5", "five dollars"),
        ("twice", "twice"),
    ]


def test_a_word_that_is_read_across_two_pieces_is_one_word(phones):
    pieces = phones.split("Call 12345678901234567890123 now", "en")
    assert len(pieces) > 1 and any(word.text == "" for word in pieces[1].words)
    words = spoken_words(phones, pieces)
    assert [word for word, _ in words] == ["Call", "12345678901234567890123", "now"]
    assert len(words[1][1].split()) == 23


def test_tags_are_no_words(phones):
    pieces = phones.split("Go [voice:ben] far [pause:1s] on", "en")
    assert [word.text for piece in pieces for word in piece.words] == ["Go", "far", "on"]


def test_every_word_has_a_place_and_places_never_go_back(phones):
    draw = random.Random(1)
    parts = [
        "Dr.",
        "$5",
        "1,234",
        "3/4/2021",
        "10:30",
        "&",
        "U.S.",
        "25",
        "%",
        "hello",
        "it's",
        "—",
        "(well)",
        "😀",
        "e-mail",
        "2nd",
        "co.",
        "1 000",
        "x2",
        "No.",
    ]
    spoken = 0
    for _ in range(150):
        text = " ".join(draw.choices(parts, k=draw.randint(1, 14)))
        try:
            pieces = phones.split(text, "en")
        except TextError:
            continue
        spoken += 1
        told = [word.text for piece in pieces for word in piece.words if word.text]
        assert told == written_words(text, "en"), text
        for piece in pieces:
            edge = 0
            for word in piece.words:
                assert edge < word.first or word.last < word.first, text
                assert word.last <= len(piece.ids), text
                edge = max(edge, word.last)
    assert spoken > 120


def test_more_words_than_are_read_share_the_sound():
    spans = [SpokenWord("mille", 0, [2, 3, 4, 5])]
    ((unit, thousand),) = place_words(["1", "000"], spans, lambda _: 0, 1)
    assert (unit.text, thousand.text) == ("1", "000")
    assert unit.first == 2 and thousand.last == 5 and unit.last < thousand.first
    assert place_words([], spans, len, 1) == [[]] == place_words(["x"], [], len, 1)
