"""Finds where speech begins and ends in a recording, by the level of its frames.

Levels are the root mean square over 20 ms in dB, one frame per 10 ms. Importing this module does
not import torch.
"""

import numpy as np

HOP_SECONDS = 0.01
FLOOR_DB = -100.0
_FRAME_SECONDS = 0.02
# Frames that are this far below the loud frames (95th percentile) are not speech.
_SPEECH_RANGE_DB = 30.0
# Fewer active frames in a row may be a click.
_MIN_ACTIVE_RUN = 4
# A recording with a lower peak is silent: -60 dB of full scale.
SILENT_PEAK = 1e-3
# At the start of speech, half a second of the next two is active; after a click it is not.
_AHEAD_FRAMES, _MIN_ACTIVE_FRAMES = 200, 50
# The level of speech is that of the loudest three seconds: everything else may be silence.
_LOUD_FRAMES, _LOUD_HOP = 300, 100
# Speech is this far above the noise in pauses; the threshold stays this far below the level of speech.
_MIN_DB_ABOVE_NOISE, _MIN_DB_BELOW_SPEECH = 10.0, 10.0
# Longer silence at an end is cut to this length.
_MAX_SILENCE_SECONDS, _KEPT_SILENCE_SECONDS = 0.3, 0.1


def cut_frames(samples: np.ndarray, length: int, hop: int) -> np.ndarray:
    """Frames `[1 + (samples - length) // hop, length]`, a view; shorter input is padded."""
    if len(samples) < length:
        samples = np.pad(samples, (0, length - len(samples)))
    return np.lib.stride_tricks.sliding_window_view(samples, length)[::hop]


def frame_levels(samples: np.ndarray, rate: int) -> np.ndarray:
    """The level of each frame of `[samples]` at `rate` Hz."""
    frames = cut_frames(samples, round(_FRAME_SECONDS * rate), round(HOP_SECONDS * rate))
    # The variance ignores a DC offset, which would make silence loud.
    power = frames.var(axis=1)
    return np.maximum(10 * np.log10(power + 1e-20), FLOOR_DB)


def levels_in_parts(remaining: np.ndarray, part: np.ndarray, rate: int) -> tuple[np.ndarray, np.ndarray]:
    """The levels of the frames that a part of `[samples]` completes, and the remaining samples for
    the next part. remaining: those of the previous part."""
    samples = np.concatenate((remaining, part))
    length, hop = round(_FRAME_SECONDS * rate), round(HOP_SECONDS * rate)
    if len(samples) < length:
        return np.zeros(0), samples
    levels = frame_levels(samples, rate)
    return levels, samples[len(levels) * hop :]


def speech_start(levels: np.ndarray, rate: int) -> int:
    """The sample at which a reference should begin: 0.1 s before the speech if more than 0.3 s of
    silence or steady noise precede it, else 0. levels: of all frames, at `rate` Hz."""
    # Rounded: a hop of 10 ms is 220.5 samples at 22,050 Hz.
    hop = round(HOP_SECONDS * rate)
    silence = _first_speech_frame(levels) * hop
    kept = int(_KEPT_SILENCE_SECONDS * rate)
    return silence - kept if silence > _MAX_SILENCE_SECONDS * rate else 0


def _first_speech_frame(levels: np.ndarray) -> int:
    if not len(levels):
        return 0
    windows = cut_frames(levels, _LOUD_FRAMES, _LOUD_HOP) if len(levels) >= _LOUD_FRAMES else [levels]
    loud = max(float(np.percentile(window, 95)) for window in windows)
    quiet = float(np.percentile(levels, 5))
    noise_threshold = min(quiet + _MIN_DB_ABOVE_NOISE, loud - _MIN_DB_BELOW_SPEECH)
    active = levels > max(loud - _SPEECH_RANGE_DB, noise_threshold)
    num_before = np.concatenate(([0], np.cumsum(active)))
    ends = np.minimum(np.arange(len(active)) + _AHEAD_FRAMES, len(active))
    (starts,) = np.nonzero(active & (num_before[ends] - num_before[:-1] >= _MIN_ACTIVE_FRAMES))
    return int(starts[0]) if len(starts) else spoken_frames(levels)[0]


def spoken_frames(levels: np.ndarray) -> tuple[int, int]:
    """(first frame, last + 1) of the speech between silent ends; all frames without speech."""
    active = levels > float(np.percentile(levels, 95)) - _SPEECH_RANGE_DB
    runs = np.convolve(active, np.ones(_MIN_ACTIVE_RUN), "valid") >= _MIN_ACTIVE_RUN
    (starts,) = np.nonzero(runs)
    if not len(starts):
        return 0, len(active)
    return int(starts[0]), int(starts[-1]) + _MIN_ACTIVE_RUN
