"""From transcripts and recordings to batches."""
