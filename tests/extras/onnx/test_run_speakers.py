"""The speakers of a run in its ONNX voice."""

import pytest

import xtts
from extras.onnx.export import exporter
from tests.models import tiny_base
from tests.train.sampling.test_run_speakers import data_of, kept, with_a_whisper
from tests.train.test_export import perturbed
from xtts.voices.run_folder import RunFolder
from xtts.voices.voice_files import VoiceSpec, find_voice


@pytest.mark.slow
def test_an_exported_voice_speaks_as_each_of_them(tmp_path):
    """From stored latents."""
    base = tiny_base(tmp_path / "base")
    checkpoint = perturbed(base, tmp_path / "output")
    names = kept(RunFolder(tmp_path / "output"), data_of(with_a_whisper(tmp_path / "data"), base), base)
    voice = find_voice(VoiceSpec(str(checkpoint), base=str(base)))
    to = tmp_path / "voice"
    for _ in range(2):  # the second one replaces the first
        exporter.export(voice, to, ("fp32",))
    opened = xtts.load_voice(to)
    assert list(opened.files.speakers) == names and opened.files.own_name == "anna"
    assert len(xtts.synthesize(opened, "[voice:ben]one two", seed=2))
    assert len(xtts.synthesize(xtts.load_voice(to, speaker="ben"), "one two", seed=2))
