"""Each computing process and thread opens only its assigned GPU."""

import pytest
import torch

from machine.devices import current_gpu


@pytest.mark.parametrize(("device", "expected"), [("cuda:1", [1]), ("cuda", [0]), ("cpu", [])])
def test_what_names_no_gpu_means_the_own_one(monkeypatch, device, expected):
    seen: list[int] = []
    plans: list[bool] = []
    monkeypatch.setattr(torch.cuda, "set_device", seen.append)
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", plans.append)
    current_gpu.make_current(device)
    assert seen == expected
    # cuDNN's attention is off: it makes a plan for each new shape.
    assert plans == [False] * len(expected)
