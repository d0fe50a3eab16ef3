"""A voice that began with Coqui's normaliser is served with it, and a newer one with ours. Slow:
two services with a model of all languages.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.api.conftest import QUICK, running, settings_in
from tests.api.sounds import tone_reference
from tests.models import ALL_CHARACTERS, ALL_LANGUAGES, tiny_base
from xtts.model.config import naming_normalizer
from xtts.text.normalization.registry import COQUI

pytestmark = pytest.mark.slow

# Coqui's rules for Czech know no ordinals, and raise.
ORDINAL = "5. května"


@pytest.mark.parametrize(("old", "status"), [(True, 422), (False, 200)])
def test_an_old_voice_keeps_coquis_normaliser(tmp_path: Path, old: bool, status: int) -> None:
    voice = tiny_base(tmp_path / "voice", languages=ALL_LANGUAGES, characters=ALL_CHARACTERS)
    tone_reference(voice)
    if old:
        config = voice / "config.json"
        found = naming_normalizer(json.loads(config.read_text()), COQUI)
        config.write_text(json.dumps(found))
    settings = settings_in(tmp_path, voice=str(voice))
    with running(settings, limits=replace(QUICK, deadline=60.0, hang=60.0), threads=1) as service:
        answer = service.say(ORDINAL, language="cs")
        assert answer.status_code == status, answer.text
        if old:
            assert answer.json()["code"] == "refused" and "5." in answer.json()["detail"]
        assert service.say("pátého května", language="cs").status_code == 200
