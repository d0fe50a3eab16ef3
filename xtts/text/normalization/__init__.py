"""Normalization: written text to spoken words, in the languages of XTTS."""
