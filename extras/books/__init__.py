"""Audiobooks: reads EPUB, text, Markdown and HTML, plans, speaks, and writes audio files."""

VERBS = {"xtts": {"read": "extras.books.verb"}}
SETTINGS = "extras.books.settings"
SERVICE = "extras.books.routes"
PAGE = "page"
