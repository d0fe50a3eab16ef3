"""The ports of `machine.extras`: the core calls them by name, which no type checker sees."""

import importlib
import re
from types import ModuleType

import pytest

from machine import extras

# A port is described in one paragraph: its name, what it is for, and what its module has.
PORT = re.compile(r"^([A-Z_]+) +(.*(?:\n {12,}.*)*)", re.M)
PORTS = {name: re.findall(r"`(\w+)`", text) for name, text in PORT.findall(str(extras.__doc__))}


def modules_of(port: str) -> list[ModuleType]:
    return [importlib.import_module(name) for name in extras.offers(port)]


@pytest.mark.parametrize("port", [port for port, names in PORTS.items() if names and port != "VERBS"])
def test_a_module_has_what_its_port_promises(port):
    lacking = [
        f"{module.__name__}.{name}"
        for module in modules_of(port)
        for name in PORTS[port]
        if not hasattr(module, name)
    ]
    assert not lacking


def test_the_ports_are_read_from_the_description():
    assert {"CLIPS", "LAYOUTS", "WATERMARK"} <= set(PORTS)
    assert PORTS["CLIPS"] == ["look", "report_kept", "without_suspects"]
