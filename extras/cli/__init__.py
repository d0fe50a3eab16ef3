"""`sotaque`: one command for the verbs of every program."""

VERBS = {"sotaque": {"completion": "extras.cli.completion"}}
