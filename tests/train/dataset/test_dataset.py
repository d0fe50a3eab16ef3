"""Every clip is judged before step 1: refused with a reason, split by content, decoded once."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from machine.storage.file_cache import FileCache
from tests.bad_audio import FILES, write_all
from tests.datasets import a_sound, make_dataset
from train.dataset import dataset
from train.dataset.dataset import (
    Clip,
    Dataset,
    DatasetError,
    RejectedClip,
    check_clip,
    decode_clip,
)
from train.dataset.entries import TranscriptEntry
from train.settings import TrainSettings
from xtts.model.config import ModelConfig
from xtts.model.shapes import GPTShape
from xtts.text.errors import TextError
from xtts.text.tokenizer import Tokenizer

Read = Callable[..., Dataset]
RATE = 22_050


@pytest.fixture
def read(base_folder: Path, tmp_path: Path) -> Read:
    """Reads a dataset as the trainer does, with the tiny base's tokenizer."""
    config = ModelConfig.read(base_folder)
    tokenizer = Tokenizer(config, base_folder)

    def read_it(folder: Path, **settings) -> Dataset:
        made = TrainSettings(dataset_dir=folder, cache_dir=tmp_path / "cache", **settings)
        return dataset.read(made, tokenizer, config.gpt)

    return read_it


def a_clip(number: int, speaker: str = "s") -> Clip:
    return Clip(
        f"clip-{number}", Path(f"{number}.wav"), f"Text {number}.", speaker, "en", 1.0,
        f"audio-{number}", (5,),
    )  # fmt: skip


def an_entry(path: Path) -> TranscriptEntry:
    return TranscriptEntry("a", path, "Text.", "s", "en")


def reasons(found: Dataset) -> dict[str, str]:
    return {one.name: one.seen for one in found.refused}


def test_a_good_dataset(read, tmp_path):
    found = read(make_dataset(tmp_path / "data", clips=10))
    assert found.refused == ()
    assert (len(found.train), len(found.validation)) == (9, 1)
    assert sorted(found.train + found.validation) == list(range(10))
    for clip in found.clips:
        assert clip.path.is_file()
        assert clip.seconds == pytest.approx(soundfile.info(clip.path).duration)
        assert len(clip.tokens) > 5
    assert "Dataset: 9 clips" in found.report()
    assert found.minutes(range(10)) == pytest.approx(sum(c.seconds for c in found.clips) / 60)


@pytest.mark.parametrize("bad", FILES, ids=lambda bad: bad.name)
def test_every_bad_file_is_refused_with_what_was_seen(bad, tmp_path):
    path = tmp_path / bad.name
    path.write_bytes(bad.content())
    found = decode_clip(an_entry(path), FileCache(tmp_path / "sounds.json"), 11.6)
    assert isinstance(found, RejectedClip)
    assert found.seen and bad.seen in found.seen and found.allowed


@pytest.mark.parametrize(
    ("waveform", "seen", "allowed"),
    [
        (a_sound(0.2, RATE), "0.20 s", "0.5 to 2.0 s"),
        (a_sound(3.0, RATE), "3.00 s", "0.5 to 2.0 s"),
        (np.zeros(RATE, np.float32), "silence (peak 0.0e+00)", "a peak above 0.001"),
        (30_000 * a_sound(1.0, RATE), "a peak of ", "samples from -1 to 1"),
    ],
)
def test_what_was_seen_of_a_recording_and_what_is_allowed(tmp_path, waveform, seen, allowed):
    soundfile.write(tmp_path / "a.wav", waveform, RATE, subtype="FLOAT")
    sounds = FileCache(tmp_path / "sounds.json")
    found = decode_clip(an_entry(tmp_path / "a.wav"), sounds, 2.0)
    assert isinstance(found, RejectedClip)
    assert found.seen.startswith(seen) and found.allowed == allowed
    if seen == "3.00 s":  # the model may allow less than the dataset
        again = decode_clip(an_entry(tmp_path / "a.wav"), sounds, 11.6)
        assert isinstance(again, tuple) and again[0] == pytest.approx(3.0)


class Letters:
    """A token for each letter of a to z."""

    max_tokens = 5
    languages = ("en",)
    fingerprint = "letters"

    def encode(self, text: str, _language: str) -> list[int]:
        if text == "cannot":
            raise TextError("This cannot be read.")
        return [ord(letter) for letter in text]

    def unknown(self, text: str, _language: str) -> list[str]:
        return [letter for letter in text if not letter.isalpha()]


@pytest.mark.parametrize(
    ("text", "seen", "allowed"),
    [
        ("  ", "an empty text", "what is spoken in the clip"),
        ("a+b", "unknown characters '+'", "characters of the vocabulary"),
        ("abcdef", "6 tokens of text", "at most 5"),
        ("cannot", "This cannot be read.", "text that the model can read"),
    ],
)
def test_a_text_that_cannot_be_used(tmp_path, text, seen, allowed):
    texts = FileCache(tmp_path / "texts.json")
    entry = replace(an_entry(tmp_path), text=text)
    letters: Any = Letters()
    found = check_clip(entry, (1.0, "a" * 64), texts, letters)
    assert found == RejectedClip("a", seen, allowed)
    silent = RejectedClip("a", "silence", "sound")
    assert check_clip(entry, silent, texts, letters) is silent


def test_bad_files_and_texts_are_named_and_the_rest_is_used(read, tmp_path):
    folder = make_dataset(tmp_path / "data", clips=3)
    bad = [file.name for file in write_all(folder / "wavs")]
    texts = {
        "no_text": "  ", "only_signs": "...", "unknown": "Ein \u4e2d Wort.",
        "too_long": "the " * 249, "endless": "the " * 500,
    }  # fmt: skip
    for number, name in enumerate(texts):
        sound = a_sound(1.0, 22_050, seed=50 + number)
        soundfile.write(folder / "wavs" / f"{name}.wav", sound, 22_050)
    with (folder / "metadata.csv").open("a", encoding="utf-8") as file:
        file.writelines(f"{name}|Some text.\n" for name in bad)
        file.writelines(f"{name}|{text}\n" for name, text in texts.items())
        file.write("absent|Some text.\n")
    found = read(folder)
    assert [clip.name for clip in found.clips] == ["clip-0", "clip-1", "clip-2"]
    seen = reasons(found)
    assert seen.keys() == {*bad, *texts, "absent"}
    assert seen["no_text"] == "an empty text"
    assert "nothing to speak" in seen["only_signs"]
    assert "unknown characters" in seen["unknown"]
    assert "\u4e2d" in seen["unknown"]
    assert "tokens of text" in seen["too_long"]
    assert "too many to be read in one piece" in seen["endless"]
    assert seen["absent"].startswith("no file")
    report = found.report()
    assert all(one.name in report and one.allowed in report for one in found.refused)
    assert f"3 clips, 0.1 min to learn from; 0 clips, 0.0 min to validate; {len(seen)} refused" in (
        report
    )


def test_nothing_left_is_an_error_that_shows_why(read, tmp_path):
    folder = make_dataset(tmp_path / "data", clips=25)
    shutil.rmtree(folder / "wavs")
    with pytest.raises(DatasetError) as caught:
        read(folder)
    assert "clip-0" in str(caught.value)
    assert "and 5 more" in str(caught.value)
    assert "No clip of" in str(caught.value)


def test_a_copy_of_a_recording_is_refused(read, tmp_path):
    folder = make_dataset(tmp_path / "data", clips=3)
    shutil.copy(folder / "wavs" / "clip-1.wav", folder / "wavs" / "copy.wav")
    with (folder / "metadata.csv").open("a", encoding="utf-8") as file:
        file.write("copy|Another text.\n")
    assert reasons(read(folder)) == {"copy": "the same recording as clip-1"}


def test_a_symlink_is_followed(read, tmp_path):
    """People keep recordings on another disk; only names in the transcript may not leave."""
    folder = make_dataset(tmp_path / "data", clips=2)
    shutil.move(folder / "wavs", tmp_path / "elsewhere")
    (folder / "wavs").symlink_to(tmp_path / "elsewhere")
    assert len(read(folder).clips) == 2


def test_a_second_start_decodes_nothing(read, tmp_path, monkeypatch):
    folder = make_dataset(tmp_path / "data", clips=9)
    soundfile.write(folder / "wavs" / "quiet.wav", np.zeros(22_050), 22_050)
    soundfile.write(folder / "wavs" / "long.wav", a_sound(13, 22_050), 22_050)
    with (folder / "metadata.csv").open("a", encoding="utf-8") as file:
        file.write("quiet|One.\nlong|Two.\n")
    first = read(folder)

    def never(*_args, **_kwargs):
        raise AssertionError("decoded again")

    monkeypatch.setattr(soundfile, "SoundFile", never)
    monkeypatch.setattr(dataset, "_tokenised", never)
    assert read(folder) == first
    (folder / "wavs" / "clip-0.wav").touch()
    with pytest.raises(AssertionError, match="decoded again"):
        read(folder)


def test_a_look_that_is_stopped_goes_on(read, tmp_path):
    """Ctrl-C after an hour of decoding must not cost the hour."""
    folder = make_dataset(tmp_path / "data", clips=3)
    rest = [folder / "wavs" / f"clip-{number}.wav" for number in (0, 1)]

    def stopped(entry: TranscriptEntry, *others):
        if entry.name == "clip-2":
            raise KeyboardInterrupt
        return decode_clip(entry, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset, "decode_clip", stopped)
        with pytest.raises(KeyboardInterrupt):
            read(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(soundfile, "SoundFile", lambda path: pytest.fail(f"{path} decoded again"))
        (folder / "metadata.csv").write_text("clip-0|One.\nclip-1|Two.\n", encoding="utf-8")
        assert [clip.path for clip in read(folder).clips] == rest


def test_what_could_not_be_read_is_tried_again(tmp_path):
    """A disk that failed once must not refuse a clip for ever."""
    entry = an_entry(make_dataset(tmp_path, clips=1) / "wavs" / "clip-0.wav")
    sounds = FileCache(tmp_path / "sounds.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(soundfile, "info", lambda *_: (_ for _ in ()).throw(OSError("I/O error")))
        failed = decode_clip(entry, sounds, 11.6)
    assert isinstance(failed, RejectedClip) and "I/O error" in failed.seen
    assert isinstance(decode_clip(entry, sounds, 11.6), tuple)


def test_the_split_goes_by_content_and_not_by_order():
    everything = [a_clip(number) for number in range(40)]
    one = dataset.split(everything, (), set(), None)
    other = dataset.split(everything[::-1], (), set(), None)
    names = {one.clips[index].name for index in one.validation}
    assert len(names) == 2
    assert names == {other.clips[index].name for index in other.validation}
    assert one.sha256 == other.sha256
    longer = dataset.split([*everything, a_clip(40)], (), set(), None)
    assert longer.sha256 != one.sha256


def test_a_clip_is_its_content_whatever_it_is_called():
    one = a_clip(0)
    assert replace(one, name="other", path=Path("b.wav")).sha256 == one.sha256
    changed = [replace(one, text="abd"), replace(one, speaker="t"), replace(one, audio_sha256="b")]
    assert len({one.sha256, *(other.sha256 for other in changed)}) == 4


@pytest.mark.parametrize(("count", "held_out"), [(7, 0), (8, 1), (100, 5), (2000, 64)])
def test_how_many_clips_validate(count, held_out):
    found = dataset.split([a_clip(number) for number in range(count)], (), set(), None)
    assert len(found.validation) == held_out


def test_every_speaker_keeps_a_clip_to_learn_from():
    everything = [a_clip(number, speaker=f"s{number // 2}") for number in range(60)]
    found = dataset.split(everything, (), set(), None)
    assert len(found.validation) == 3
    assert {found.clips[i].speaker for i in found.train} == {f"s{n}" for n in range(30)}
    alone = [a_clip(number, speaker=f"s{number}") for number in range(20)]
    assert dataset.split(alone, (), set(), None).validation == ()


def test_max_train_samples_takes_the_first_and_leaves_validation():
    everything = [a_clip(number) for number in range(40)]
    full = dataset.split(everything, (), set(), None)
    cut = dataset.split(everything, (), set(), 5)
    assert [cut.clips[i].name for i in cut.train] == [full.clips[i].name for i in full.train[:5]]
    assert [cut.clips[i] for i in cut.validation] == [full.clips[i] for i in full.validation]


def test_a_dataset_that_names_its_validation_clips_is_believed(read, tmp_path):
    folder = make_dataset(tmp_path / "data", clips=4)
    rows = [f"wavs/clip-{n}.wav|Text number {'abcd'[n]}." for n in range(4)]
    (folder / "metadata.csv").unlink()
    (folder / "metadata_train.csv").write_text("\n".join(rows[:2]))
    (folder / "metadata_val.csv").write_text("\n".join(rows[2:]))
    found = read(folder)
    assert [found.clips[i].name for i in found.validation] == ["wavs/clip-2.wav", "wavs/clip-3.wav"]
    with pytest.raises(DatasetError, match="Every usable clip is a validation clip"):
        dataset.split([a_clip(0)], (), {"clip-0"}, None)


@pytest.mark.parametrize(("language", "remedy"), [("xx", "to a model"), ("de", "to xtts_v2")])
def test_a_language_of_all_clips_is_refused_in_one_line_with_the_remedy(
    read, tmp_path, language, remedy
):
    with pytest.raises(DatasetError) as refusal:
        read(make_dataset(tmp_path / "data", clips=12), language=language)
    told = str(refusal.value)
    assert f"'{language}' is not one of this model's: en, pt" in told
    assert "\n" not in told and "All 12 clips" in told and f"BASE_MODEL {remedy}" in told


def test_clips_refused_for_one_reason_are_counted(read, tmp_path):
    folder = make_dataset(tmp_path / "data", clips=12)
    rows = [
        f"wavs/clip-{n}.wav|Text number {'abcdefghijkl'[n]}.|s|{'en' if n == 0 else 'de'}"
        for n in range(12)
    ]
    (folder / "metadata.csv").write_text("\n".join(rows))
    table = [line for line in read(folder).report().splitlines() if "'de' is not one" in line]
    assert len(table) == 6 and table[-1].startswith("… and 6 more")


def test_german_texts_under_english_are_noticed():
    german, english = (
        (Path(__file__).parents[3] / f"train/data/evaluation/{code}.txt")
        .read_text(encoding="utf-8")
        .splitlines()
        for code in ("de", "en")
    )
    for texts, warned in ((german, True), (english, False)):
        clips = tuple(replace(a_clip(n), text=text) for n, text in enumerate(texts))
        found = Dataset(clips, (), tuple(range(len(clips))), ()).report()
        assert ("look like German" in found and "LANGUAGE=de" in found) is warned


class Fixed:
    """A tokenizer that always answers the same, or raises."""

    max_tokens = 400
    languages = ("en", "zh", "ja")

    def __init__(self, fingerprint: str, ids: list[int], error: TextError | None = None) -> None:
        self.fingerprint = fingerprint
        self.ids = ids
        self.error = error

    def encode(self, text: str, language: str) -> list[int]:
        if self.error:
            raise self.error
        return self.ids

    def unknown(self, text: str, language: str) -> list[str]:
        self.encode(text, language)
        return []


def read_with(tokenizer: Any, folder: Path, cache: Path) -> Dataset:
    settings = TrainSettings(dataset_dir=folder, cache_dir=cache)
    return dataset.read(settings, tokenizer, GPTShape(text_ids=10, text_start=9))


def test_a_language_without_its_extra_stops_at_once(tmp_path):
    """Every row would be refused for the same reason; the sentence names the packages."""
    error = TextError("LANGUAGE=ja needs cutlet")
    error.__cause__ = ImportError("cutlet")
    with pytest.raises(TextError, match="cutlet"):
        read_with(Fixed("a", [], error), make_dataset(tmp_path / "data", clips=2), tmp_path)


def test_texts_are_read_anew_by_another_tokenizer(tmp_path):
    folder = make_dataset(tmp_path / "data", clips=2)
    assert read_with(Fixed("a", [1, 2]), folder, tmp_path / "cache").clips[0].tokens == (1, 2)
    assert read_with(Fixed("a", [3]), folder, tmp_path / "cache").clips[0].tokens == (1, 2)
    assert read_with(Fixed("b", [3]), folder, tmp_path / "cache").clips[0].tokens == (3,)


def test_clips_that_are_taken_out_are_told_and_the_split_stays(read, tmp_path):
    data = read(make_dataset(tmp_path / "data", clips=9))
    learned, held_out = data.clips[0], data.clips[data.validation[0]]
    left = data.without([RejectedClip(learned.name, "a tone", "SUSPECT_CLIPS=keep")])
    assert len(left.train) == len(data.train) - 1
    assert [left.clips[i] for i in left.validation] == [held_out]
    assert [one.name for one in left.refused] == [learned.name]
    every = [RejectedClip(one.name, "a tone", "SUSPECT_CLIPS=keep") for one in data.clips]
    with pytest.raises(DatasetError, match="All 8 clips to learn from are suspect"):
        data.without(every)
