"""Predicts how natural speech sounds to people, from 1 to 5, with DistillMOS if it is installed.

DistillMOS (Stahl and Gamper 2025, the package `distillmos`, MIT) was trained on listeners' mean
opinion scores. It uses neither a reference nor the text, so a wrong sentence can be natural. Its
weights are in its wheel, so nothing is downloaded. Importing this module imports neither it nor
torch.
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING

from machine import commands

if TYPE_CHECKING:
    from torch import Tensor

# The package, and the one that contains half of its layers.
PACKAGES = ("distillmos", "xls_r_sqa")
RATE = 16_000
# The model's window, 7.68 s. Longer speech is judged by its beginning.
WINDOW = 122_880
# The samples per row of features, and the number of rows that a sound affects after its end: half
# an STFT window, and one frame for each convolution.
_ROW, _REACH = 320, 8


def missing() -> str | None:
    """Why naturalness cannot be judged on this machine; None if it can."""
    if all(importlib.util.find_spec(package) is not None for package in PACKAGES):
        return None
    command = commands.install_extra("naturalness")
    return f"distillmos is not installed; install it with: {command}"


class NaturalnessJudge:
    """DistillMOS on one device.

    Sentences are padded with silence to `WINDOW`. The convolutions over that silence, which would
    take two thirds of the time, are computed once.
    """

    def __init__(self, device: str = "cpu") -> None:
        import torch

        package = importlib.import_module("distillmos.sqa")
        with torch.random.fork_rng(devices=[]):  # modules draw random weights first
            # Loaded below, because the model would print the path of the weights to stdout.
            model = package.ConvTransformerSQAModel(load_weights=False, segmenting_in_forward=False)
        saved = torch.load(package.DEFAULT_WEIGHTS_CHKPT, map_location="cpu", weights_only=True)
        model.load_state_dict(saved["model"])
        self._model = model.eval().to(device)
        self._device = device
        with torch.inference_mode():
            self._silence = self._model.cnn(torch.zeros(1, 4 * _REACH * _ROW, device=device))

    def mos(self, samples: "Tensor") -> float:
        """The predicted mean opinion score, 1 to 5, of `[samples]` at 16 kHz."""
        import torch

        with torch.inference_mode():
            heard = samples.detach().float().to(self._device)[:WINDOW]
            heard = heard / (heard.abs().amax() + 1e-8)
            features = self._features(heard)
            quality = self._model.transformer_pool_attn(features.transpose(1, 2))
        return float(1 + 4 * quality)

    def _features(self, heard: "Tensor") -> "Tensor":
        """The features `[1, channels, rows]` of the window that begins with `heard`."""
        import torch
        import torch.nn.functional as F

        num_rows, rows = WINDOW // _ROW, -(-len(heard) // _ROW)
        if rows + 3 * _REACH > num_rows:
            return self._model.cnn(F.pad(heard, (0, WINDOW - len(heard)))[None])
        padded = F.pad(heard, (0, (rows + 2 * _REACH) * _ROW - len(heard)))
        features = self._model.cnn(padded[None])[..., : rows + _REACH]
        # The rows of silence are equal, except for those near the ends of a window.
        usual = self._silence[..., 2 * _REACH : 2 * _REACH + 1]
        last = self._silence[..., -_REACH:]
        between = usual.expand(-1, -1, num_rows - rows - 2 * _REACH)
        return torch.cat((features, between, last), dim=-1)
