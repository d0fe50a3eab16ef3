"""Predicts how natural speech sounds to people, from 1 to 5, with DistillMOS if it is installed.

DistillMOS (Stahl and Gamper 2025, the package `distillmos`, MIT) was trained on listeners' mean
opinion scores. It hears no reference and no text: a wrong sentence that sounds well is natural to
it. Its weights are in its wheel, so nothing is downloaded. Importing this module imports neither it
nor torch.
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from machine import commands

if TYPE_CHECKING:
    from torch import Tensor

# The package, and the one that holds half of its layers.
PACKAGES = ("distillmos", "xls_r_sqa")
RATE = 16_000
# The model's window, 7.68 s. Longer speech is judged by as much from its beginning.
WINDOW = 122_880
# A row of features has so many samples. A sound changes this many rows after its end: half an STFT
# window, and one frame for each convolution.
_ROW, _REACH = 320, 8


def missing() -> str | None:
    """Why naturalness cannot be judged here; None if it can."""
    if all(importlib.util.find_spec(one) is not None for one in PACKAGES):
        return None
    command = commands.install_extra("naturalness")
    return f"distillmos is not installed; install it with: {command}"


class NaturalnessJudge:
    """DistillMOS on one device.

    Its convolutions over the silence after a short sentence are computed once: that silence pads
    every sentence to `WINDOW`, and would take two thirds of the time.
    """

    def __init__(self, device: str = "cpu") -> None:
        import torch

        package: Any = importlib.import_module("distillmos.sqa")
        with torch.random.fork_rng(devices=[]):  # a module draws random weights before it has these
            # Loading them by itself, it would print their path to stdout.
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
        """`[1, channels, rows]` of a whole window."""
        import torch
        import torch.nn.functional as F

        num_rows, rows = WINDOW // _ROW, -(-len(heard) // _ROW)
        if rows + 3 * _REACH > num_rows:
            return self._model.cnn(F.pad(heard, (0, WINDOW - len(heard)))[None])
        padded = F.pad(heard, (0, (rows + 2 * _REACH) * _ROW - len(heard)))
        own = self._model.cnn(padded[None])[..., : rows + _REACH]
        # The first and last rows of a window are next to its ends, and differ from the others.
        usual = self._silence[..., 2 * _REACH : 2 * _REACH + 1]
        last = self._silence[..., -_REACH:]
        between = usual.expand(-1, -1, num_rows - rows - 2 * _REACH)
        return torch.cat((own, between, last), dim=-1)
