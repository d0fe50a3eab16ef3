"""Parts that learn nothing, by name; and what is said of a name that is none."""

import pytest

from tests.train.test_learner import a_batch, a_learner, weights
from train.optim.freezing import FreezeError, chosen, freeze, patterns
from train.optim.lora import LoraShape
from train.optim.trainable import TrainableParts
from train.trainer import train_step
from xtts.model.config import TrainingAdvice


def test_what_a_pattern_fits_stays_and_the_rest_learns():
    learner = a_learner(learning=TrainableParts(freeze=("conditioning_*", "gpt.h.0", "*.bias")))
    before = weights(learner)
    for seed in range(2):
        train_step(learner, a_batch(seed))
    still = {name for name, now in learner.gpt.state_dict().items() if now.equal(before[name])}
    wanted = {
        name
        for name in before
        if name.startswith(("conditioning_", "gpt.h.0.")) or name.endswith(".bias")
    }
    assert still == wanted


def test_frozen_weights_take_no_state():
    learner = a_learner(learning=TrainableParts(freeze=("gpt",)))
    train_step(learner, a_batch())
    frozen = {id(p) for name, p in learner.gpt.named_parameters() if name.startswith("gpt.")}
    assert not any(id(p) in frozen for p in learner.optimizer.state)


@pytest.mark.parametrize(
    ("glob", "words"),
    [("text_embeding", "text_embedding"), ("gpt.h.1.atn", r"gpt\.h\.1\.attn"),
     ("vocoder", "The parts are .*mel_head")],
)  # fmt: skip
def test_a_pattern_that_fits_nothing_is_refused_with_the_names_near_it(glob, words):
    with pytest.raises(FreezeError, match=f"'{glob}', which fits no weight.*{words}") as raised:
        freeze(a_learner().gpt, (glob,))
    assert raised.value.exit_code == 2


def test_a_layer_number_is_not_the_beginning_of_another():
    gpt = a_learner().gpt
    assert freeze(gpt, ("gpt.h.1",)) == sum(p.numel() for p in gpt.gpt.h[1].parameters())


def test_everything_cannot_be_frozen():
    with pytest.raises(FreezeError, match="nothing would learn"):
        freeze(a_learner().gpt, ("*",))


def test_adapters_freeze_everything_already():
    with pytest.raises(FreezeError, match="do not go together"):
        a_learner(learning=TrainableParts(freeze=("gpt",), lora=LoraShape(2, 4)))


def test_patterns_are_parted_at_commas():
    assert patterns(" a.*, b ,,") == ("a.*", "b")


@pytest.mark.parametrize(
    ("setting", "with_adapters", "wanted"),
    [
        (None, False, (("conditioning_*", "text_*"), "recommended by the base model")),
        (None, True, ((), "nothing is to be")),
        ("gpt.h.0", False, (("gpt.h.0",), "FREEZE")),
        ("none", False, ((), "FREEZE")),
    ],
)
def test_a_setting_goes_before_the_advice(setting, with_adapters, wanted):
    advice = TrainingAdvice(freeze="conditioning_*, text_*")
    assert chosen(setting, advice, with_adapters=with_adapters) == wanted


def test_without_advice_nothing_is_frozen():
    assert chosen(None, TrainingAdvice(), with_adapters=False)[0] == ()
