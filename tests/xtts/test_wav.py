"""A WAV file is whole or absent."""

import errno
import os

import numpy as np
import pytest
import soundfile
import torch

from machine.storage.files import DiskFull, WriteError
from tests.machine.storage.test_files import full_after
from xtts import wav
from xtts.audio import VOCODER_RATE


def test_a_written_wav_says_24000_hz_and_is_whole_or_absent(tmp_path, monkeypatch):
    path = tmp_path / "new" / "sample.wav"
    wav.write(path, torch.tensor([0.0, 0.5, -0.5, 2.0, -3.0]))
    samples, rate = soundfile.read(path)
    assert (rate, soundfile.info(path).subtype) == (VOCODER_RATE, "PCM_16")
    np.testing.assert_allclose(samples, [0, 0.5, -0.5, 1, -1], atol=1e-4)
    before = path.read_bytes()

    def fails(*_args, **_kwargs):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("os.replace", fails)
    with pytest.raises(WriteError, match="could not be written"):
        wav.write(path, torch.ones(4))
    with pytest.raises(WriteError, match="Not a directory"):
        wav.write(path / "deep" / "sample.wav", torch.ones(4))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["sample.wav"]


@pytest.mark.parametrize("taken", [0, 1, 43, 44, 45, 4000])
def test_a_wav_for_which_no_space_is_left_is_told_with_74(tmp_path, monkeypatch, taken):
    full_after(monkeypatch, taken)
    with pytest.raises(DiskFull, match=r"48,044 bytes needed") as raised:
        wav.write(tmp_path / "sample.wav", torch.zeros(24_000))
    assert raised.value.exit_code == 74
    assert list(tmp_path.iterdir()) == []


def test_a_wav_outlives_a_power_cut(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, name=name, real=real: calls.append(name) or real(*args))
    wav.write(tmp_path / "sample.wav", torch.zeros(10))
    assert calls == ["fsync", "replace", "fsync"]
