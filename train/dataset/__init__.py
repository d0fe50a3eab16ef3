"""Reads transcripts and recordings, and makes batches."""
