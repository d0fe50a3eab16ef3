"""`sotaque mcp`: assistants speak, over the Model Context Protocol on stdin and stdout."""

VERBS = {"sotaque": {"mcp": "extras.mcp.verb"}}
