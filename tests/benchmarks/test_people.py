"""Datasets of other people, and the figures of what is heard."""

from pathlib import Path

import pytest
import soundfile
import torch

from benchmarks import judges, people
from machine.errors import SotaqueError
from train.dataset.metadata import read_entries


def dataset(folder: Path, clips: int) -> Path:
    (folder / "wavs").mkdir(parents=True)
    lines = []
    for number in range(clips):
        soundfile.write(
            folder / "wavs" / f"c{number}.wav", torch.full((1600,), 0.01).numpy(), 16000
        )
        lines.append(f'c{number}|raw|Text "{number}" of it.\n')
    (folder / "metadata.csv").write_text("".join(lines), encoding="utf-8")
    return folder


def test_each_clip_is_left_out_once(tmp_path):
    found = people.folds(dataset(tmp_path / "real", 7), 3, tmp_path / "work")
    left_out = [text for _, own in found for text in own]
    assert sorted(left_out) == [f'Text "{number}" of it.' for number in range(7)]
    for folder, own in found:
        rows = read_entries(folder, "auto", "en")
        assert not {row.text for row in rows} & set(own)
        assert len(rows) + len(own) == 7
        assert all(row.path.is_file() for row in rows)


def test_too_few_clips_for_so_many_parts(tmp_path):
    with pytest.raises(SotaqueError, match="has 2 clips, too few for 3 parts"):
        people.folds(dataset(tmp_path / "real", 2), 3, tmp_path)


def test_figures_are_over_all_words():
    rows = [
        people.Spoken("base", 0, "One two three four.", 1, 4, 50.0, 5.0, 0.5),
        people.Spoken("base", 0, "One.", 1, 1, 70.0, 6.0, 3.0),
    ]
    found = people.figures(rows)
    assert found == {
        "word_errors": 0.4, "distance": 60.0, "distortion_db": 5.5, "astray": 1, "spoken": 2,
    }  # fmt: skip


@pytest.mark.slow  # numba compiles for a quarter of a minute
def test_a_person_is_at_no_distance_from_their_own_recording(monkeypatch):
    monkeypatch.setattr(judges, "words_heard", lambda wave: "one three")
    wave = torch.sin(torch.arange(16000) / 20) * 0.1
    found = people.heard(("own", 0), "One two.", wave, wave)
    assert (found.errors, found.words, found.length) == (1, 2, 1.0)
    assert found.distance == pytest.approx(0.0, abs=1e-3)
