"""The disk space of a whole run: the most checkpoints that it has at once."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from train.checkpointing.disk_space import decoder_bytes, max_checkpoints, save_bytes
from train.settings import TrainSettings
from xtts.model.config import ModelConfig
from xtts.model.gpt import from_coqui
from xtts.model.loading import read_tensors


@pytest.mark.parametrize(
    ("keep", "saved", "saves", "checkpoints"),
    [
        (3, 0, 20, 6),  # three kept, the best, its blend and the one being written
        (1, 0, 20, 4),
        (None, 0, 20, 21),
        (3, 0, 1, 2),
        (3, 0, 2, 3),
        (3, 4, 20, 2),
        (3, 2, 18, 4),
        (3, 9, 20, 2),  # KEEP_CHECKPOINTS was higher before
    ],
)
def test_the_disk_at_its_fullest(keep, saved, saves, checkpoints):
    settings = TrainSettings(keep_checkpoints=keep)
    assert max_checkpoints(settings, saved, saves) == checkpoints
    settings = replace(settings, blend="off")
    assert max_checkpoints(settings, saved, saves) == checkpoints - 1


@pytest.mark.parametrize(("optimizer", "decay", "state_bytes"), [("adamw", None, 8), ("adamw", 0.99, 16)])
def test_a_trainer_state_with_averaged_weights_takes_twice_the_space(
    base_folder, optimizer, decay, state_bytes
):
    """Two float32 of each weight, and two more with `ema_decay`."""
    config = ModelConfig.read(base_folder)
    config = replace(config, training=replace(config.training, ema_decay=decay))
    context: Any = SimpleNamespace(base=base_folder, config=config)
    weights = sum(one.numel() for one in from_coqui(read_tensors(base_folder / "model.pth")).values())
    found = save_bytes(TrainSettings(optimizer=optimizer), context)
    assert found == (4 * weights, state_bytes * weights)


def test_a_decoder_s_state_takes_four_times_the_decoder_and_the_discriminators(base_folder):
    """A run of the demo announced 151 MB and took 822, most of them decoders."""
    context: Any = SimpleNamespace(base=base_folder, config=ModelConfig.read(base_folder))
    decoder, state = decoder_bytes(context)
    weights = [
        tensor
        for name, tensor in read_tensors(base_folder / "model.pth").items()
        if name.startswith("hifigan_decoder.waveform_decoder.")
    ]
    assert decoder == sum(tensor.nbytes for tensor in weights)
    assert 4 * decoder < state < 4 * decoder + 3_000_000
