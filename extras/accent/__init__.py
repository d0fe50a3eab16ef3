"""Measures how far a candidate's vowels are on the way from a base to a person."""

VERBS = {"xtts": {"accent": "extras.accent.verb"}}
JUDGE = "extras.accent.judge"
PAGE = "page"
