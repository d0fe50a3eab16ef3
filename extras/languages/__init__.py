"""`python -m train extend`: adds a language that the base model has never spoken."""

VERBS = {"train": {"extend": "extras.languages.verb"}}
LANGUAGES = "extras.languages.plan"
