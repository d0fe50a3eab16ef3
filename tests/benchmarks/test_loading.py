"""A start is timed from the outside, mark by mark."""

import pytest

from benchmarks import loading
from benchmarks.measuring import ChildFailed


@pytest.mark.slow
def test_a_child_that_fails_is_no_figure(tmp_path) -> None:
    with pytest.raises(ChildFailed, match=r"ours fp32 .* ended with 1"):
        loading.started("ours fp32", tmp_path, codes=1)
