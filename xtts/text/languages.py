"""The languages of XTTS-v2: their names, and a guess at the language of a text."""

import re
from collections import Counter
from collections.abc import Iterable

from xtts.text.language_names import short_code

# English names by ISO 639-1 code.
NAMES = {
    "ar": "Arabic", "cs": "Czech", "de": "German", "en": "English", "es": "Spanish",
    "fr": "French", "hi": "Hindi", "hu": "Hungarian", "it": "Italian", "ja": "Japanese",
    "ko": "Korean", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ru": "Russian",
    "tr": "Turkish", "zh": "Chinese",
}  # fmt: skip

# Frequent words that only one of these languages has.
FUNCTION_WORDS = {
    "en": "the and of that he she it you for with his her they had not are this have be at my",
    "de": "der das und ist nicht ich ein eine mit auf sie er wir dem im für auch sich es wird",
    "fr": "le les et est des dans qui il elle nous vous je pas pour sur du au ce avec sont",
    "es": "el los las y con por está pero muy lo su más del este hay fue ella como mi son",
    "it": "di che è non sono gli della nel ho mi più anche ma questo alla le i ha dei una",
    "pt": "o os um uma não do da em com ao mas eu ele muito você foi pela são isso dos",
    "nl": "het een van niet dat op zijn voor hij zij aan te ik wij maar naar ook er deze bij",
    "pl": "w nie się jest że jak po czy są był od przez tak dla ale jego już było tym co",
    "cs": "je se že jsem v byl si ve jako jsou tak ale při bylo už nebo která také aby pro",
    "hu": "az és hogy nem egy van ez volt meg már csak mint még ha kell után amikor",
    "tr": "ve bir bu için çok var ben değil gibi daha ne olarak kadar sonra ama mi her biz",
}
_WORD = re.compile(r"[^\W\d_]+")
_FEWEST_WORDS = 50
# The least share of words that are frequent only in the other language, and the given language's
# largest share relative to it.
_LEAST_SHARE, _MOST_OF_IT = 0.06, 0.25


def _only_in(code: str) -> frozenset[str]:
    others = {
        word for other, words in FUNCTION_WORDS.items() if other != code for word in words.split()
    }
    return frozenset(FUNCTION_WORDS[code].split()) - others


def other_language(texts: Iterable[str], language: str) -> str | None:
    """The language of the texts if it clearly differs from `language`; None if it does not, or if
    the texts have fewer than 50 words. Knows languages in Latin letters only."""
    named = short_code(language)
    words = Counter(word for text in texts for word in _WORD.findall(text.lower()))
    if named not in FUNCTION_WORDS or words.total() < _FEWEST_WORDS:
        return None
    shares = {
        code: sum(words[word] for word in own) / words.total()
        for code in FUNCTION_WORDS
        if (own := _only_in(code))
    }
    best = max(shares, key=lambda code: shares[code])
    if shares[best] < _LEAST_SHARE or shares[named] > _MOST_OF_IT * shares[best]:
        return None
    return best
