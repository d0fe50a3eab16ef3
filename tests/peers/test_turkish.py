"""İ in Turkish is read as in Coqui's training, which differs from Coqui's inference."""

import pytest

from tests.models import ALL_CHARACTERS, ALL_LANGUAGES, tiny_base
from xtts.text.normalization.registry import NORMALIZERS
from xtts.text.tokenizer import TokenizerSpec

TEXT = "İstanbul'da İYİ bir gün"


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_turkish_is_read_as_coqui_trains_with_it(tmp_path, normalizer):
    """`XTTSDataset.get_text` passes the text to the tokenizer unchanged, whose rule maps İ to i.

    `Xtts.inference` lowercases it first, and Python maps İ to i and a combining dot.
    """
    from TTS.tts.layers.xtts.tokenizer import VoiceBpeTokenizer
    from TTS.tts.layers.xtts.trainer.dataset import XTTSDataset

    folder = tiny_base(tmp_path, languages=ALL_LANGUAGES, characters=ALL_CHARACTERS)
    theirs = VoiceBpeTokenizer(str(folder / "vocab.json"))
    dataset = XTTSDataset.__new__(XTTSDataset)
    dataset.tokenizer = theirs
    trained = dataset.get_text(TEXT, "tr").tolist()
    ours = TokenizerSpec(folder, normalizer).open()
    assert ours.encode(TEXT, "tr") == trained
    (piece,) = ours.split(TEXT, "tr")
    assert piece.ids == trained and piece.text == "istanbul'da iyi bir gün"
    assert theirs.encode(TEXT.strip().lower(), "tr") != trained
