"""Reads book files: EPUB, text, Markdown, HTML."""
