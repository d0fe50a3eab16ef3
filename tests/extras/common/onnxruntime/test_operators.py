"""Which operators are computationally heavy."""

import pytest

from extras.common.onnxruntime import operators


@pytest.mark.parametrize(
    ("operator", "heavy"),
    [
        ("Conv", True),
        ("LSTM", True),
        ("MatMulInteger", True),
        ("DynamicQuantizeLinear", False),
        ("Shape", False),
        ("If", False),
        ("Relu", False),
    ],
)
def test_what_carries_the_work(operator, heavy):
    assert operators.is_heavy(operator) == heavy
