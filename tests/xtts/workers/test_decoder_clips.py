"""Clips that a decoder learns from are computed once per process."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.datasets import make_dataset
from xtts.inference.voice import read_reference, voice_from_reference
from xtts.model import loading
from xtts.model.loading import load_model, read_tensors
from xtts.workers import decoder_clips
from xtts.workers.decoder_clips import ClipCache
from xtts.workers.requests import TranscribedClip, no_progress


@pytest.fixture
def clips(tmp_path: Path) -> list[TranscribedClip]:
    data = make_dataset(tmp_path / "data", clips=3, seconds=1.3)
    return [TranscribedClip(path, "one two", "en") for path in sorted(data.rglob("*.wav"))]


def test_latents_are_computed_when_drawn_and_again_for_other_weights(base_folder, clips, monkeypatch):
    model = load_model(base_folder)
    voice = voice_from_reference(model, read_reference(model.config, clips[0].recording))
    computed, loaded, forced = [], [], decoder_clips.forced_latents

    def counted(*arguments):
        computed.append(arguments)
        return forced(*arguments)

    def new_dvae():
        loaded.append(1)
        return loading.load_dvae(base_folder, model.config)

    monkeypatch.setattr(decoder_clips, "forced_latents", counted)
    cache = ClipCache()

    def spoken(model=model, voice=voice, some=clips):
        return cache.spoken_clips(model, voice, new_dvae, some, no_progress)

    first = spoken()
    assert len(computed) == 1 and len(first) == 3  # a probe, which tells weights apart
    latents = first[1].full_row.latents
    assert latents.shape[:2] == (1, len(first[1].sound.codes)) and len(computed) == 2
    assert torch.equal(spoken()[1].full_row.latents, latents) and len(computed) == 3
    # First a packed matrix changes, then a table of the state dictionary.
    state, name = read_tensors(base_folder / "model.pth"), "gpt.gpt.h.0.mlp.c_fc.weight"
    model.load_gpt({**state, name: state[name] + 0.01})
    matrix = spoken()[1].full_row.latents
    assert not torch.equal(matrix, latents) and len(computed) == 5
    with torch.no_grad():
        model.gpt.mel_embedding.weight[first[1].sound.codes[0]] += 1
    assert not torch.equal(spoken()[1].full_row.latents, matrix)
    other = replace(voice, latents=voice.latents + 1)
    assert not torch.equal(spoken(voice=other)[1].full_row.latents, latents)
    assert loaded == [1]  # the codes stay
    spoken(some=clips[1:])
    spoken()
    assert loaded == [1, 1]  # only the clips of the last request are kept


def test_clips_that_are_too_short_are_left_out(base_folder, tmp_path):
    model = load_model(base_folder)
    data = make_dataset(tmp_path / "short", clips=2, seconds=1.06)  # 23 codes are 1.068 s
    some = [TranscribedClip(path, "one", "en") for path in sorted(data.rglob("*.wav"))]
    voice = voice_from_reference(model, read_reference(model.config, some[0].recording))
    dvae = loading.load_dvae(base_folder, model.config)
    spoken = ClipCache().spoken_clips(model, voice, lambda: dvae, some, no_progress)
    assert len(spoken) == 1 and len(spoken[0].sound.codes) == decoder_clips.ROW_CODES


def test_a_recording_that_became_unreadable_costs_only_itself(base_folder, clips, caplog):
    model = load_model(base_folder)
    voice = voice_from_reference(model, read_reference(model.config, clips[0].recording))
    clips[1].recording.write_bytes(b"RIFF")
    dvae = loading.load_dvae(base_folder, model.config)
    spoken = ClipCache().spoken_clips(model, voice, lambda: dvae, clips, no_progress)
    assert len(spoken) == 2
    assert "The decoder learns without a clip." in caplog.text and clips[1].recording.name in caplog.text
