"""The files of a base folder, and a function that changes a tensor in one of them."""

from pathlib import Path

import torch

ALL = ("config.json", "vocab.json", "model.pth", "dvae.pth", "mel_stats.pth")


def change_tensor(path: Path, name: str, value: torch.Tensor | None) -> None:
    content = torch.load(path, weights_only=True)
    tensors = content.get("model", content)
    tensors.pop(name)
    if value is not None:
        tensors[name] = value
    torch.save(content, path)
