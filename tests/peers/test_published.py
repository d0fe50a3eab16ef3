"""The published model.pth carries Coqui's pickled configuration and opens without Coqui.

By the classes' old path (`TTS.tts.models.xtts`, theirs at publication) and their new one, in a
process that has imported nothing from Coqui.
"""

import subprocess
import sys
import types

import pytest
import torch

OPEN = (
    "import sys; from pathlib import Path; from xtts.model.loading import read_tensors;"
    "print(sorted(read_tensors(Path(sys.argv[1])))); assert 'TTS' not in sys.modules"
)


@pytest.mark.parametrize("home", ["TTS.tts.models.xtts", "TTS.tts.configs.xtts_config"])
@pytest.mark.slow
def test_a_file_with_coquis_objects_in_it_opens_without_coqui(home, tmp_path, monkeypatch):
    from TTS.config.shared_configs import BaseDatasetConfig
    from TTS.tts.configs import xtts_config

    config = xtts_config.XttsConfig(languages=["en", "pt"], datasets=[BaseDatasetConfig()])
    moved = types.ModuleType(home)
    for name in ("XttsArgs", "XttsAudioConfig"):
        kind = getattr(xtts_config, name)
        monkeypatch.setattr(kind, "__module__", home)
        setattr(moved, name, kind)
    if home != xtts_config.__name__:
        monkeypatch.setitem(sys.modules, home, moved)
    path = tmp_path / "model.pth"
    torch.save({"config": config, "model": {"xtts.gpt.weight": torch.zeros(2)}}, path)
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(path)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "['gpt.weight']\n", done.stderr


@pytest.mark.slow
def test_anything_else_in_it_is_refused(tmp_path):
    path = tmp_path / "model.pth"
    torch.save({"config": types.SimpleNamespace(a=1), "model": {}}, path)
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "cannot be read as model weights" in done.stderr
