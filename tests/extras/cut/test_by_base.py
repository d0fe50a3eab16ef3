"""A text without times, aligned by the base model."""

import json
import sys

import pytest

from extras.cut.base_alignment import SpanMatch, SpanScore
from extras.cut.by_base import _unheard_sentences, likely_matches, pieces_of
from extras.cut.cues import Cue
from extras.cut.manuscript import TextUnit, manuscript_of
from tests.extras.cut.recordings import cut, hashes, without
from tests.tapes import join_demo, spoken_by
from train.dataset.metadata import read_entries

NUMBERS = [1, 2, 3, 5, 7]
WRONG = "Seventeen monkeys escaped from the laboratory on Sunday."


@pytest.fixture
def without_pocketsphinx(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "pocketsphinx")
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)


@pytest.mark.slow
@pytest.mark.usefixtures("without_pocketsphinx")
def test_the_base_finds_the_sentences_and_names_what_nobody_says(tmp_path, monkeypatch):
    join_demo(tmp_path / "tape.wav", NUMBERS)
    said = spoken_by(NUMBERS)
    (tmp_path / "text.txt").write_text(" ".join([*said[:3], WRONG, *said[3:]]), encoding="utf-8")

    def cut_to(to: str) -> int:
        more = ("--text", tmp_path / "text.txt", "--device", "cpu")
        return cut(tmp_path / "tape.wav", tmp_path / to, *more)

    # Stopped halfway and started again: spans already scored are not scored again.
    from extras.cut.base_alignment import BaseScorer

    real, asked = BaseScorer.score, list[int]()

    def stopped(self: BaseScorer, first: int, groups: list[range]) -> list[list[SpanScore]]:
        asked.append(first)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return real(self, first, groups)

    monkeypatch.setattr(BaseScorer, "score", stopped)
    assert cut_to("a") == 130
    assert cut_to("a") == 0
    assert asked[3:].count(asked[0]) == 0
    assert cut_to("b") == 0
    assert hashes(tmp_path / "a") == hashes(tmp_path / "b")
    entries = read_entries(tmp_path / "a", "auto", "en")
    assert " ".join(entry.text for entry in entries) == " ".join(said)
    assert json.loads((tmp_path / "a/cut.json").read_text())["unheard_sentences"] == [WRONG]


def test_a_base_of_many_languages_is_asked_in_the_one_that_is_spoken(
    tmp_path, base_folder, capsys, monkeypatch
):
    from xtts.text.tokenizer import Tokenizer

    real, read = Tokenizer.encode, list[tuple[str, str]]()

    def encode(self: Tokenizer, text: str, language: str) -> list[int]:
        read.append((text, language))
        return real(self, text, language)

    monkeypatch.setattr(Tokenizer, "encode", encode)
    join_demo(tmp_path / "fita.wav", NUMBERS[:2])
    said = ["O primeiro trem da manhã sai às seis.", "Caminhamos ao longo do rio."]
    (tmp_path / "texto.txt").write_text(" ".join(said), encoding="utf-8")
    asked = ("--language", "pt", "--base-model", base_folder, "--device", "cpu")
    # Random weights do not understand anything.
    asked += ("--text", tmp_path / "texto.txt")
    assert cut(tmp_path / "fita.wav", tmp_path / "out", *asked) == 2
    assert "The text does not fit" in capsys.readouterr().err
    assert {(text, "pt") for text in said} <= set(read)
    assert not (tmp_path / "out").exists()


def test_a_language_that_the_base_does_not_speak_is_told(tmp_path, capsys):
    join_demo(tmp_path / "fita.wav", NUMBERS[:1])
    (tmp_path / "texto.txt").write_text("Uma frase.", encoding="utf-8")
    asked = ("--language", "pt", "--text", tmp_path / "texto.txt")
    assert cut(tmp_path / "fita.wav", tmp_path / "out", *asked) == 2
    told = capsys.readouterr().err
    assert "BASE_MODEL=demo speaks en, not pt" in told and "--base-model xtts_v2" in told


def test_long_sentences_are_divided_at_their_commas():
    parts = ["When it had rained for days,", "the river rose,", "and we moved to the hill."]
    text = manuscript_of([Cue(f"It rained, again. {' '.join(parts)}")], "en")
    whole = [piece.text for piece in pieces_of(text, 100)]
    assert whole == ["It rained, again.", " ".join(parts)]
    divided = [(piece.text, piece.sentence) for piece in pieces_of(text, 40)]
    assert divided == [("It rained, again.", 0), *((part, 1) for part in parts)]


def test_half_a_sentence_is_kept_beside_its_other_half_only():
    written = [("One,", 0, 1), ("two.", 0, 2), ("Three.", 1, 3)]
    pieces = [TextUnit(text, 0, 0, sentence, ends) for text, sentence, ends in written]

    def match(first: int, piece: int, nats: float = 50.0, weakest: float = 1.0) -> SpanMatch:
        score = SpanScore(first + 1, nats, 20, weakest)
        return SpanMatch(range(first, first + 1), range(piece, piece + 1), score)

    both = [match(0, 0), match(1, 1), match(2, 2)]
    assert likely_matches(both, pieces) == both
    assert likely_matches([both[0], both[2]], pieces) == [both[2]]
    apart = [match(0, 0), match(5, 1), match(6, 2)]
    assert likely_matches(apart, pieces) == [apart[2]]
    unlikely = [match(0, 0), match(1, 1, nats=2.0), match(2, 2, weakest=-3.0)]
    assert likely_matches(unlikely, pieces) == []


@pytest.mark.parametrize(
    ("placed", "unheard"),
    [({0, 1, 2, 3}, []), ({0, 1, 2}, []), ({0, 1}, [1]), ({1, 2}, [0]), (set(), [0, 1])],
)
def test_a_sentence_counts_as_unheard_if_less_than_half_of_it_was_placed(placed, unheard):
    parts = ["When it had rained for days,", "the river rose,", "and we moved to the hill."]
    text = manuscript_of([Cue(f"It rained, again. {' '.join(parts)}")], "en")
    pieces = pieces_of(text, 40)
    assert [len(piece.text) for piece in pieces] == [17, 28, 15, 25]
    assert _unheard_sentences(placed, pieces, text) == unheard
