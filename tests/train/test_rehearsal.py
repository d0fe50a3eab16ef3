"""The sentences that keep the old languages of a base; with an added language it is rehearsed in
`tests/extras/languages/test_rehearsal.py`."""

from train.evaluation.plan import built_in
from train.rehearsal import sentences


def test_texts_join_halves_of_sentences_that_an_evaluation_speaks_whole():
    for language in ("en", "zh-cn"):
        texts = sentences(language, seed=0)
        assert len(texts) == len(built_in(language)) * (len(built_in(language)) - 1)
        assert not set(texts) & set(built_in(language))
        assert texts == sentences(language, seed=0) != sentences(language, seed=1)
    assert "  " not in "".join(sentences("en", 0)[:50])
    assert sentences("el", seed=0) == []
