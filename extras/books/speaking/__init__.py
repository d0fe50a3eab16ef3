"""Speaks a book: sentence by sentence, each kept as a take."""
