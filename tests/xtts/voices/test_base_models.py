"""Which voices need consent to XTTS-v2's licence."""

import json
from pathlib import Path

import pytest

from machine.storage.checksums import sha256_of
from machine.storage.files import Written
from tests.models import tiny_voice
from tests.published import publish_folder
from xtts.download import xtts_v2 as published
from xtts.download.xtts_v2 import XTTS_V2
from xtts.model.config import CPML
from xtts.voices import bundle
from xtts.voices.base_models import BundleError, licence_in_brief
from xtts.voices.voice_files import VoiceSpec, find_voice


def coqui(folder: Path) -> None:
    """Writes config.json as Coqui's trainer does: without a licence."""
    config = json.loads((folder / "config.json").read_text())
    del config["sotaque"]["licence"]
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    "made_from", ["published weights", "no licence", "an export's licence", "a base's name", "a base's hash"]
)
def test_what_is_or_was_made_from_xtts_v2_asks_for_consent(tmp_path, monkeypatch, made_from):
    """It is recognised by its weights, its licence or its base, whatever its name."""
    folder = tiny_voice(tmp_path / "voice")
    licence, base = "Random weights, free to use", {"name": "demo", "sha256": "a" * 64}
    if made_from == "published weights":
        publish_folder(monkeypatch, folder)
    elif made_from == "no licence":
        coqui(folder)
    else:
        licence = CPML if made_from == "an export's licence" else licence
        if made_from == "a base's name":
            base["name"] = "xtts_v2"
        elif made_from == "a base's hash":
            base["sha256"] = XTTS_V2["model.pth"].sha256
        files = {
            name: Written(sha256_of(folder / name), (folder / name).stat().st_size)
            for name in ("config.json", "model.pth", "vocab.json")
        }
        bundle.write(folder, bundle.Bundle(files, base, "d", 1, licence, "", False))
    with pytest.raises(BundleError, match=r"voice is Coqui's XTTS-v2 or was made from it.*AGREED"):
        find_voice(VoiceSpec(str(folder)))
    assert find_voice(VoiceSpec(str(folder), tos_agreed=True)).folder == folder


def test_an_export_of_another_base_asks_nothing(tmp_path):
    folder = tiny_voice(tmp_path / "voice")
    files = {
        name: Written(sha256_of(folder / name), (folder / name).stat().st_size)
        for name in ("config.json", "model.pth", "vocab.json")
    }
    bundle.write(folder, bundle.Bundle(files, {"name": "demo", "sha256": "a"}, "d", 1, "MIT", "", False))
    assert find_voice(VoiceSpec(str(folder))).licence == "MIT"
    assert find_voice(VoiceSpec("demo")).folder.name == "demo"


@pytest.mark.parametrize(
    ("licence", "brief"),
    [
        (CPML, f"{CPML}, {published.LICENCE_URL}"),
        ("MIT; learned from what two voices said", "MIT, https://spdx.org/licenses/MIT.html"),
        ("free; learned from Ana", "free"),
        ("", ""),
    ],
)
def test_a_licence_in_brief_is_its_name_and_where_its_terms_are(licence, brief):
    assert licence_in_brief(licence) == brief
