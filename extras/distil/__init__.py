"""`python -m train distil`: distils a run's best weights into a voice with a smaller GPT."""

VERBS = {"train": {"distil": "extras.distil.verb"}}
