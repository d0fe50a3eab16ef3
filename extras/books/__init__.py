"""Books: read from EPUB, text, Markdown and HTML, planned, spoken and bound."""

VERBS = {"xtts": {"read": "extras.books.verb"}}
SERVICE = "extras.books.routes"
