"""Each person and style of a dataset becomes a named speaker of the run and its exports."""

import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

import xtts
from tests.datasets import make_dataset
from tests.models import tiny_base
from tests.train.test_export import perturbed
from tests.xtts.voices.decoders import shifted_decoder
from train.dataset import dataset
from train.dataset.dataset import Dataset
from train.export import export
from train.sampling.reference import SampleReference, sample_text_clip
from train.sampling.run_speakers import clips_by_speaker, keep_speakers
from train.settings import TrainSettings
from xtts import audio, encoding
from xtts.audio import VOCODER_RATE
from xtts.inference.defaults import ConditioningParams
from xtts.model.config import ModelConfig
from xtts.text.tokenizer import Tokenizer
from xtts.voices import speakers
from xtts.voices.base_models import BundleError
from xtts.voices.run_folder import RunFolder
from xtts.voices.voice_files import VoiceSpec, find_voice


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tiny_base(tmp_path / "base")


def data_of(folder: Path, base: Path) -> Dataset:
    config = ModelConfig.read(base)
    settings = TrainSettings(dataset_dir=folder, cache_dir=folder / "cache")
    return dataset.read(settings, Tokenizer(config, base), config.gpt)


def with_a_whisper(folder: Path) -> Path:
    """A dataset of two people, the first of whom also whispers."""
    make_dataset(folder, 12, 2.0)
    rows = ["file_name,text,speaker,style"]
    for number in range(12):
        who = ("anna,", "ben,", "anna,whisper")[number % 3]
        rows.append(f"clip-{number}.wav,This is clip {number}.,{who}")
    (folder / "metadata.csv").write_text("\n".join(rows) + "\n")
    return folder


def context_of(base: Path, data: Dataset) -> Any:
    """The part of a `RunContext` from which the recordings are made."""
    return SimpleNamespace(base=base, config=ModelConfig.read(base), data=data)


def reference_as(first: str, run: RunFolder, data: Dataset) -> SampleReference:
    """The first clip of a person as the run's reference."""
    path = run.samples / "reference.wav"
    clip = next(one for one in data.clips if one.speaker == first)
    path.parent.mkdir(parents=True, exist_ok=True)
    encoding.write_wav(path, audio.read(clip.path, VOCODER_RATE))
    return SampleReference(path, clip.text, clip.language, first)


def kept(run: RunFolder, data: Dataset, base: Path, first: str = "anna") -> list[str]:
    keep_speakers(run, context_of(base, data), reference_as(first, run, data))
    return list(speakers.read(run.folder))


def test_a_run_keeps_a_recording_of_each_speaker_and_style(base, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    data, run = data_of(with_a_whisper(tmp_path / "data"), base), RunFolder(tmp_path / "output")
    assert kept(run, data, base) == ["anna", "anna:whisper", "ben"]
    assert "Speakers: anna, anna:whisper, ben. The samples are spoken as anna." in caplog.text
    assert kept(run, data, base, "ben") == ["ben", "anna", "anna:whisper"]
    wanted = ModelConfig.read(base).conditioning
    for path in speakers.read(run.folder).values():
        most = max(wanted.total_seconds, wanted.speaker_seconds)
        assert 2.0 <= soundfile.info(path).duration <= most


def test_the_latents_of_a_further_speaker_use_all_of_their_clips(base, tmp_path):
    """They read the first seconds of the recording; the speaker embedding reads more."""
    data, run = data_of(with_a_whisper(tmp_path / "data"), base), RunFolder(tmp_path / "output")
    context = context_of(base, data)
    context.config = replace(context.config, conditioning=ConditioningParams(8.0, 8.0, 30.0))
    keep_speakers(run, context, reference_as("anna", run, data))
    used = soundfile.read(speakers.read(run.folder)["ben"])[0][: 8 * VOCODER_RATE]
    clips = [clip for clip in data.clips if clip.speaker == "ben"]
    assert len(clips) == 4
    for clip in clips:
        sound = audio.read(clip.path, VOCODER_RATE).numpy()
        beginning = sound[VOCODER_RATE // 4 :][: VOCODER_RATE // 20]
        windows = np.lib.stride_tricks.sliding_window_view(used, len(beginning))
        alike = windows[np.abs(windows[:, 0] - beginning[0]) < 1e-3]  # all windows take seconds
        nearest = min((float(np.abs(one - beginning).max()) for one in alike), default=1.0)
        assert nearest < 1e-3, f"{clip.name}: {nearest:.3f}"


def test_a_dataset_of_one_speaker_names_nobody(base, tmp_path):
    data = data_of(make_dataset(tmp_path / "data"), base)
    assert kept(RunFolder(tmp_path / "output"), data, base, data.clips[0].speaker) == []
    assert not (tmp_path / "output" / "speakers").exists()


def test_a_resumed_run_writes_only_what_is_missing(base, tmp_path):
    data, run = data_of(with_a_whisper(tmp_path / "data"), base), RunFolder(tmp_path / "output")
    kept(run, data, base)
    before = {path: path.stat().st_mtime_ns for path in (run.folder / "speakers").glob("*.wav")}
    assert kept(run, data, base) == ["anna", "anna:whisper", "ben"]
    assert before == {path: path.stat().st_mtime_ns for path in before}
    next(iter(before)).write_bytes(b"damaged")
    assert kept(run, data, base) == ["anna", "anna:whisper", "ben"]


def test_what_cannot_be_read_costs_the_names_and_not_the_run(base, tmp_path, caplog):
    data, run = data_of(with_a_whisper(tmp_path / "data"), base), RunFolder(tmp_path / "output")
    for clip in data.clips:
        if clip.speaker == "ben":
            clip.path.unlink()
    assert kept(run, data, base) == []
    assert "are not kept by name" in caplog.text


def test_the_sample_is_of_a_person_as_usual(base, tmp_path):
    folder = with_a_whisper(tmp_path / "data")
    data = data_of(folder, base)
    assert sample_text_clip(data).speaker in {"anna", "ben"}
    assert set(clips_by_speaker(data, "ben")) == {"anna", "anna:whisper", "ben"}


def test_an_exported_voice_speaks_as_each_of_them(base, tmp_path):
    """It speaks as the run does, from the run's recordings."""
    checkpoint = perturbed(base, tmp_path / "output")
    names = kept(RunFolder(tmp_path / "output"), data_of(with_a_whisper(tmp_path / "data"), base), base)
    voice = find_voice(VoiceSpec(str(checkpoint), base=str(base)))
    assert list(voice.speakers) == names and voice.own_name == "anna"
    to = tmp_path / "voice"
    for _ in range(2):  # the second one replaces the first
        export(voice, to)
    opened = xtts.load_voice(to)
    assert list(opened.files.speakers) == names and opened.files.own_name == "anna"
    here = xtts.load_voice(checkpoint, base=base, speaker="ben")
    found = xtts.synthesize(opened, "[voice:ben]one two", seed=2)
    assert np.array_equal(found, xtts.synthesize(here, "one two", seed=2))


@pytest.mark.slow
@pytest.mark.parametrize("of_first", [False, True])
def test_each_speaker_speaks_with_the_decoder_that_was_learned_for_them(base, tmp_path, of_first):
    """In a run and in its export, ben uses his decoder; anna's whisper, which lacks one, uses the
    base's even if anna has one."""
    checkpoint, run = perturbed(base, tmp_path / "output"), RunFolder(tmp_path / "output")
    kept(run, data_of(with_a_whisper(tmp_path / "data"), base), base)

    def said(voice: Path | str, speaker: str = "", text: str = "one two") -> np.ndarray:
        of = {"base": base} if voice == checkpoint else {}
        return xtts.synthesize(xtts.load_voice(voice, speaker=speaker, **of), text, seed=2)

    names = ("", "ben", "anna:whisper")
    before = [said(checkpoint, name) for name in names]
    ben = speakers.decoder_of(speakers.read(run.folder)["ben"])
    shifted_decoder(ben, base, checkpoint, 1.1)
    if of_first:
        shifted_decoder(run.decoder_path(7), base, checkpoint, 0.9)
    after = [said(checkpoint, name) for name in names]
    assert [np.array_equal(one, other) for one, other in zip(before, after, strict=True)] == [
        not of_first,
        False,
        True,
    ]
    assert np.array_equal(said(checkpoint, "", "[voice:ben]one two"), after[1])
    to = tmp_path / "voice"
    for _ in range(2):  # the second one replaces the first
        export(find_voice(VoiceSpec(str(checkpoint), base=str(base))), to)
    for name, wanted in zip(names, after, strict=True):
        assert np.array_equal(said(to, name), wanted)
        assert np.array_equal(said(to, "", f"[voice:{name or 'anna'}]one two"), wanted)
    (to / "speakers" / "3_decoder.safetensors").write_bytes(b"damaged")
    with pytest.raises(BundleError, match=r"3_decoder\.safetensors"):
        xtts.load_voice(to)


def test_a_speakers_decoder_is_not_for_other_weights(base, tmp_path):
    checkpoint, run = perturbed(base, tmp_path / "output"), RunFolder(tmp_path / "output")
    kept(run, data_of(with_a_whisper(tmp_path / "data"), base), base)
    ben = speakers.read(run.folder)["ben"]
    spec = VoiceSpec(str(checkpoint), base=str(base))
    shifted_decoder(speakers.decoder_of(ben), base, checkpoint, 1.1)
    assert find_voice(spec).speaker_decoders == {ben: speakers.decoder_of(ben)}
    of_base = VoiceSpec(str(checkpoint), base=str(base), base_only=True)
    assert find_voice(of_base).decoder is None
    (run.folder / "config.json").write_bytes((base / "config.json").read_bytes())
    assert find_voice(of_base).weights == base / "model.pth"
    shifted_decoder(speakers.decoder_of(ben), base, checkpoint, 1.1, sha256="0" * 64)
    assert find_voice(spec).speaker_decoders == {}
