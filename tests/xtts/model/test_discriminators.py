"""Discriminators: their losses, and the file in which a base brings them."""

import pytest
import torch

from xtts.model.config import ConfigError
from xtts.model.discriminators import (
    FILE,
    MAX_BYTES,
    WINDOW_SIZES,
    Discriminators,
    discriminator_loss,
    generator_losses,
    read_discriminators,
    write_discriminators,
)


def noise(seed: int, samples: int = 4800) -> torch.Tensor:
    return 0.1 * torch.randn(2, samples, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def few() -> Discriminators:
    torch.manual_seed(0)
    return Discriminators(2)


def test_they_learn_to_tell_a_recording_from_a_sound(few):
    recording = torch.sin(torch.arange(9600).view(2, -1) / 7.0)
    optimizer = torch.optim.AdamW(few.parameters(), lr=1e-2)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = discriminator_loss(few, recording, noise(1))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    # Undecided discriminators lose 1/2 each.
    assert losses[-1] < 1.0 < len(WINDOW_SIZES) / 2 < losses[0]
    adversarial, _ = generator_losses(few, recording, noise(1))
    assert adversarial > 0.5 * len(WINDOW_SIZES) > generator_losses(few, recording, recording)[0]


def test_a_vocoder_s_losses_move_the_sound_and_no_discriminator(few):
    sound = noise(1).requires_grad_(True)
    adversarial, matching = generator_losses(few, noise(0), sound)
    assert float(matching.detach()) > 0
    (adversarial + matching).backward()
    assert sound.grad is not None and float(sound.grad.abs().sum()) > 0
    assert all(weight.grad is None and weight.requires_grad for weight in few.parameters())
    assert float(generator_losses(few, noise(0), noise(0))[1]) == 0  # its own features


def test_a_base_brings_them_in_half_precision(few, tmp_path):
    assert read_discriminators(tmp_path) is None
    write_discriminators(tmp_path, few)
    critics = read_discriminators(tmp_path)
    assert critics is not None and critics.channels == 2
    for name, tensor in few.state_dict().items():
        assert torch.equal(critics.state_dict()[name], tensor.half().float())


def test_the_file_is_small_or_refused(tmp_path):
    write_discriminators(tmp_path, Discriminators(16))
    assert (tmp_path / FILE).stat().st_size < 300_000
    with pytest.raises(ConfigError, match=r"bytes with 48 channels; at most 1,500,000"):
        write_discriminators(tmp_path, Discriminators(48))
    assert (tmp_path / FILE).stat().st_size < MAX_BYTES


@pytest.mark.parametrize("damage", [b"", b"x" * 64])
def test_a_damaged_file_is_named(few, tmp_path, damage):
    write_discriminators(tmp_path, few)
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:1000] if not damage else damage)
    with pytest.raises(ConfigError, match=FILE):
        read_discriminators(tmp_path)
