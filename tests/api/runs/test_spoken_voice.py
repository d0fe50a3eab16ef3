"""`speak` without --voice takes the voice that the service serves."""

import asyncio
from pathlib import Path

import pytest

from api.app import build
from api.runs import promotion
from api.runs.promotion import Promotion
from tests.api.conftest import fake_child, settings_in
from tests.api.run_folders import candidate, sha256_of_epoch, write_blend, write_epoch, write_evaluated
from xtts.__main__ import main
from xtts.voices.run_folder import RunFolder
from xtts.voices.served_voice import served_voice


def nothing(_folder: Path, _voices: Path) -> None:
    """No run."""


def epochs(folder: Path, _voices: Path) -> None:
    write_epoch(folder, 1, loss=1.0)
    write_epoch(folder, 2, loss=2.0)


def judged(folder: Path, voices: Path) -> None:
    epochs(folder, voices)
    best = candidate(folder, "epoch", 1, 1.0)
    write_evaluated(folder, best, best)


def blended(folder: Path, voices: Path) -> None:
    epochs(folder, voices)
    write_blend(folder, 2, 0.5)
    best = candidate(folder, "blend", 2, 0.5)
    write_evaluated(folder, best, candidate(folder, "epoch", 2, 1.0), best)


def promoted(folder: Path, voices: Path) -> None:
    judged(folder, voices)
    record = Promotion("current", 2, sha256_of_epoch(RunFolder(folder), 2))
    promotion.store(voices, record, RunFolder(folder).checkpoint_path(2))


@pytest.mark.parametrize("voice", [None, "best", "latest", "demo"])
@pytest.mark.parametrize("write", [nothing, epochs, judged, blended, promoted])
def test_speak_takes_the_weights_that_the_service_serves(tmp_path, write, voice):
    settings = settings_in(tmp_path, voice=voice)
    write(settings.output_dir, settings.voices_dir)
    follower = build(settings, fake_child(settings)).state.service.follower
    asyncio.run(follower.read_folders())
    name, why = served_voice(settings)
    best = RunFolder(Path(name)).best_weights() if Path(name).is_dir() else None
    served = Path(follower.choose_target().spec["name"])
    spoken = best.weights if best else Path(name)
    assert spoken is not None and why
    assert spoken.name == served.name
    assert spoken == served or spoken.read_bytes() == served.read_bytes()


def test_one_line_says_which_voice_speaks_and_why(tmp_path, monkeypatch, capsys):
    """A user who has trained hears it, or a message about that run; not the demo in silence."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VOICE", raising=False)
    monkeypatch.setenv("OUTPUT_DIR", str(tmp_path / "output"))
    words = ["speak", "Good morning.", "--out", "x.wav"]
    assert main([*words, "--show-text"]) == 0
    assert capsys.readouterr().out.startswith("Voice: demo (")
    write_epoch(tmp_path / "output", 1)
    main(words)  # the checkpoint of the test is a few bytes, so it is refused afterwards
    assert "Voice: " in (told := capsys.readouterr().out) and "checkpoint_epoch_1.pt" in told
