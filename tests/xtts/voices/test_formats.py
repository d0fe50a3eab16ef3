"""Without an extra, every folder belongs to PyTorch; the extra's BACKEND is refused by name."""

import pytest

from machine import extras
from xtts.voices import formats
from xtts.voices.base_models import BundleError


def test_without_the_extra_its_backend_is_refused_and_its_folders_are_not_recognised(monkeypatch, tmp_path):
    (tmp_path / "onnx.json").touch()
    monkeypatch.setattr(extras, "entries", lambda: ())
    assert formats.format_of(tmp_path) is None
    with pytest.raises(BundleError, match="BACKEND=onnx needs extras/onnx"):
        formats.format_for("onnx")
