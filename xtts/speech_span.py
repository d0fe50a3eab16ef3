"""Finds where speech begins and ends in a recording, by the level of its frames.

Levels are in dB, of the root mean square over 20 ms, a frame each 10 ms. All functions are pure.
Importing this module does not import torch.
"""

import numpy as np

HOP_SECONDS = 0.01
FLOOR_DB = -100.0
_FRAME_SECONDS = 0.02
# Below the loud frames (95th percentile) by more than this, there is no speech.
_SPEECH_RANGE_DB = 30.0
# So many active frames in a row are more than a click.
_FRAMES_IN_A_ROW = 4


def framed(samples: np.ndarray, length: int, hop: int) -> np.ndarray:
    """Frames `[1 + (samples - length) // hop, length]`, a view; what is shorter is padded."""
    if len(samples) < length:
        samples = np.pad(samples, (0, length - len(samples)))
    return np.lib.stride_tricks.sliding_window_view(samples, length)[::hop]


def frame_levels(samples: np.ndarray, rate: int) -> np.ndarray:
    """The level of each frame of `[samples]` at `rate` Hz."""
    frames = framed(samples, round(_FRAME_SECONDS * rate), round(HOP_SECONDS * rate))
    # Around each frame's own mean: the offset of a whole clip would fill its silences.
    power = frames.var(axis=1)
    return np.maximum(10 * np.log10(power + 1e-20), FLOOR_DB)


def spoken_frames(levels: np.ndarray) -> tuple[int, int]:
    """(first frame, last + 1) of what lies between the silences; everything if nothing."""
    active = levels > float(np.percentile(levels, 95)) - _SPEECH_RANGE_DB
    runs = np.convolve(active, np.ones(_FRAMES_IN_A_ROW), "valid") >= _FRAMES_IN_A_ROW
    (places,) = np.nonzero(runs)
    if not len(places):
        return 0, len(active)
    return int(places[0]), int(places[-1]) + _FRAMES_IN_A_ROW
