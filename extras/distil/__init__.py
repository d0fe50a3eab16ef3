"""`python -m train distil`: makes a smaller GPT of a run's best weights, and a voice of it."""

VERBS = {"train": {"distil": "extras.distil.verb"}}
