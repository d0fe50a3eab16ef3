"""Speaks a sentence on each device in a child process, and compares it with the CPU's."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from extras.common.answers import ask_once
from extras.common.readings.snapshot import TrialSpeech

_MAX_TRIAL_SECONDS = 180.0


def speak_trials(trial: Sequence[str], devices: Sequence[str]) -> tuple[TrialSpeech, ...]:
    """Speaks one sentence on each device and compares it with the CPU's.

    Args:
        trial: The command that speaks it; device and file are appended.
        devices: The devices, with the CPU first.
    """
    results = []
    with tempfile.TemporaryDirectory(prefix="sotaque-doctor-") as folder:
        for number, device in enumerate(devices):
            out = Path(folder) / f"{number}.f32"
            reply = ask_once((*trial, device, str(out)), _MAX_TRIAL_SECONDS)
            if reply.answer is None:
                results.append(TrialSpeech(device, reply.seconds, fault=reply.last_error))
                continue
            distance = relative_distance(out, Path(folder) / "0.f32") if number else None
            results.append(TrialSpeech(device, distance=distance, **reply.answer))
    return tuple(results)


def relative_distance(path: Path, reference: Path) -> float | None:
    """Relative L2 distance of two float32 files; None if lengths differ or one is missing."""
    import numpy as np

    try:
        output, expected = (np.fromfile(file, np.float32).astype(np.float64) for file in (path, reference))
    except OSError:
        return None
    if output.shape != expected.shape:
        return None
    expected_norm = float(np.linalg.norm(expected))
    return float(np.linalg.norm(output - expected)) / expected_norm if expected_norm else float("inf")
