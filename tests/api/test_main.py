"""`python -m api` before it starts serving."""

import gc
import logging
import sys
from types import SimpleNamespace

import pytest

from api.__main__ import main, serve
from tests.api.conftest import settings_in


def test_a_package_that_is_missing_is_told_with_the_command_that_installs_it(monkeypatch, capsys):
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main([]) == 2
    told = capsys.readouterr().err
    assert "The service needs fastapi and uvicorn" in told and "[api]" in told


def test_help_lists_the_settings(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0 and "--api-port 8005" in capsys.readouterr().out


def test_while_it_serves_what_existed_before_is_no_garbage_and_what_comes_is_collected(monkeypatch, tmp_path):
    during = list[tuple[bool, bool]]()

    def run(**_: object) -> None:
        during.append((gc.isenabled(), gc.get_freeze_count() > 1_000))

    monkeypatch.setattr("api.http.listening_socket.bind_port", lambda *_: [])
    monkeypatch.setattr("api.http.server.server_of", lambda *_, **__: SimpleNamespace(run=run))
    try:
        assert serve(settings_in(tmp_path)) == 0
    finally:
        gc.unfreeze()
    assert during == [(True, True)]
