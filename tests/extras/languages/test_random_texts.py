"""Ten thousand random texts in each of four added languages: ids or a refusal, within a second."""

import random
import time

import pytest

from extras.languages.extension import write
from extras.languages.extension_plan import plan_of
from tests.extras.languages.languages import GREEK, make_greek
from train.settings import TrainSettings
from xtts.model.config import ModelConfig
from xtts.text.errors import TextError
from xtts.text.tokenizer import Tokenizer

TEXTS = {
    "uk": ("Доброго ранку, як справи?", "Їжак біжить до лісу о 7:30.", "Ґанок коштує 21 гривню."),
    "vi": ("Chào buổi sáng, bạn khỏe không?", "Con mèo ngủ trên ghế.", "Tôi có 12 quả trứng."),
    "el": GREEK,
    "sw": ("Habari za asubuhi?", "Nina mayai 12 na mikate 5.", "Ng'ombe anakula majani."),
}
# Pasted text: other scripts, signs, numbers, marks without a letter, emoji, controls.
STRANGE = "0123456789.,:%€₴№&@#[]()<>=*'\"’“”…—-/\\\t\n\u0301\u200b\u202e🙂👩‍👩‍👧Ǆßı漢字カナ한글עبहिĀğŁ"
COUNT = 10_000


@pytest.mark.slow
@pytest.mark.parametrize("language", TEXTS)
def test_any_text_has_ids_or_is_refused_within_a_second(base_folder, tmp_path, language):
    clips = make_greek(tmp_path / "clips", TEXTS[language])
    folder = tmp_path / "base"
    write(plan_of(TrainSettings(dataset_dir=clips, language=language), base_folder), folder)
    config = ModelConfig.read(folder)
    tokenizer = Tokenizer(config, folder)
    draw = random.Random(language)
    words = " ".join(TEXTS[language]).split()
    read = refused = 0
    for text in TEXTS[language]:
        tokenizer.encode(text, language)
    for _ in range(COUNT):
        parts = [
            draw.choice(words)
            if draw.random() < 0.7
            else "".join(draw.choices(STRANGE, k=draw.randint(1, 8)))
            for _ in range(draw.randint(1, 12))
        ]
        text = draw.choice(("", " ")).join(parts)
        # CPU time of this process: other programs must not make a text fail.
        began = time.process_time()
        try:
            ids = tokenizer.encode(text, language)
        except TextError as error:
            refused += 1
            assert str(error)
        else:
            read += 1
            assert ids and all(0 <= id_ < config.gpt.text_ids for id_ in ids)
            assert tokenizer.token(ids[0]) == f"[{language}]"
        assert time.process_time() - began < 1.0, text
    assert min(read, refused) > COUNT / 50
