"""Heads that follow the text are measured and stored; a voice without any says so."""

import json
import logging

import numpy as np
import pytest

from tests.models import tiny_base
from tests.xtts.inference.alignment.attention_rows import SPOKEN, rows, whole
from xtts.inference.alignment.heads import choose, kept_or_measured, path_of
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec


def spoken(seed: int, **sharpness: float):
    heads = {(0, int(name[1:])): rows(whole(), sharp, seed) for name, sharp in sharpness.items()}
    anywhere = np.random.default_rng(seed).dirichlet(np.ones(len(SPOKEN)), len(whole()))
    return {**heads, (1, 0): anywhere}, SPOKEN


def test_the_heads_that_follow_are_chosen_the_best_first_and_at_most_three():
    utterances = [spoken(seed, h0=0.7, h1=0.95, h2=0.9, h3=0.85) for seed in range(3)]
    assert choose(utterances) == ((0, 1), (0, 2), (0, 3))
    assert choose([spoken(seed) for seed in range(3)]) == ()


def test_what_was_measured_is_kept_and_not_measured_again(tmp_path, caplog):
    path, asked = path_of(tmp_path, "ab12"), []

    def measure():
        asked.append(1)
        return ((2, 1), (0, 3))

    assert kept_or_measured(path, measure) == kept_or_measured(path, measure) == ((2, 1), (0, 3))
    assert len(asked) == 1
    path.write_text('{"alignment_heads": [["one"]]}', encoding="utf-8")
    assert kept_or_measured(path, measure) == ((2, 1), (0, 3)) and len(asked) == 2
    assert "cannot be read" in caplog.text
    assert kept_or_measured(None, measure) and len(asked) == 3


@pytest.mark.parametrize("told", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_random_weights_in_the_published_layout_follow_nothing_and_say_so(
    tmp_path, caplog, monkeypatch, told
):
    """All names of a published file, few layers. told: config.json calls the weights random."""
    folder = tiny_base(tmp_path / "voice", coqui_vocoder=True)
    if not told:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        del config["sotaque"]["weights"]
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    compute = ComputeConfig(precision="fp32", latents_folder=tmp_path / "kept")
    voice = load_voice(VoiceSpec(str(folder)), compute)
    with caplog.at_level(logging.INFO):
        assert voice.heads == ()
    assert "o attention head" in caplog.text and "follows the text" in caplog.text
    kept = list((tmp_path / "kept").glob("alignment_heads/*.json"))
    assert len(kept) == (0 if told else 1)
    monkeypatch.setattr(type(voice.model.config.gpt), "max_codes", property(lambda _: 40))
    # It never stops, which the guard reports without attention.
    request = SynthesisRequest("one two.", "en")
    guard = voice.guard(request)
    assert guard is not None and guard.heads == ()
    guard.retries = 0
    sound = voice.synthesize_guarded(request, guard)
    (piece,) = guard.pieces
    assert (piece.aligned, piece.times, piece.faulty) == (False, None, True) and len(sound)
