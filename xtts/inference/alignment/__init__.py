"""Aligns speech with its text by attention, for the guard and the word times."""
