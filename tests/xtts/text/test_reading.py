"""Coqui's tokenizer without torch: the same text, and no half-imported modules remain."""

import json
import subprocess
import sys

import pytest

TEXTS = (
    ("en", "Hello Mr. Smith, 14% of $20 is a 1st."),
    ("pt", "Olá Sr. Silva: 12,5% & mais!"),
    ("de", "Dr. Müller hat £ 20."),
    ("ru", "У меня 14% заряда"),
    ("ko", "12.5 초 안에."),
)
ALONE = """
import json, sys
from xtts.text.reading import tokenizer_class
made = tokenizer_class()(sys.argv[1])
found = [made.preprocess_text(text, language) for language, text in json.loads(sys.argv[2])]
left = [name for name in sys.modules if name.partition(".")[0] in ("torch", "TTS")]
print(json.dumps([found, left]))
import torch, TTS.tts.layers.xtts.tokenizer as whole
assert whole.torch is torch
"""


@pytest.mark.slow
def test_without_torch_it_says_what_it_says_with_torch(base_folder):
    from TTS.tts.layers.xtts.tokenizer import VoiceBpeTokenizer

    vocabulary = str(base_folder / "vocab.json")
    whole = VoiceBpeTokenizer(vocabulary)
    command = [sys.executable, "-c", ALONE, vocabulary, json.dumps(TEXTS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    readings, left = json.loads(done.stdout)
    assert readings == [whole.preprocess_text(text, language) for language, text in TEXTS]
    assert left == []  # so a later import of torch is complete


def test_with_torch_it_is_coquis_own():
    import torch  # noqa: F401
    from TTS.tts.layers.xtts.tokenizer import VoiceBpeTokenizer

    from xtts.text.reading import tokenizer_class

    tokenizer_class.cache_clear()
    assert tokenizer_class() is VoiceBpeTokenizer
