"""Books: read from EPUB, text, Markdown and HTML, planned, spoken and bound."""
