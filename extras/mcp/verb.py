"""`sotaque mcp`: serves the tools to the assistant that started it, on stdin and stdout."""

import argparse
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from extras.mcp.api_client import Service
from extras.mcp.tools import Tools
from machine import commands
from machine.errors import SotaqueError

SUMMARY = "let an assistant speak, over the Model Context Protocol"
USAGE = "[--folder FOLDER] [--service URL]"
_INSTRUCTIONS = (
    "Sotaque speaks texts with cloned voices. `voices` lists the voices, `speak` writes a sound file, "
    "`check` examines recordings that a voice shall be trained on. Every sound is marked as "
    "AI-generated; do not present it as a person's own recording."
)


def main(command_line: Sequence[str]) -> int:
    """Serves until the assistant closes stdin. Raises SotaqueError."""
    parser = argparse.ArgumentParser(prog="sotaque mcp", add_help=False)
    parser.add_argument("--folder", type=Path, default=Path("speech"))
    parser.add_argument("--service", metavar="URL", type=Service.address_of)
    if {"-h", "--help"} & set(command_line):
        return 0
    arguments = parser.parse_args(command_line)
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError as error:
        raise SotaqueError(
            f"`sotaque mcp` needs the package of that protocol, which is not installed ({error}). "
            f"Install it with `{commands.install_extra('mcp')}`."
        ) from error
    server = MCPServer("sotaque", version=commands.version(), instructions=_INSTRUCTIONS, log_level="WARNING")
    service = Service.of_settings(arguments.service)
    tools = Tools(arguments.folder, service, required=arguments.service is not None)
    for tool in (tools.speak, tools.voices, tools.check):
        server.tool()(_showing_errors(tool, ToolError))
    server.run()
    return 0


def _showing_errors(tool: Callable[..., Any], error_type: type[Exception]) -> Callable[..., Any]:
    """The tool with its errors as `error_type`: the package hides all other errors from the assistant."""

    @wraps(tool)
    def call(*values: Any, **named: Any) -> Any:
        try:
            return tool(*values, **named)
        except SotaqueError as error:
            raise error_type(str(error)) from error

    return call


def choices() -> dict[str, tuple[str, ...]]:
    """No option has a list of values."""
    return {}
