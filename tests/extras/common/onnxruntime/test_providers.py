"""The providers that can be requested."""

import pytest

from extras.common.onnxruntime.providers import parse_provider
from machine.errors import SotaqueError


@pytest.mark.parametrize("wish", ["gpu", "cuda:x", "cpu:1", "", "auto:1"])
def test_another_wish_is_refused(wish):
    with pytest.raises(SotaqueError, match="auto, cuda, rocm, directml, openvino, cpu"):
        parse_provider(wish)
