"""`python -m train cut`: long recordings become clips with transcripts."""
