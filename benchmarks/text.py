"""`python -m benchmarks text [--json] [--show]`: phrases read as a person reads them, ours and
Coqui's.

The phrases lie beside the tests, with what is right. Chinese, Japanese and Korean are compared
before they are romanised: Coqui's are then what its normaliser makes of them, for Japanese the text
itself, because it has none.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.phrases import FOLDER, missed, phrases
from xtts.text.cleaning import clean_text
from xtts.text.coqui_tokenizer import tokenizer_class
from xtts.text.normalization.registry import rules_of

_ROMANISED = ("zh", "ja", "ko")


def main(argv: Sequence[str]) -> int:
    """Prints how many of each set both read right."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks text", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", action="store_true", help="the phrases that ours reads otherwise")
    asked = parser.parse_args(argv)
    sets = [FOLDER, *sorted(path for path in FOLDER.iterdir() if path.is_dir())]
    found = [_judged(folder, show=asked.show and not asked.json) for folder in sets]
    if asked.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    for one in found:
        print(
            f"{one['set']}: {one['phrases']} phrases; ours {one['ours']:.1%}, "
            f"Coqui {one['coqui']:.1%}"
        )
        for language, (count, ours_wrong, coqui_wrong) in one["languages"].items():
            print(
                f"  {language}  of {count:3}  ours {count - ours_wrong:3}  "
                f"Coqui {count - coqui_wrong:3}"
            )
    return 0


def _judged(folder: Path, *, show: bool) -> dict[str, Any]:
    every = list(phrases(folder))
    wrong, coquis_wrong = missed(ours, folder), missed(coquis, folder)
    if show:
        for phrase, said in wrong:
            print(f"{phrase.language} {phrase.kind}: {phrase.written}\n  read: {said}")
    count = Counter(phrase.language for phrase in every)
    ours_wrong = Counter(phrase.language for phrase, _ in wrong)
    coqui_wrong = Counter(phrase.language for phrase, _ in coquis_wrong)
    return {
        "set": folder.name,
        "phrases": len(every),
        "ours": 1 - len(wrong) / max(1, len(every)),
        "coqui": 1 - len(coquis_wrong) / max(1, len(every)),
        "languages": {
            language: (count[language], ours_wrong[language], coqui_wrong[language])
            for language in sorted(count)
        },
    }


def ours(text: str, language: str) -> str:
    """As `sotaque-1` reads it, before romanisation."""
    rules = rules_of(language)
    assert rules is not None
    words = rules.read(clean_text(text))
    if language in _ROMANISED:
        return words
    said: str = tokenizer_class()().preprocess_text(words.lower(), language)
    return said


def coquis(text: str, language: str) -> str:
    """As Coqui's normaliser reads it in training. Raises many kinds of errors."""
    tokenizer_class()
    from TTS.tts.layers.xtts import tokenizer as coqui

    if language == "ja":
        return text
    said: str = coqui.multilingual_cleaners(text, language)
    return said
