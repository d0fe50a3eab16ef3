"""A start is timed from the outside, mark by mark."""

import pytest

from benchmarks import loading, synthetic
from benchmarks.measuring import ChildFailed


@pytest.mark.slow
def test_a_child_that_fails_is_no_figure(tmp_path) -> None:
    with pytest.raises(ChildFailed, match=r"ours fp32 .* ended with 1"):
        loading.started("ours fp32", tmp_path, codes=1)


@pytest.mark.slow
def test_both_sides_reach_their_first_sound(tmp_path) -> None:
    folder = synthetic.write_base(tmp_path / "base", full=False)
    for side in ("coqui", "ours auto"):
        found = loading.started(side, folder, codes=12)
        assert found["imported"] < found["loaded"] < found["first_audio"]
