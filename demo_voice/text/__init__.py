"""Sentences for the teachers to speak."""
