"""`python -m train cut`: long recordings become clips with transcripts."""

VERBS = {"train": {"cut": "extras.cut.verb"}}
