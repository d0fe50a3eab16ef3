"""Preparing a voice: the work done before the first request."""

import gc
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from machine.devices import selection
from tests.machines import GPUS, machine
from tests.models import tiny_voice
from tests.xtts.inference.crowds import batcher_of, sounds_of
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model import loading
from xtts.model.vocoder import Vocoder
from xtts.voices.loading import compute_config, load_voice
from xtts.voices.run_folder import read_checkpoint
from xtts.voices.voice_files import VoiceSpec, find_voice


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_voice(tmp_path / "base")


@pytest.fixture
def widths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The width of each input to any vocoder, in order."""
    seen, sound = list[int](), Vocoder.sound

    def spied(self: Vocoder, steps: torch.Tensor, speaker: torch.Tensor) -> torch.Tensor:
        seen.append(steps.shape[2])
        return sound(self, steps, speaker)

    monkeypatch.setattr(Vocoder, "sound", spied)
    return seen


@pytest.mark.parametrize("low_memory", [False, True])
def test_the_first_request_finds_the_vocoder_warm(folder, widths, low_memory):
    """Code is compiled for each width, 1.5 s at full size: not during a request."""
    standing = load_voice(VoiceSpec(str(folder)), ComputeConfig(low_memory=low_memory, threads=1), {})
    standing.prepare()
    assert standing.own_voice is not None
    made, model = set(widths), standing.model
    assert set(model.vocoder.widths) < made
    widths.clear()
    ask = SynthesisRequest("hello there", "en", max_codes=60)
    sounds_of(batcher_of(standing, 1), standing.own_voice, {"one": ask})
    assert widths and set(widths) <= made


@pytest.mark.parametrize("state", [name for name, gpu in GPUS.items() if gpu.works])
def test_a_gpu_is_set_up_as_its_check_says(folder, monkeypatch, state):
    """By the same rule as for samples and the service: cuDNN off, mels on the CPU."""
    monkeypatch.setattr(selection, "look_at_machine", lambda: machine(GPUS[state]))
    files = find_voice(VoiceSpec(str(folder)))
    config, reason = compute_config(files, "auto", "fp32", guard=False, threads=3)
    place = selection.choose_place(machine(GPUS[state]), "auto")
    assert config == ComputeConfig(precision="fp32", guard=False, threads=3).at(place)
    assert config.cudnn is not ("right without cuDNN" in state) and reason == place.reason
    assert (config.device, config.mel_device) == ("cuda:0", "cpu" if state == "fft" else "cuda:0")


def test_a_gpu_that_cannot_speak_leaves_the_cpu(folder, monkeypatch):
    monkeypatch.setattr(selection, "look_at_machine", lambda: machine(GPUS["hang"]))
    config, reason = compute_config(find_voice(VoiceSpec(str(folder))), "auto", "auto")
    assert config == ComputeConfig() and "hung" in reason


def test_whoever_opens_a_voice_has_cudnn_and_threads_as_asked(folder, monkeypatch):
    told: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    monkeypatch.setattr(torch.backends.cudnn, "enabled", True)
    load_voice(VoiceSpec(str(folder)))
    assert torch.backends.cudnn.enabled and not told
    load_voice(VoiceSpec(str(folder)), ComputeConfig(threads=2, cudnn=False))
    assert not torch.backends.cudnn.enabled and told == [2]
    # The next voice does not switch it on again.
    load_voice(VoiceSpec(str(folder)))
    assert not torch.backends.cudnn.enabled


@pytest.mark.parametrize("guard", [False, True])
def test_speech_is_judged_where_that_is_asked_for(base_folder, guard):
    voice = load_voice(VoiceSpec(str(base_folder)), ComputeConfig(guard=guard))
    assert (voice.guard(SynthesisRequest("hello there", "en")) is not None) is guard


def test_an_opened_voice_does_not_keep_its_checkpoint_mapped(folder):
    """A run may delete an old checkpoint; its space is free once no process maps it."""
    path = folder / "checkpoint_epoch_1.pt"
    weights = loading.read_tensors(folder / "model.pth")
    gpt = {name: tensor.clone() for name, tensor in weights.items() if name.startswith("gpt.")}
    torch.save({"model": gpt, "provenance": {}}, path)
    files = find_voice(VoiceSpec(str(folder)))
    files = replace(files, weights=path, state=read_checkpoint(path).model)
    assert str(path) in Path("/proc/self/maps").read_text()
    voice = load_voice(files)
    del files
    gc.collect()
    assert voice.own_voice is not None and str(path) not in Path("/proc/self/maps").read_text()
