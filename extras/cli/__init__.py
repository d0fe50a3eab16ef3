"""What makes `sotaque` pleasant in a terminal: help in groups with examples, and completion."""

VERBS = {"sotaque": {"completion": "extras.cli.completion"}}
HELP = "extras.cli.help_pages"
