"""Each clip is checked before step 1: refused with a reason, split by content, decoded once."""

import gc
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from machine.storage.facts import Facts
from tests.bad_audio import write_all
from tests.datasets import a_sound, make_dataset
from train.dataset import dataset
from train.dataset.dataset import (
    Clip,
    Dataset,
    DatasetError,
    RejectedClip,
    decode_clip,
    without_garbage_collection,
)
from train.dataset.entries import TranscriptEntry
from train.settings import TrainSettings
from xtts import sound_file
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
        f"clip-{number}",
        Path(f"{number}.wav"),
        f"Text {number}.",
        speaker,
        "en",
        1.0,
        f"audio-{number}",
        (5,),
    )


def an_entry(path: Path) -> TranscriptEntry:
    return TranscriptEntry("a", path, "Text.", "s", "en")


def reasons(found: Dataset) -> dict[str, str]:
    return {one.name: one.seen for one in found.refused}


def add_rows(folder: Path, *rows: str) -> None:
    with (folder / "metadata.csv").open("a", encoding="utf-8") as file:
        file.writelines(f"{row}\n" for row in rows)


def split(clips: list[Clip], most: int | None = None) -> Dataset:
    return dataset.split(clips, (), set(), most)


def some_clips(count: int) -> list[Clip]:
    return [a_clip(number) for number in range(count)]


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


def test_how_long_a_clip_may_be_depends_on_the_model(tmp_path):
    soundfile.write(tmp_path / "a.wav", a_sound(3.0, RATE), RATE)
    sounds = Facts(tmp_path, "sounds")
    refused = decode_clip(an_entry(tmp_path / "a.wav"), sounds, 2.0)
    assert (refused.seen, refused.allowed) == ("3.00 s", "0.5 to 2.0 s")
    assert decode_clip(an_entry(tmp_path / "a.wav"), sounds, 11.6)[0] == pytest.approx(3.0)


def test_bad_files_and_texts_are_named_and_the_rest_is_used(read, tmp_path):
    folder = make_dataset(tmp_path / "data", clips=3)
    bad = {file.name: file.seen for file in write_all(folder / "wavs")}
    texts = {
        "no_text": ("  ", "an empty text"),
        "only_signs": ("...", "nothing to speak"),
        "unknown": ("Ein \u4e2d Wort.", "unknown characters '\u4e2d'"),
        "too_long": ("the " * 249, "tokens of text"),
        "endless": ("the " * 500, "too many to be read in one piece"),
    }
    for number, name in enumerate(texts):
        soundfile.write(folder / f"wavs/{name}.wav", a_sound(1.0, RATE, seed=50 + number), RATE)
    add_rows(folder, *(f"{name}|Some text." for name in [*bad, "absent"]))
    add_rows(folder, *(f"{name}|{text}" for name, (text, _) in texts.items()))
    found = read(folder)
    assert [clip.name for clip in found.clips] == ["clip-0", "clip-1", "clip-2"]
    seen = reasons(found)
    wanted = bad | {name: told for name, (_, told) in texts.items()} | {"absent": "no file"}
    assert seen.keys() == wanted.keys()
    assert [name for name, told in wanted.items() if not seen[name] or told not in seen[name]] == []
    report = found.report()
    assert all(one.name in report and one.allowed in report for one in found.refused)
    assert f"0 clips, 0.0 min for validation; {len(seen)} refused" in report


@pytest.mark.parametrize(
    ("held_out", "told"),
    [
        (0, "No clip is left for validation"),
        (1, "1 clip is too few for validation"),
        (4, "4 clips are too few for validation"),
        (5, ""),
    ],
)
def test_few_validation_clips_are_told_with_the_dataset(read, tmp_path, held_out, told):
    clips = read(make_dataset(tmp_path / "data", clips=7)).clips
    found = Dataset.of(clips[held_out:], clips[:held_out], ())
    line = found.report().splitlines()[-1]
    assert line.startswith("Dataset: ") and told in line
    assert line.endswith("refused.") or "From 100 clips on, 5 or more are used" in line
    assert line.endswith("refused.") is (not told)


def test_nothing_left_is_an_error_that_shows_why(read, tmp_path):
    folder = make_dataset(tmp_path / "data", clips=25)
    shutil.rmtree(folder / "wavs")
    with pytest.raises(DatasetError, match=r"(?s)clip-0.*and 5 more.*No clip of"):
        read(folder)


def test_a_copy_of_a_recording_is_refused_and_a_symlink_is_followed(read, tmp_path):
    """People keep recordings on another disk; only names in the transcript must stay inside."""
    folder = make_dataset(tmp_path / "data", clips=3)
    shutil.copy(folder / "wavs" / "clip-1.wav", folder / "wavs" / "copy.wav")
    add_rows(folder, "copy|Another text.")
    shutil.move(folder / "wavs", tmp_path / "elsewhere")
    (folder / "wavs").symlink_to(tmp_path / "elsewhere")
    found = read(folder)
    assert len(found.clips) == 3 and reasons(found) == {"copy": "the same recording as clip-1"}


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as settled immediately after a write."""
    monkeypatch.setattr(dataset, "RACY_SECONDS", -1.0)


@pytest.mark.usefixtures("settled")
def test_a_second_start_decodes_nothing(read, tmp_path, monkeypatch):
    folder = make_dataset(tmp_path / "data", clips=9)
    soundfile.write(folder / "wavs" / "quiet.wav", np.zeros(22_050), 22_050)
    soundfile.write(folder / "wavs" / "long.wav", a_sound(13, 22_050), 22_050)
    add_rows(folder, "quiet|One.", "long|Two.")
    first = read(folder)

    def never(*_args, **_kwargs):
        raise AssertionError("decoded again")

    monkeypatch.setattr(soundfile, "SoundFile", never)
    monkeypatch.setattr(dataset, "_tokenise", never)
    assert read(folder) == first
    (folder / "wavs" / "clip-0.wav").touch()
    with pytest.raises(AssertionError, match="decoded again"):
        read(folder)


def test_what_was_written_just_before_it_was_read_is_read_again(read, tmp_path, monkeypatch):
    """It may have been written again within the same clock tick (racy git)."""
    read(make_dataset(tmp_path / "data", clips=3))
    decoded = []
    original = dataset._decode
    monkeypatch.setattr(dataset, "_decode", lambda path: decoded.append(path) or original(path))
    read(tmp_path / "data")
    assert len(decoded) == 3


def test_a_known_dataset_that_has_changed_is_noticed(read, tmp_path, settled):
    folder = make_dataset(tmp_path / "data", clips=4)
    one, other = (folder / "wavs" / f"clip-{number}.wav" for number in range(2))

    def hashes() -> dict[str, str]:
        return {clip.name: clip.audio_sha256 for clip in read(folder).clips}

    def rewrite(seed: int) -> None:
        soundfile.write(one, a_sound(1.0, RATE, seed=seed), RATE, subtype="PCM_16")

    rewrite(50)
    seen = [hashes()]
    status = one.stat()
    rewrite(51)
    seen.append(hashes())
    rewrite(52)
    os.utime(one, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (one.stat().st_size, one.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    seen.append(hashes())
    assert len({one["clip-0"] for one in seen}) == 3
    assert len({one["clip-1"] for one in seen}) == 1

    soundfile.write(other, a_sound(1.0, RATE, seed=53), RATE, subtype="PCM_16")
    for path in (one, other):
        os.utime(path, (1, 1))
    assert one.stat().st_size == other.stat().st_size
    before = hashes()
    one.rename(folder / "aside")
    other.rename(one)
    (folder / "aside").rename(other)
    assert [hashes()[name] for name in ("clip-1", "clip-0")] == [
        before[name] for name in ("clip-0", "clip-1")
    ]

    one.unlink()
    assert hashes().keys() == {"clip-1", "clip-2", "clip-3"}
    rewrite(54)
    add_rows(folder, "clip-4|A new one.")
    soundfile.write(folder / "wavs" / "clip-4.wav", a_sound(1.0, RATE, seed=55), RATE)
    assert len(hashes()) == 5


def test_a_file_in_a_linked_folder_is_part_of_a_known_dataset(read, tmp_path, settled):
    folder = make_dataset(tmp_path / "data", clips=3)
    (folder / "wavs").rename(tmp_path / "elsewhere")
    (folder / "wavs").symlink_to(tmp_path / "elsewhere")
    (folder / "wavs" / "back").symlink_to(folder)  # a circle
    add_rows(folder, "late|It comes later.")
    assert reasons(read(folder))["late"].startswith("no file")
    soundfile.write(tmp_path / "elsewhere" / "late.wav", a_sound(1.0, RATE, seed=60), RATE)
    first = read(folder)
    assert len(first.clips) == 4
    (tmp_path / "elsewhere" / "late.wav").unlink()
    assert reasons(read(folder))["late"].startswith("no file")


def test_a_removed_link_to_a_folder_of_a_known_dataset_is_noticed(read, tmp_path, settled):
    folder = make_dataset(tmp_path / "data", clips=3)
    (folder / "a").symlink_to(folder / "wavs")
    rows = [f"a/clip-{number}.wav|Text number {number}." for number in range(3)]
    (folder / "metadata.csv").write_text("\n".join(rows), encoding="utf-8")
    assert {clip.path.parent.name for clip in read(folder).clips} == {"a"}
    (folder / "a").unlink()
    assert {clip.path.parent.name for clip in read(folder).clips} == {"wavs"}


def test_a_look_that_is_stopped_goes_on(read, tmp_path, settled, monkeypatch):
    """Ctrl-C after an hour of decoding must not lose the hour's work."""
    folder = make_dataset(tmp_path / "data", clips=3)

    def stopped(entry: TranscriptEntry, *others):
        if entry.name == "clip-2":
            raise KeyboardInterrupt
        return decode_clip(entry, *others)

    with monkeypatch.context() as patch:
        patch.setattr(dataset, "decode_clip", stopped)
        with pytest.raises(KeyboardInterrupt):
            read(folder)
    monkeypatch.setattr(soundfile, "SoundFile", lambda path: pytest.fail(f"{path} decoded again"))
    (folder / "metadata.csv").write_text("clip-0|One.\nclip-1|Two.\n", encoding="utf-8")
    assert [clip.path.name for clip in read(folder).clips] == ["clip-0.wav", "clip-1.wav"]


def test_what_could_not_be_read_is_tried_again(read, tmp_path, settled, monkeypatch):
    """One failure of the disk must not refuse a clip permanently."""
    folder, opened = make_dataset(tmp_path / "data", clips=2), sound_file.open_sound

    def failing(path: Path, **more: Any) -> Any:
        if "clip-0" in str(path):
            raise OSError("I/O error")
        return opened(path, **more)

    with monkeypatch.context() as patch:
        patch.setattr(sound_file, "open_sound", failing)
        assert "I/O error" in reasons(read(folder))["clip-0"]
    assert read(folder).refused == ()


@pytest.mark.parametrize(("count", "held_out"), [(7, 0), (8, 1), (100, 5), (2000, 64)])
def test_the_split_goes_by_content_and_not_by_order(count, held_out):
    one, other = split(some_clips(count)), split(some_clips(count)[::-1])
    names = [{found.clips[i].name for i in found.validation} for found in (one, other)]
    assert len(names[0]) == held_out and names[0] == names[1]
    assert one.sha256 == other.sha256 != split(some_clips(count + 1)).sha256


def test_a_clip_is_its_content_whatever_it_is_called():
    one = a_clip(0)
    assert replace(one, name="other", path=Path("b.wav")).sha256 == one.sha256
    changed = [replace(one, text="abd"), replace(one, speaker="t"), replace(one, audio_sha256="b")]
    assert len({one.sha256, *(other.sha256 for other in changed)}) == 4


def test_every_speaker_keeps_a_clip_to_learn_from():
    found = split([a_clip(number, speaker=f"s{number // 2}") for number in range(60)])
    assert len(found.validation) == 3
    assert {found.clips[i].speaker for i in found.train} == {f"s{n}" for n in range(30)}
    alone = [a_clip(number, speaker=f"s{number}") for number in range(20)]
    assert split(alone).validation == ()


def test_max_train_samples_takes_the_first_and_leaves_validation():
    full, cut = split(some_clips(40)), split(some_clips(40), 5)
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


@pytest.mark.parametrize(
    ("language", "named", "remedy", "absent"),
    [
        ("el", "'el'", "train extend --language el --dataset", "xtts_v2"),
        ("de", "German", "set BASE_MODEL=xtts_v2", "extend"),
    ],
)
def test_a_language_of_all_clips_is_refused_in_one_line_with_the_remedy(
    read, tmp_path, language, named, remedy, absent
):
    with pytest.raises(DatasetError) as refusal:
        read(make_dataset(tmp_path / "data", clips=12), language=language)
    told = str(refusal.value)
    assert "BASE_MODEL=demo speaks English and Portuguese, and all 12 clips" in told
    assert f"are in {named} (LANGUAGE={language})" in told
    assert "\n" not in told and remedy in told and absent not in told


def test_how_the_transcript_was_read_is_said_at_every_start(read, tmp_path, settled):
    folder = make_dataset(tmp_path / "data", clips=9)
    (folder / "metadata_old.csv").write_text("clip-0|Something else.\n")
    for _ in range(2):
        assert read(folder).report().startswith("Not read: metadata_old.csv. The clips are those")


def test_clips_refused_for_one_reason_are_counted(read, tmp_path):
    folder = make_dataset(tmp_path / "data", clips=12)
    rows = [
        f"wavs/clip-{n}.wav|Text number {'abcdefghijkl'[n]}.|s|{'en' if n == 0 else 'de'}" for n in range(12)
    ]
    (folder / "metadata.csv").write_text("\n".join(rows))
    table = [line for line in read(folder).report().splitlines() if "'de' is not one" in line]
    assert len(table) == 6 and table[-1].startswith("… and 6 more")


@pytest.mark.parametrize(("code", "warned"), [("de", True), ("en", False)])
def test_german_texts_under_english_are_noticed(code, warned):
    path = Path(__file__).parents[3] / f"train/data/evaluation/{code}.txt"
    texts = path.read_text(encoding="utf-8").splitlines()
    clips = tuple(replace(a_clip(n), text=text) for n, text in enumerate(texts))
    found = Dataset(clips, (), tuple(range(len(clips))), ()).report()
    assert ("look like German" in found and "LANGUAGE=de" in found) is warned


def read_with(folder: Path, encode: Callable[..., list[int]], fingerprint: str = "a") -> Dataset:
    """Reads a dataset with a tokenizer that encodes by `encode`."""
    tokenizer: Any = SimpleNamespace(
        fingerprint=fingerprint,
        encode=encode,
        read=lambda *_: SimpleNamespace(missing=[]),
        max_tokens=400,
        languages=("en", "ja"),
    )
    settings = TrainSettings(dataset_dir=folder, cache_dir=folder.parent / "cache")
    return dataset.read(settings, tokenizer, GPTShape(text_ids=10, text_start=9))


def test_a_language_without_its_extra_stops_at_once(tmp_path):
    """Otherwise each row would be refused for the same reason; the error names the packages."""

    def lacking(*_: str) -> list[int]:
        raise TextError("LANGUAGE=ja needs cutlet") from ImportError("cutlet")

    with pytest.raises(TextError, match="cutlet"):
        read_with(make_dataset(tmp_path / "data", clips=2), lacking)


def test_texts_are_read_anew_by_another_tokenizer(tmp_path):
    folder = make_dataset(tmp_path / "data", clips=2)
    for fingerprint, ids, tokens in (("a", [1, 2], (1, 2)), ("a", [3], (1, 2)), ("b", [3], (3,))):
        found = read_with(folder, lambda *_, ids=ids: ids, fingerprint)
        assert found.clips[0].tokens == tokens


def test_clips_that_are_taken_out_are_told_and_the_split_stays(read, tmp_path):
    data = read(make_dataset(tmp_path / "data", clips=9))
    learned, held_out = data.clips[0], data.clips[data.validation[0]]
    left = data.without([RejectedClip(learned.name, "a tone", "SUSPECT_CLIPS=keep")])
    assert len(left.train) == len(data.train) - 1
    assert [left.clips[i] for i in left.validation] == [held_out]
    assert [one.name for one in left.refused] == [learned.name]
    every = [RejectedClip(clip.name, "a tone", "SUSPECT_CLIPS=keep") for clip in data.clips]
    with pytest.raises(DatasetError, match="All 8 training clips are suspect"):
        data.without(every)


def test_garbage_is_not_looked_for_inside_and_is_afterwards():
    assert gc.isenabled()
    with without_garbage_collection(), pytest.raises(ZeroDivisionError):
        with without_garbage_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()  # still inside the outer block
        raise ZeroDivisionError
    assert gc.isenabled()
