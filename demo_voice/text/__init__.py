"""Sentences that the teachers speak."""
