"""Calls the tools of `sotaque mcp` with the official client, and writes what it got as JSON.

`assistant.py REPORT PYTHONPATH SERVER…`: the file to write, where the server finds the package mcp,
and the server's command.
"""

import asyncio
import json
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters


async def main(report: Path, packages: str, command: list[str]) -> None:
    server = StdioServerParameters(command=command[0], args=command[1:], env={"PYTHONPATH": packages})
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
        answers = {}
        for name, words in (
            ("voices", {}),
            ("speak", {"text": "Good morning.", "voice": "demo", "seed": 2}),
            ("speak", {"text": " "}),
            ("check", {"folder": "/nowhere"}),
        ):
            result = await client.call_tool(name, words)
            text = " ".join(block.text for block in result.content if block.type == "text")
            answers[f"{name} {words.get('text', '')}".strip()] = [bool(result.is_error), text]
    described = {tool.name: [tool.description, tool.input_schema] for tool in tools}
    report.write_text(json.dumps({"tools": described, "answers": answers}))


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
