"""`sotaque mcp` and the official client of the Model Context Protocol, from PyPI."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.test_client_libraries import run
from tests.installed import ROOT

PROGRAM = Path(__file__).parent / "assistant.py"
SERVER = "from machine.console import main; main()"


@pytest.mark.system
@pytest.mark.timeout(900)
def test_an_assistant_finds_the_tools_and_hears_why_one_failed(tmp_path):
    packages = tmp_path / "packages"
    run(sys.executable, "-m", "uv", "pip", "install", "-q", "--target", packages, "mcp>=2", cwd=tmp_path)
    server = [sys.executable, "-c", SERVER, "mcp", f"--folder={tmp_path / 'speech'}"]
    report = tmp_path / "report.json"
    environ = {**os.environ, "PYTHONPATH": str(packages)}
    subprocess.run(
        [sys.executable, "-s", PROGRAM, report, f"{ROOT}{os.pathsep}{packages}", *server],
        cwd=tmp_path,
        env=environ,
        check=True,
        timeout=600,
    )
    told = json.loads(report.read_text())
    assert set(told["tools"]) == {"speak", "voices", "check"}
    description, schema = told["tools"]["speak"]
    assert description.startswith("Speaks a text into a new sound file, marked as AI-generated")
    assert schema["required"] == ["text"] and schema["properties"]["ending"]["enum"][0] == "wav"
    answers = told["answers"]
    assert not answers["voices"][0] and '"demo"' in answers["voices"][1]
    failed, spoken = answers["speak Good morning."]
    assert not failed and json.loads(spoken)["origin"] == "AI-generated"
    assert Path(json.loads(spoken)["file"]).read_bytes()[:4] == b"RIFF"
    for refused, sentence in (("speak", "The text is empty."), ("check", "/nowhere is not a folder.")):
        failed, text = answers[refused]
        assert failed and sentence in text


def test_without_its_package_it_says_what_to_install(tmp_path):
    hidden = "import sys; sys.modules['mcp.server'] = None; from machine.console import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "mcp"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "[mcp]" in done.stderr and "Traceback" not in done.stderr
