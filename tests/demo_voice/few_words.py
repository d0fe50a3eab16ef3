"""A lexicon for machines without WordNet."""

from demo_voice.text.lexicon import Lexicon

FEW_WORDS = Lexicon(
    nouns=("table", "door", "garden"),
    verbs=("open", "carry", "see"),
    adjectives=("old", "green"),
    adverbs=("slowly",),
    irregular={"see": ("saw", "seen")},
    glosses=("a small table; `a green door'",) * 12,
)
