"""Speaks a book sentence by sentence, and stores each sentence as a take."""
