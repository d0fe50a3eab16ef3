"""BASE_MODEL=xtts_v2 from an empty folder: accepted terms, download, training, speech, export."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.file_server import Bad, Server, serving
from tests.models import tiny_base
from tests.published import publish_folder
from tests.train.test_run import Workshop
from train.__main__ import main
from xtts.download.xtts_v2 import REPOSITORY, REVISION, FilesError
from xtts.voices import bundle
from xtts.voices.base_models import BundleError
from xtts.voices.loading import load_voice
from xtts.voices.run_folder import RunFolder
from xtts.voices.voice_files import VoiceSpec

AT = f"/{REPOSITORY}/resolve/{REVISION}"


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tiny_base(tmp_path / "hub", coqui_vocoder=True), tmp_path)


@pytest.fixture
def server(workshop, monkeypatch) -> Iterator[Server]:
    """A hub with a tiny model in the published layout, with a vocoder of full size."""
    publish_folder(monkeypatch, workshop.base)
    with serving() as one:
        for path in workshop.base.iterdir():
            one.files[f"{AT}/{path.name}"] = path.read_bytes()
        yield one


@pytest.fixture
def arguments(server, workshop) -> list[str]:
    return workshop.arguments(
        "run",
        BASE_MODEL="xtts_v2",
        XTTS_V2_DIR=str(workshop.folder / "xtts_v2"),
        HF_ENDPOINT=server.url,
        NUM_EPOCHS="1",
        MAX_TRAIN_SAMPLES="4",
    )


def test_without_agreement_nothing_happens(arguments, server, tmp_path, capfd):
    assert main(arguments) == 2
    assert "set COQUI_TOS_AGREED=1 if you agree" in capfd.readouterr().err
    assert server.asked == []
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_it_is_downloaded_trained_and_exported(arguments, server, tmp_path, capfd):
    agreed = [*arguments, "--coqui-tos-agreed=1"]
    # The first download breaks off and its retry is refused: the run does not use the part.
    server.bad[f"{AT}/model.pth"] = [Bad(cut_after=300_000), Bad(status=403)]
    assert main(agreed) == 2
    assert "300,000 of" in capfd.readouterr().err
    assert not (tmp_path / "run" / "checkpoints").exists()

    assert main(agreed) == 0
    assert server.ranges(f"{AT}/model.pth")[-1] == "bytes=300000-"
    checkpoint = RunFolder(tmp_path / "run").checkpoints / "checkpoint_epoch_1.pt"
    found = torch.load(checkpoint, weights_only=True)
    assert found["provenance"]["base"]["name"] == "xtts_v2"

    asked = len(server.asked)
    to = tmp_path / "voice"
    export = ["export", f"--checkpoint={checkpoint}", f"--to={to}"]
    assert main([*export, *arguments]) == 2 and not to.exists()
    assert "checkpoint_epoch_1.pt is Coqui's XTTS-v2 or was made from it" in capfd.readouterr().err
    assert main([*export, *agreed]) == 0
    assert len(server.asked) == asked
    assert bundle.verify(to)

    # With a flipped bit in the base, the start is refused.
    weights = tmp_path / "xtts_v2" / "model.pth"
    damaged = bytearray(weights.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    weights.write_bytes(damaged)
    assert main(agreed) == 2
    assert "model.pth has SHA-256" in capfd.readouterr().err


def test_the_voice_of_such_a_run_asks_for_the_files_where_they_are_missing(arguments, tmp_path, monkeypatch):
    assert main([*arguments, "--coqui-tos-agreed=1"]) == 0
    monkeypatch.chdir(tmp_path)
    checkpoint = tmp_path / "run" / "checkpoints" / "checkpoint_epoch_1.pt"
    with pytest.raises(FilesError, match="into train/xtts_v2"):
        load_voice(VoiceSpec(str(checkpoint), tos_agreed=True))
    here = VoiceSpec(str(checkpoint), base=str(tmp_path / "xtts_v2"))
    with pytest.raises(BundleError, match="COQUI_TOS_AGREED=1"):
        load_voice(here)
    assert load_voice(replace(here, tos_agreed=True)).model.gpt
