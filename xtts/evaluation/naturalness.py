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
WINDOW_SAMPLES = 122_880
_SAMPLES_PER_ROW = 320
# The number of rows of features that a sound affects after its end: half an STFT window, and one
# frame for each convolution.
_REACH_ROWS = 8


def missing_reason() -> str | None:
    """Why naturalness cannot be judged on this machine; None if it can."""
    if all(importlib.util.find_spec(package) is not None for package in PACKAGES):
        return None
    command = commands.install_extra("naturalness")
    return f"distillmos is not installed; install it with: {command}"


class NaturalnessJudge:
    """DistillMOS on one device.

    Sentences are padded with silence to `WINDOW_SAMPLES`. The convolutions over that silence, which would
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
            self._silence_features = self._model.cnn(
                torch.zeros(1, 4 * _REACH_ROWS * _SAMPLES_PER_ROW, device=device)
            )

    def mos(self, samples: "Tensor") -> float:
        """The predicted mean opinion score, 1 to 5, of `[samples]` at 16 kHz."""
        import torch

        with torch.inference_mode():
            sound = samples.detach().float().to(self._device)[:WINDOW_SAMPLES]
            sound = sound / (sound.abs().amax() + 1e-8)
            features = self._features(sound)
            quality = self._model.transformer_pool_attn(features.transpose(1, 2))
        return float(1 + 4 * quality)

    def _features(self, sound: "Tensor") -> "Tensor":
        """The features `[1, channels, rows]` of the window that begins with a sound `[samples]`."""
        import torch
        import torch.nn.functional as F

        window_rows, sound_rows = WINDOW_SAMPLES // _SAMPLES_PER_ROW, -(-len(sound) // _SAMPLES_PER_ROW)
        if sound_rows + 3 * _REACH_ROWS > window_rows:
            return self._model.cnn(F.pad(sound, (0, WINDOW_SAMPLES - len(sound)))[None])
        padded = F.pad(sound, (0, (sound_rows + 2 * _REACH_ROWS) * _SAMPLES_PER_ROW - len(sound)))
        features = self._model.cnn(padded[None])[..., : sound_rows + _REACH_ROWS]
        # The rows of silence are equal, except for those near the ends of a window.
        inner_row = self._silence_features[..., 2 * _REACH_ROWS : 2 * _REACH_ROWS + 1]
        last_rows = self._silence_features[..., -_REACH_ROWS:]
        inner_rows = inner_row.expand(-1, -1, window_rows - sound_rows - 2 * _REACH_ROWS)
        return torch.cat((features, inner_rows, last_rows), dim=-1)
