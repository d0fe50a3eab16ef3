"""XTTS-v2 as a voice, with a tiny model in the published layout on a local server."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import soundfile

import xtts
from api.__main__ import main as serve
from machine.settings.loading import SharedSettings
from tests.datasets import a_sound
from tests.file_server import Bad, Server, serving
from tests.models import tiny_base
from tests.published import publish_folder
from xtts.__main__ import main
from xtts.download.xtts_v2 import REPOSITORY, REVISION, XTTS_V2
from xtts.voices.base_models import BundleError
from xtts.voices.published_voice import provide


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A hub with the files, an empty working folder, and a recording."""
    base = tiny_base(tmp_path / "base")
    publish_folder(monkeypatch, base)
    for name in os.environ.keys() & {"COQUI_TOS_AGREED", "XTTS_V2_DIR", "HF_ENDPOINT", "VOICE"}:
        monkeypatch.delenv(name)
    work = tmp_path / "work"
    work.mkdir()
    soundfile.write(work / "me.wav", a_sound(4.0, 22_050), 22_050)
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(work))
    with serving() as server:
        server.files = {
            f"/{REPOSITORY}/resolve/{REVISION}/{name}": (base / name).read_bytes()
            for name in XTTS_V2
            if (base / name).is_file()
        }
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def test_another_voice_stays_as_it_is():
    assert provide("demo", SharedSettings()) == "demo"


def test_nothing_is_downloaded_without_consent_or_a_recording(hub, monkeypatch, capsys):
    command = ["speak", "One.", "--voice", "xtts_v2", "--out", "out.wav"]
    assert main([*command, "--reference", "me.wav"]) == 2
    assert "set COQUI_TOS_AGREED=1 if you agree, as a line of .env or in" in capsys.readouterr().err
    with pytest.raises(BundleError, match="pass tos_agreed=True to load_voice"):
        xtts.load_voice("xtts_v2", reference="me.wav")
    monkeypatch.setenv("VOICE", "xtts_v2")
    assert serve([]) == 2
    monkeypatch.setenv("COQUI_TOS_AGREED", "1")
    assert main(command) == 2
    assert "Add --reference" in capsys.readouterr().err
    assert hub.asked == [] and not Path("train").exists()


@pytest.mark.parametrize("files", [(), ("vocab.json",)])
def test_its_folder_without_its_files_says_how_to_get_them(tmp_path, monkeypatch, files):
    monkeypatch.chdir(tmp_path)
    if files:
        Path("train/xtts_v2").mkdir(parents=True)
    for name in files:
        Path("train/xtts_v2", name).write_text("{}")
    with pytest.raises(BundleError, match=r"model\.pth.*`xtts\.load_voice\(\"xtts_v2\"\)`"):
        xtts.load_voice("train/xtts_v2", reference="me.wav", tos_agreed=True)


def test_speak_and_python_download_it_once_and_speak(hub, monkeypatch):
    monkeypatch.setenv("COQUI_TOS_AGREED", "1")
    model = next(path for path in hub.files if path.endswith("model.pth"))
    hub.bad[model] = [Bad(cut_after=300_000)]
    command = ["speak", "One.", "--voice", "xtts_v2", "--reference", "me.wav", "--out"]
    assert main([*command, "out.wav"]) == 0
    count = len(hub.asked)
    assert count == len(hub.files) + 1 and soundfile.info("out.wav").frames > 0
    voice = xtts.load_voice("xtts_v2", reference="me.wav")
    assert len(xtts.synthesize(voice, "One.")) == soundfile.info("out.wav").frames
    assert len(hub.asked) == count
    by_path = xtts.load_voice("train/xtts_v2", reference="me.wav")  # the consent holds for its path, too
    assert by_path.licence == voice.licence
    monkeypatch.delenv("COQUI_TOS_AGREED")
    with pytest.raises(BundleError, match="COQUI_TOS_AGREED=1"):
        xtts.load_voice("train/xtts_v2", reference="me.wav")
