"""`python -m train extend`: adds a new language to a base model."""

VERBS = {"train": {"extend": "extras.languages.verb"}}
LANGUAGES = "extras.languages.extension_plan"
RULES = "extras.languages.icu_rules"
REHEARSAL = "extras.languages.rehearsal"
