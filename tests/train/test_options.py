"""Whole runs with each option: interrupted ones end like others, and saved weights can speak."""

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.installed import has
from tests.train.test_run import Workshop, assert_same_end, content, losses
from train import epoch_end
from train.checkpointing.checkpoints import Checkpoints
from train.evaluation.conclusion import keep_best_blend
from train.resilience.stopping import StopRequest
from xtts.model.config import ModelConfig
from xtts.model.gpt import from_coqui
from xtts.model.loading import load_gpt, read_tensors
from xtts.voices.evaluation_file import Verdict, read_evaluation, write_evaluation
from xtts.voices.run_folder import RunFolder

OPTIONS = {
    "lora": {"LORA_RANK": "4"},
    "averages": {},
    "both": {"LORA_RANK": "4"},
    **({"eight bits": {"OPTIMIZER": "adamw8bit"}} if has("eight_bit") else {}),
    "frozen": {},
    "recomputed": {"GRADIENT_CHECKPOINTING": "on"},
    "patience": {"EARLY_STOPPING": "9"},
}
# The base's recommendations.
ADVICE = {
    "averages": {"ema_decay": 0.9},
    "both": {"ema_decay": 0.9},
    "frozen": {"freeze": "conditioning_*,text_head"},
}
EPOCHS = 2


def in_two_goes(workshop: Workshop, name: str, monkeypatch, **settings: str):
    """A run that ends after the first epoch as by a signal, and is resumed."""
    with monkeypatch.context() as patched:

        def agreed(stop: StopRequest, *_: object) -> bool:
            if RunFolder(workshop.folder / name).epochs() == [1]:
                stop.signal_number = 15
            return stop.requested

        patched.setattr(StopRequest, "agreed", agreed)
        workshop.run(name, EPOCHS, expect=143, **settings)
    return workshop.run(name, EPOCHS, **settings)


IN_MAKE_TEST = ("lora",)


@pytest.mark.parametrize(
    "option",
    [pytest.param(option, marks=() if option in IN_MAKE_TEST else pytest.mark.slow) for option in OPTIONS],
)
def test_in_two_goes_as_in_one(workshop, monkeypatch, tmp_path, option):
    workshop = with_advice(workshop, tmp_path, **ADVICE.get(option, {}))
    settings = {"BATCH_SECONDS": "3.6", "LEARNING_RATE": "1e-3"} | OPTIONS[option]
    straight = workshop.run(f"{option} straight", EPOCHS, **settings)
    resumed = in_two_goes(workshop, f"{option} resumed", monkeypatch, **settings)
    assert_same_end(straight, resumed, EPOCHS)


def test_checkpoints_with_adapters_and_averages_are_plain_checkpoints(workshop, tmp_path):
    """Names and shapes are the base model's, without a trace of adapters."""
    workshop = with_advice(workshop, tmp_path, **ADVICE["both"])
    run = workshop.run("plain", 1, **OPTIONS["both"], LEARNING_RATE="1e-2")
    saved = content(run.checkpoint_path(1))["model"]
    base = {n: t for n, t in read_tensors(workshop.base / "model.pth").items() if n in saved}
    assert {n: t.shape for n, t in saved.items()} == {n: t.shape for n, t in base.items()}
    moved = {n for n, tensor in saved.items() if not torch.equal(tensor, base[n].float())}
    assert moved and all(n.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")) for n in moved)
    gpt = load_gpt(read_tensors(workshop.base / "model.pth"), ModelConfig.read(workshop.base))
    gpt.load_state_dict(from_coqui(saved))


def with_advice(workshop: Workshop, folder: Path, **advice: object) -> Workshop:
    """A workshop with the same base plus recommendations."""
    base = shutil.copytree(workshop.base, folder / "base")
    config = json.loads((base / "config.json").read_text())
    config["sotaque"].setdefault("training", {}).update(advice)
    (base / "config.json").write_text(json.dumps(config))
    return Workshop(base, folder / "workshop")


def learned(workshop: Workshop, name: str, **settings: str) -> dict[str, torch.Tensor]:
    run = workshop.run(name, 1, LEARNING_RATE="1e-2", **settings)
    return content(run.checkpoint_path(1))["model"]


def test_what_the_base_recommends_stays_frozen(workshop, tmp_path):
    advised = with_advice(workshop, tmp_path, freeze="conditioning_*")
    before = read_tensors(advised.base / "model.pth")
    listening = {part for part in before if part.startswith("gpt.conditioning_")}
    after = learned(advised, "advised")
    moved = {part for part, now in after.items() if not torch.equal(now, before[part].float())}
    assert moved and not moved & listening


@pytest.mark.slow
def test_the_average_that_the_base_recommends_is_made(workshop, tmp_path, caplog):
    advised = with_advice(workshop, tmp_path, ema_decay=0.75)
    as_advised = learned(advised, "advised")
    assert "average of the weights: decay 0.75 (recommended by the base model)" in caplog.text
    none = learned(workshop, "without")
    assert not all(torch.equal(tensor, none[name]) for name, tensor in as_advised.items())


def test_a_run_that_is_no_longer_better_ends_early_and_says_so(workshop, monkeypatch, caplog):
    """Each epoch is worse than the previous one."""
    epochs = itertools.count(1.0)
    monkeypatch.setattr(epoch_end, "mean_losses", lambda *_: {"text_loss": 1.0, "audio_loss": next(epochs)})
    worse = {"EARLY_STOPPING": "2", "SAVE_EVERY": "10", "BATCH_SECONDS": "3.6"}
    run = workshop.run("early", 8, **worse)
    validated = [loss for loss in losses(run) if loss[0] == "validation"]
    assert len(validated) == 3
    assert run.epochs() == [3], "the last one is saved, whatever SAVE_EVERY says"
    assert "EARLY_STOPPING=2" in caplog.text
    before = losses(run)
    workshop.run("early", 8, **worse)
    assert losses(run) == before
    workshop.run("early", 4, **{**worse, "EARLY_STOPPING": "off"})
    assert len(losses(run)) > len(before)


def test_advice_that_fits_no_weight_is_refused_before_the_first_step(workshop, capfd, tmp_path):
    with_advice(workshop, tmp_path, freeze="vocoder").run("refused", 1, expect=2)
    assert "`freeze` in config.json has 'vocoder'" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("option", ["lora", "averages", "both"])
def test_a_blend_is_of_the_weights_that_the_epoch_was_saved_with(workshop, tmp_path, option):
    """The blend uses the spoken weights: with merged adapters, and averaged."""
    workshop = with_advice(workshop, tmp_path, **ADVICE.get(option, {}))
    run = workshop.run(
        f"{option} blended",
        1,
        **OPTIONS[option],
        LEARNING_RATE="1e-2",
        SAMPLE_DEVICE="cpu",
        SAMPLE_TEXT="One.",
        BLEND="0.5",
    )
    judged = read_evaluation(run.evaluation_file).find("blend", 1, 0.5)
    epoch = run.verified(1)
    assert judged.checkpoint_sha256 == epoch.sha256
    # The model says nothing and the base wins, so the verdict for the blend is set by hand.
    verdict = Verdict("blend", 1, 0.5, "", "", False, epoch.sha256)
    write_evaluation(run.evaluation_file, replace(read_evaluation(run.evaluation_file), verdict=verdict))
    keep_best_blend(checkpoints := Checkpoints(run, None), verdict, workshop.base)
    checkpoints.publish_best()
    blended = content(run.best_blend)["model"]
    base = read_tensors(workshop.base / "model.pth")
    saved = content(run.checkpoint_path(1))["model"]
    assert blended.keys() == saved.keys()
    for name, tensor in blended.items():
        assert torch.allclose(tensor, (base[name].float() + saved[name]) / 2, atol=1e-6)
    assert any(not torch.equal(tensor, saved[name]) for name, tensor in blended.items())
    assert run.best_weights().weights == run.best_blend
