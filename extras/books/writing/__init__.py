"""Writes what was spoken: chapters, the audiobook, the EPUB with sound, the report."""
