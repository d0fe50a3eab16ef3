"""An added language in Python, with ONNX Runtime and over the service."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from api.app import child_options
from tests.api.conftest import NO_GPU, QUICK, running, settings_in
from tests.extras.languages.languages import GREEK, greek_voice
from tests.models import as_onnx
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec

LANGUAGES = ("en", "pt", "el")


@pytest.fixture(scope="module")
def greek(tmp_path_factory) -> Path:
    """A tiny voice with Greek added."""
    return greek_voice(tmp_path_factory.mktemp("speaking"))


@pytest.mark.parametrize("backend", ["torch", pytest.param("onnx", marks=pytest.mark.slow)])
def test_a_loaded_voice_lists_the_language_and_speaks_it(greek, tmp_path, backend):
    voice = greek
    if backend == "onnx":
        voice = as_onnx(greek, tmp_path / "onnx", "fp32")
    where = ComputeConfig(precision="fp32", backend=backend)
    spec = VoiceSpec(str(voice), reference=greek / "reference.wav" if backend == "torch" else None)
    loaded = load_voice(spec, where)
    assert loaded.languages == LANGUAGES
    spoken = loaded.synthesize(SynthesisRequest(GREEK[2], "el", max_codes=12))
    assert len(spoken) > 1_000 and np.isfinite(spoken).all()
    # With the new ids, not those of the language it was initialised from.
    ids = loaded.model.tokenizer.encode(GREEK[2], "el")
    assert max(ids) >= loaded.model.config.extensions[0].first_id
    other = loaded.synthesize(SynthesisRequest(GREEK[3], "el", max_codes=12))
    assert not np.array_equal(spoken[:1_000], other[:1_000])


@pytest.mark.slow
def test_the_service_lists_the_language_and_speaks_it(greek, tmp_path):
    settings = settings_in(tmp_path, voice=str(greek))
    how = replace(child_options(settings), look_at_machine=lambda: NO_GPU)
    patient = replace(QUICK, deadline_seconds=120.0, hang_seconds=60.0)
    with running(settings, how, patient, threads=1) as service:
        assert tuple(service.status()["languages"]) == LANGUAGES
        # Listed by its code: only the languages of XTTS-v2 have known names.
        named = {"English": "en", "Portuguese": "pt", "el": "el"}
        assert service.client.get("/languages").json() == {"languages": named}
        spoken = service.say("Καλημέρα.", language="el")
        assert spoken.status_code == 200, spoken.text
        refused = service.say("Добрий день.", language="uk")
        assert refused.status_code in (400, 422) and "en, pt, el" in refused.text
