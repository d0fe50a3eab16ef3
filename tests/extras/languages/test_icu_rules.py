"""Languages that have only ICU's numerals: all kinds of texts are read, and none is refused."""

import pytest
from unicode_rbnf import RbnfEngine

from xtts.text.normalization.registry import rules_of

LANGUAGES = sorted(RbnfEngine.get_supported_languages())
KINDS = (
    "5;-5;1,000,000;1.5;3.30;½;2 1/2 kg;⅓;3/4 l;5½ %;50 %;10–20 %;$100B;€5k;5M;R$ 1,5;10:30-11:00;24.12.;"
    "24.12.2020;0171 1234567;10-20;CO₂;②;1e-6;A-1;5 min.;№ 07"
).split(";")


@pytest.mark.parametrize("text", KINDS)
def test_every_kind_is_read_in_every_language(text):
    left = {}
    for language in LANGUAGES:
        if rules := rules_of(language):
            read = rules.read(text)
            if any("0" <= letter <= "9" for letter in read):
                left[language] = read
    assert not left


def test_greek_has_its_words():
    rules = rules_of("el")
    assert rules.read("Καλημέρα, 5 φίλοι.") == "Καλημέρα, πέντε φίλοι."
    assert rules.read("50 %") == "πενήντα %"  # ICU's numerals do not name the sign
