"""`sotaque`: one console script for the commands of all programs."""

VERBS = {"sotaque": {"completion": "extras.cli.completion"}}
