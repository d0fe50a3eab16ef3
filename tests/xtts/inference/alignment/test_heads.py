"""Heads that follow the text are measured and stored; a voice without any says so."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from tests.models import tiny_base
from tests.xtts.inference.alignment.attention_rows import SPOKEN, rows, whole
from xtts.inference.alignment import heads
from xtts.inference.alignment.heads import choose_heads
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec


def spoken(seed: int, **sharpness: float):
    close = {(0, int(name[1:])): rows(whole(), sharp, seed) for name, sharp in sharpness.items()}
    anywhere = np.random.default_rng(seed).dirichlet(np.ones(len(SPOKEN)), len(whole()))
    return {**close, (1, 0): anywhere}, SPOKEN


def test_the_heads_that_follow_are_chosen_the_best_first_and_at_most_three():
    utterances = [spoken(seed, h0=0.7, h1=0.95, h2=0.9, h3=0.85) for seed in range(3)]
    assert choose_heads(utterances) == ((0, 1), (0, 2), (0, 3))
    assert choose_heads([spoken(seed) for seed in range(3)]) == ()


def test_measured_heads_are_kept_and_not_measured_again(tmp_path, monkeypatch):
    folder, asked = unnamed_weights(tmp_path), []

    def measure(*_):
        asked.append(1)
        return ((0, 1), (1, 0))

    monkeypatch.setattr(heads, "measure", measure)
    caching = ComputeConfig(precision="fp32", latents_folder=tmp_path / "kept")
    for compute, times in ((caching, 1), (caching, 1), (ComputeConfig(precision="fp32"), 2)):
        assert load_voice(VoiceSpec(str(folder)), compute).heads == ((0, 1), (1, 0))
        assert len(asked) == times


def test_a_start_says_that_no_head_follows_the_text_also_when_it_was_measured_before(
    tmp_path, monkeypatch, caplog
):
    folder = unnamed_weights(tmp_path)
    monkeypatch.setattr(heads, "measure", lambda *_: ())
    caching = ComputeConfig(precision="fp32", latents_folder=tmp_path / "kept")
    for _ in range(2):
        caplog.clear()
        assert load_voice(VoiceSpec(str(folder)), caching).heads == ()
        assert "No attention head of this model follows the text" in caplog.text


def unnamed_weights(tmp_path: Path) -> Path:
    """A model whose config.json does not say that its weights are random."""
    folder = tiny_base(tmp_path / "voice", coqui_vocoder=True)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del config["sotaque"]["weights"]
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.mark.parametrize("told", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_random_weights_in_the_published_layout_follow_nothing_and_say_so(
    tmp_path, caplog, monkeypatch, told
):
    """All names of a published file, few layers. told: config.json calls the weights random."""
    folder = unnamed_weights(tmp_path)
    if told:
        folder = tiny_base(tmp_path / "told", coqui_vocoder=True)
    compute = ComputeConfig(precision="fp32", latents_folder=tmp_path / "kept")
    voice = load_voice(VoiceSpec(str(folder)), compute)
    with caplog.at_level(logging.INFO):
        assert voice.heads == ()
    assert "o attention head" in caplog.text and "follows the text" in caplog.text
    assert (tmp_path / "kept").exists() != told
    monkeypatch.setattr(type(voice.model.config.gpt), "max_codes", property(lambda _: 40))
    # It never stops, which the guard reports without attention.
    request = SynthesisRequest("one two.", "en")
    guard = voice.guard(request)
    assert guard is not None and guard.heads == ()
    guard.retries = 0
    sound = voice.synthesize_guarded(request, guard)
    (piece,) = guard.pieces
    assert (piece.aligned, piece.times, piece.faulty) == (False, None, True) and len(sound)
