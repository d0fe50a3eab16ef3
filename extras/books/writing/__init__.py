"""Writes the results: chapters, the audiobook, the EPUB with sound, the report."""
