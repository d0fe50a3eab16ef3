"""Reads the files of books: EPUB, text, Markdown, HTML."""
