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
# Frames of a segment, and from one to the next (1.3 a second).
SEGMENT_FRAMES, SEGMENT_HOP_FRAMES = 160, 77
# The last segment may end in padding if at least this share of it is sound.
MIN_SOUND_SHARE = 0.75
# The level of speech. The package only amplifies to -30 dB; with it, half the loudness made a cosine
# of 0.94 to the same recording, as much as another sentence.
LEVEL_DB = -25.0
# Windows of 30 ms that are so far below the loud ones are silent.
_WINDOW_SAMPLES, _SILENCE_DB = 480, 30.0
# Windows over which silence is smoothed, and which are kept around speech: 0.2 s of each pause.
_SMOOTHED_WINDOWS, _KEPT_WINDOWS = 9, 7


def weights_file() -> Path | None:
    """The weights in the installed package; None without it."""
    try:
        path = Path(str(metadata.distribution(PACKAGE).locate_file(WEIGHTS)))
    except metadata.PackageNotFoundError:
        return None
    return path if path.is_file() else None


def missing_reason() -> str | None:
    """Why this judge cannot compare voices on this machine; None if it can."""
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
            sound = normalize_level(shorten_pauses(samples.detach().float().cpu()))
            _, (hidden, _) = self._lstm(mel_segments(sound))
            embeddings = self._linear(hidden[-1]).relu()
            embeddings = embeddings / embeddings.norm(dim=1, keepdim=True).clamp(min=1e-6)
            mean = embeddings.mean(0)
            return mean / mean.norm().clamp(min=1e-6)


def _load(module: "nn.Module", saved: "dict[str, Tensor]", prefix: str) -> None:
    weights = {name: saved[prefix + name] for name in module.state_dict()}
    module.load_state_dict(weights)
    module.eval().requires_grad_(False)


def normalize_level(samples: "Tensor") -> "Tensor":
    """Scales `[samples]` to 25 dB below full scale."""
    rms = samples.square().mean().sqrt().clamp(min=1e-6)
    return samples * (10 ** (LEVEL_DB / 20) / rms)


def shorten_pauses(samples: "Tensor") -> "Tensor":
    """`[samples]` with at most 0.2 s of each pause; unchanged if shorter than a window."""
    import torch.nn.functional as F

    num_windows = len(samples) // _WINDOW_SAMPLES
    if not num_windows:
        return samples
    windows = samples[: num_windows * _WINDOW_SAMPLES].view(num_windows, _WINDOW_SAMPLES)
    levels = 10 * windows.square().mean(1).clamp(min=1e-12).log10()
    speech = (levels > levels.quantile(0.95) - _SILENCE_DB).float()[None]
    padding = _SMOOTHED_WINDOWS // 2
    smooth = F.avg_pool1d(speech, _SMOOTHED_WINDOWS, 1, padding, count_include_pad=True) >= 0.5
    is_kept = F.max_pool1d(smooth.float(), _KEPT_WINDOWS, 1, _KEPT_WINDOWS // 2)[0] > 0
    return windows[is_kept].flatten() if bool(is_kept.any()) else samples


def mel_power(samples: "Tensor") -> "Tensor":
    """The mel power `[frames, 40]` of `[samples]`, without a logarithm; librosa's
    `melspectrogram`."""
    import torch
    from torchaudio.functional import melscale_fbanks

    spectrum = torch.stft(
        samples, FFT, HOP, window=torch.hann_window(FFT), pad_mode="constant", return_complex=True
    )
    bands = melscale_fbanks(FFT // 2 + 1, 0.0, RATE / 2, BANDS, RATE, "slaney", "slaney")
    return spectrum.abs().square().T @ bands


def mel_segments(samples: "Tensor") -> "Tensor":
    """The mel power of overlapping segments of `[samples]`, `[segments, 160, 40]`."""
    import torch
    import torch.nn.functional as F

    num_frames = len(samples) // HOP + 1
    max_start = max(1, num_frames - SEGMENT_FRAMES + SEGMENT_HOP_FRAMES + 1)
    starts = list(range(0, max_start, SEGMENT_HOP_FRAMES))
    last_sound_share = (len(samples) - starts[-1] * HOP) / (SEGMENT_FRAMES * HOP)
    if last_sound_share < MIN_SOUND_SHARE and len(starts) > 1:
        starts.pop()
    num_samples = (starts[-1] + SEGMENT_FRAMES) * HOP
    mel = mel_power(F.pad(samples, (0, max(0, num_samples - len(samples)))))
    return torch.stack([mel[start : start + SEGMENT_FRAMES] for start in starts])
