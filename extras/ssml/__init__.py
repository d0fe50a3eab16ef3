"""SSML in a text: pauses, paragraphs, spelled words and replaced words."""

MARKUP = "extras.ssml.reader"
