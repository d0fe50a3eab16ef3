"""Coqui's `Xtts` loads a distilled voice, strictly, and speaks with it."""

from dataclasses import replace

import pytest
import torch

from extras.distil.student import new_student
from tests.peers.test_export import SMALL, check_spoken, coquis_base, files_of, loaded_by_coqui, perturbed
from train.export import new_export
from xtts.model.config import ModelConfig
from xtts.model.gpt import GPT, from_coqui, to_coqui
from xtts.voices import bundle


@pytest.mark.slow
def test_a_distilled_voice_speaks_in_coqui(tmp_path):
    base = coquis_base(tmp_path / "base", SMALL)
    config = ModelConfig.read(base)
    checkpoint = perturbed(base, tmp_path / "output", config.gpt.text_ids)
    voice, to = files_of(checkpoint, base), tmp_path / "voice"
    teacher = GPT(config.gpt)
    teacher.load_state_dict(from_coqui(voice.state))
    state = to_coqui(new_student(teacher, (0,)).state_dict())
    smaller = replace(config, gpt=replace(config.gpt, layers=1), languages=("en",))
    with new_export(replace(voice, state=state), to, replace(smaller, alignment_heads=None)):
        pass
    xtts = loaded_by_coqui(to)
    found = xtts.state_dict()
    assert len(xtts.gpt.gpt.h) == 1 and xtts.config.languages == ["en"]
    assert all(torch.equal(found[name], tensor) for name, tensor in state.items())
    check_spoken(xtts, config.gpt.width)
    assert bundle.verify(to).speaks_in_coqui
