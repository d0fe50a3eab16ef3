"""Coqui's `Xtts` loads a voice with an added language, strictly, and speaks with it."""

from pathlib import Path

import pytest

from extras.languages.extension import write
from extras.languages.extension_plan import plan_of
from tests.extras.languages.languages import make_greek
from tests.peers.test_export import (
    SMALL,
    check_spoken,
    check_weights,
    coquis_base,
    files_of,
    loaded_by_coqui,
    perturbed,
)
from train.export import export
from train.settings import TrainSettings
from xtts.model.config import ModelConfig
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec


@pytest.mark.slow
def test_coqui_speaks_a_language_that_was_added_with_the_line_of_the_documentation(tmp_path):
    """docs/languages.md: Coqui's tokenizer knows only the languages of XTTS-v2."""
    base = coquis_base(tmp_path / "base", SMALL)
    clips = make_greek(tmp_path / "greek")
    extended = tmp_path / "base-el"
    write(plan_of(TrainSettings(dataset_dir=clips, language="el"), base), extended)
    config = ModelConfig.read(extended)
    checkpoint = perturbed(extended, tmp_path / "output", config.gpt.text_ids)
    export(files_of(checkpoint, extended), voice := tmp_path / "voice")
    xtts = loaded_by_coqui(voice)
    check_weights(xtts, checkpoint, extended)
    page = (Path(__file__).parents[3] / "docs" / "languages.md").read_text(encoding="utf-8")
    (line,) = (line for line in page.splitlines() if line.startswith("model.tokenizer."))
    text = "Καλημέρα, τι κάνεις;"
    with pytest.raises(NotImplementedError):
        xtts.tokenizer.encode(text, "el")
    exec(line, {"model": xtts})
    ours = load_voice(VoiceSpec(str(voice), tos_agreed=True)).model.tokenizer.encode(text, "el")
    assert xtts.tokenizer.encode(text, "el") == ours and max(ours) >= config.extensions[0].first_id
    check_spoken(xtts, config.gpt.width, text, "el")
