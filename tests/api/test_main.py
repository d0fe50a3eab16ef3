"""`python -m api` before it starts serving."""

import logging
import sys

import pytest

from api.__main__ import main


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
