"""The port: the bound addresses, and the message if an address cannot be bound."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from api.http.listening_socket import bind_port
from machine.errors import SotaqueError
from tests.ports import free_port


@pytest.mark.parametrize(
    ("host", "addresses"), [("127.0.0.1", {"127.0.0.1"}), ("localhost", {"127.0.0.1", "::1"})]
)
def test_each_address_of_a_host_is_bound_without_nagles_delay(host, addresses):
    sockets = bind_port(host, 0)
    assert {"127.0.0.1"} <= {bound.getsockname()[0] for bound in sockets} <= addresses
    for bound in sockets:
        with bound, socket.create_connection(bound.getsockname()[:2]), bound.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_what_is_no_address_of_this_machine_is_said_so(monkeypatch):
    with pytest.raises(SotaqueError, match=r"192\.0\.2\.1 .* API_HOST must be an address"):
        bind_port("192.0.2.1", 0)

    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    with pytest.raises(SotaqueError, match=r"API_HOST=laptop is not an address .* not known"):
        bind_port("laptop", 0)


def program(port: int, folder: Path) -> "subprocess.Popen[str]":
    command = [
        sys.executable,
        "-c",
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from api.__main__ import main; sys.exit(main(sys.argv[1:]))",
        f"--api-port={port}",
        f"--output-dir={folder / 'output'}",
        f"--voices-dir={folder / 'v'}",
    ]
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_port_that_is_taken_is_named_by_its_setting():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SotaqueError) as told:
        bind_port("127.0.0.1", taken.getsockname()[1], "WYOMING_PORT")
    assert str(told.value).startswith("WYOMING_PORT=") and "API_PORT" not in str(told.value)


def test_a_port_that_is_taken_is_refused_before_anything_is_started(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        process = program(port, tmp_path)
        output, complaint = process.communicate(timeout=60)
    assert process.returncode == 2
    expected = f"API_PORT={port} on 127.0.0.1 is in use by another program."
    assert complaint.startswith(expected) and complaint.count("\n") == 1
    assert "Listens" not in output and "Starts" not in output


def test_ctrl_c_ends_it_without_a_traceback(tmp_path):
    process = program(free_port(), tmp_path)
    assert process.stdout is not None
    while "Speaking process:" not in (line := process.stdout.readline()):
        assert line, process.communicate()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (130, "")
