"""Normalisation: written text to the words that a person would say, in the languages of XTTS."""
