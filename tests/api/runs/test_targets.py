"""How a candidate of a run is opened.

test_preview and test_run_routes test over HTTP which candidates can speak.
"""

from pathlib import Path
from typing import Any

import pytest

from api.errors import APIError
from api.runs import targets
from api.runs.listing import RunSummary, read_runs
from tests.api.conftest import settings_in
from tests.api.run_folders import candidate, write_blend, write_epoch, write_evaluated
from tests.xtts.voices.adapters import adapter_of
from xtts.download.xtts_v2 import FilesError
from xtts.voices.base_models import BundleError
from xtts.voices.run_folder import RunFolder
from xtts.voices.voice_files import VoiceSpec, find_voice


@pytest.fixture
def run(tmp_path: Path) -> RunSummary:
    """A run with two epochs and two blends of the first, one of them the best."""
    folder = tmp_path / "output"
    for epoch in (1, 2):
        write_epoch(folder, epoch)
    write_blend(folder, 1, 0.5)
    best, other = (candidate(folder, "blend", 1, share) for share in (0.5, 0.75))
    write_evaluated(folder, best, best, other)
    return read_runs(folder)["current"]


@pytest.mark.parametrize(
    ("base_model", "base"), [("demo", None), ("xtts_v2", None), ("/models/mine", "/models/mine")]
)
def test_an_epoch_is_opened_with_its_own_weights_and_a_folder_as_its_base(tmp_path, run, base_model, base):
    settings = settings_in(tmp_path, base_model=base_model, pronunciations="p.tsv")
    target = targets.find_target(settings, run, "epoch_2")
    assert (target.run, target.candidate, target.epoch) == ("current", "epoch_2", 2)
    assert target.sha256 == run.epochs[2].sha256 and target.sha256[:8] in target.name
    spec = target.spec
    assert (spec["name"], spec["base"]) == (str(run.epochs[2].checkpoint), base)
    assert spec["pronunciations"] == "p.tsv"
    assert "pronunciations" not in targets.voice_at(settings_in(tmp_path), "demo").spec


def test_the_base_speaks_with_the_persons_recording(tmp_path, run):
    target = targets.find_target(settings_in(tmp_path), run, "base")
    assert target.spec["base_only"] is True and target.epoch == 0
    samples = RunFolder(tmp_path / "output").samples
    assert target.spec["reference"] == str(samples / "epoch_2_reference.wav")
    for recording in samples.glob("*_reference.wav"):
        recording.unlink()
    with pytest.raises(APIError) as caught:
        targets.find_target(settings_in(tmp_path), read_runs(tmp_path / "output")["current"], "base")
    assert (caught.value.status, caught.value.code) == (409, "no_checkpoint")


def test_of_the_blends_only_the_best_speaks(tmp_path, run):
    settings = settings_in(tmp_path)
    best = targets.best_target(settings, run)
    assert best is not None and best.candidate == "epoch_1_share_0.5"
    assert best.spec["name"] == str(RunFolder(tmp_path / "output").best_blend)
    for name, speaks in ((best.candidate, True), ("epoch_1_share_0.75", False)):
        assert (name in targets.speakable_targets(settings, run)) is speaks
    with pytest.raises(APIError) as caught:
        targets.find_target(settings, run, "epoch_1_share_0.75")
    assert (caught.value.status, caught.value.code) == (409, "no_checkpoint")


def test_the_service_asks_for_the_consent_to_xtts_v2_too(tmp_path):
    """For any voice that it is to serve."""
    folder = str(adapter_of("xtts_v2", tmp_path / "adapter"))

    def find(**given: Any) -> None:
        settings = settings_in(tmp_path, **given)
        find_voice(VoiceSpec(**targets.voice_at(settings, folder).spec))

    with pytest.raises(BundleError, match="COQUI_TOS_AGREED=1"):
        find()
    with pytest.raises(FilesError, match="elsewhere does not hold XTTS-v2"):
        find(coqui_tos_agreed=True, xtts_v2_dir=Path("elsewhere"))
