"""What rounded weights cost, teacher-forced: the same clips for each kind, a scale a position."""

from pathlib import Path

import pytest
import torch

from benchmarks import rounding
from tests.models import tiny_base
from xtts.model.config import ModelConfig
from xtts.model.quantization import Int8Linear

TEXTS = ("the tin hat", "a thin tent in the inner", "another thin hat", "ten tents")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, float]]:
    base = tiny_base(tmp_path_factory.mktemp("base") / "tiny")
    drawn = torch.Generator().manual_seed(0)
    clips = [
        (0.1 * torch.randn(24_000 + 4_000 * number, generator=drawn), text)
        for number, text in enumerate(TEXTS)
    ]
    return rounding.measured(base, clips, ("fp32", "int8", "int4"))


def test_every_kind_is_asked_for_the_same_codes(rows: list[dict[str, float]]) -> None:
    assert [row["kind"] for row in rows] == ["fp32", "int8", "int4"]
    assert {row["clips"] for row in rows} == {4} and len({row["codes"] for row in rows}) == 1
    # A random model knows nothing of 66 ids.
    assert rows[0]["audio_loss"] == pytest.approx(torch.log(torch.tensor(66.0)).item(), abs=0.5)


def test_four_bits_change_the_loss_more_than_eight_and_eight_change_it(
    rows: list[dict[str, float]],
) -> None:
    exact, eight, four = (row["audio_loss"] for row in rows)
    assert 0 < abs(eight - exact) < abs(four - exact) < 0.1


def test_a_position_does_not_round_the_others(base_folder: Path) -> None:
    config = ModelConfig.read(base_folder)
    gpt = rounding._rounded(base_folder, config, "int8")
    layer = gpt.gpt.h[0].mlp.c_fc
    assert isinstance(layer, rounding.EachPosition) and isinstance(layer.layer, Int8Linear)
    x = torch.randn(1, 5, config.gpt.width)
    loud = x.clone()
    loud[:, 2] *= 50
    assert torch.equal(layer(x)[:, [0, 1, 3, 4]], layer(loud)[:, [0, 1, 3, 4]])
    assert torch.allclose(layer(x)[0, 1], layer.layer(x[:, 1])[0], atol=0.02)


def test_the_table_tells_the_difference_from_the_first() -> None:
    row = {"clips": 2, "codes": 90, "text_loss": 1.0}
    told = rounding.told([
        row | {"kind": "fp32", "audio_loss": 1.75}, row | {"kind": "int4", "audio_loss": 1.8},
    ])  # fmt: skip
    assert "2 sentences, 90 codes" in told and "int4   audio 1.8000 (+0.0500)" in told
