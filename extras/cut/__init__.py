"""`python -m train cut`: cuts long recordings into clips with transcripts."""

VERBS = {"train": {"cut": "extras.cut.verb"}}
