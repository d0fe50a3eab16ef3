"""A child gets the same compute configuration as its parent."""

import argparse
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

from xtts.arguments import ArgumentError
from xtts.inference.compute_config import ComputeConfig

OTHER = ComputeConfig(
    "cuda:1",
    "cuda:1",
    "bf16",
    Path("a folder/latents"),
    "onnx",
    low_memory=True,
    threads=3,
    guard=False,
    cudnn=False,
    watermark="perth",
)


def test_a_child_reads_what_its_parent_has():
    assert all(
        getattr(OTHER, field.name) != getattr(ComputeConfig(), field.name) for field in fields(ComputeConfig)
    )
    parser = argparse.ArgumentParser()
    ComputeConfig.add_argument(parser)
    for compute in (OTHER, ComputeConfig()):
        assert parser.parse_args(compute.command_line()).compute == compute
    assert parser.parse_args([]).compute == ComputeConfig()


def test_it_sets_up_the_process(monkeypatch):
    told: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    monkeypatch.setattr(torch.backends.cudnn, "enabled", True)
    ComputeConfig().apply()
    assert told == [] and torch.backends.cudnn.enabled
    unmarked = replace(OTHER, watermark="off")
    replace(unmarked, backend="onnx").apply()
    assert told == [] and torch.backends.cudnn.enabled  # ONNX Runtime does not use torch
    replace(unmarked, backend="torch").apply()
    assert told == [3] and not torch.backends.cudnn.enabled


def test_what_does_not_exist_is_refused():
    for wrong in ({"precision": "fp64"}, {"low_memory": "no"}):
        with pytest.raises(ArgumentError):
            ComputeConfig(**wrong)
