"""Which wishes there are."""

import pytest

from machine.onnxruntime.providers import ProviderRequestError, wish_of


@pytest.mark.parametrize("wish", ["gpu", "cuda:x", "cpu:1", "", "auto:1"])
def test_another_wish_is_refused(wish: str) -> None:
    with pytest.raises(ProviderRequestError, match="auto, cuda, rocm, directml, openvino, cpu"):
        wish_of(wish)
