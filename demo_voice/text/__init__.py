"""The sentences for the teachers."""
