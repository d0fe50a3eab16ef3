"""İ in Turkish: as Coqui trains with it, which is not how its inference reads it."""

import pytest

from tests.models import ALL_CHARACTERS, ALL_LANGUAGES, tiny_base
from xtts.text.normalization.registry import NORMALIZERS
from xtts.text.tokenizer import TokenizerSpec

TEXT = "İstanbul'da İYİ bir gün"


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_turkish_is_read_as_coqui_trains_with_it(tmp_path, normalizer):
    """`XTTSDataset.get_text` hands the text to the tokenizer as it is written, whose rule makes i
    of İ; `Xtts.inference` lowers it before, and Python makes i and a second dot of it."""
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
