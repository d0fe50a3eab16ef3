"""Which files of a folder are read, which hold validation clips, and which are listed as unread."""

import json

import pytest

from extras.layouts.transcripts import find_transcripts
from tests.train.dataset.test_metadata import notes, refusal, rows, written
from train.dataset.metadata import read_entries

ROWS = [f"wavs/{n}.wav|Text of clip {n}, in words." for n in range(6)]


def files(folder, **texts) -> None:
    (folder / "wavs").mkdir(exist_ok=True)
    for n in range(6):
        (folder / "wavs" / f"{n}.wav").touch()
    for name, text in texts.items():
        written(folder, "\n".join(text) + "\n", name.replace("__", "."))


def held_out(folder) -> list[bool | None]:
    return [entry.validation for entry in read_entries(folder, "auto", "en")]


@pytest.mark.parametrize(
    ("train", "validation"),
    [
        ("metadata_train.csv", "metadata_eval.csv"),
        ("metadata_train.csv", "metadata_val.csv"),
        ("metadata.csv", "metadata_val.csv"),
        ("metadata.csv", "metadata_eval.csv"),
        ("train.list", "val.list"),
        ("train.txt", "validation.txt"),
        ("train.tsv", "dev.tsv"),
        ("ljs_audio_text_train_filelist.txt", "ljs_audio_text_val_filelist.txt"),
        ("train_list.txt", "val_list.txt"),
        ("train.csv", "valid.csv"),
        ("training.csv", "validation.csv"),
        ("metadata.csv", "val.csv"),
    ],
)
def test_the_second_file_is_the_validation_set(tmp_path, train, validation):
    files(tmp_path, **{train: ROWS[:4], validation: ROWS[3:]})
    assert held_out(tmp_path) == [False] * 3 + [True] * 3
    assert notes(tmp_path) == [
        f"{validation} is the validation set: 3 clips. 1 clip of {train}, in both files, left out "
        "of training."
    ]


def test_a_second_file_with_all_clips_is_not_a_split(tmp_path):
    files(tmp_path, **{"metadata_train.csv": ROWS[:5], "metadata_eval.csv": ROWS})
    assert held_out(tmp_path) == [None] * 6
    assert notes(tmp_path) == [
        "metadata_eval.csv holds all clips of metadata_train.csv, so it is not used as the validation set."
    ]


def test_a_second_file_without_clips_leaves_the_choice(tmp_path):
    """xtts-finetune-webui holds out none of six clips, and still writes the header."""
    header = "audio_file|text|speaker_name"
    train = [header, *(f"{row}|coqui" for row in ROWS)]
    files(tmp_path, **{"metadata_train.csv": train, "metadata_eval.csv": [header]})
    assert held_out(tmp_path) == [None] * 6
    assert "metadata_eval.csv holds no clip" in notes(tmp_path)[0]


def test_every_other_transcript_in_the_folder_is_named(tmp_path):
    files(
        tmp_path,
        **{
            "metadata.csv": ROWS,
            "metadata_old.csv": ["x"],
            "a.list": ["x|y"],
            "b.tsv": ["x"],
            "c.jsonl": ["{}"],
            "d.txt": ROWS,
            "lang.txt": ["en"],
            "normalization.txt": ["a|b"],
            "account.csv": ["a,b"],
        },
    )
    left = "a.list, b.tsv, c.jsonl, d.txt, metadata_old.csv"
    assert notes(tmp_path) == [f"Not read: {left}. The clips are those of metadata.csv."]


@pytest.mark.parametrize("name", ["metadata.txt", "metadata.list", "esd.list", "transcript.txt"])
def test_one_transcript_under_another_name_is_read(tmp_path, name):
    files(tmp_path, **{name: ROWS, "README.txt": ["Some words about", "these recordings."]})
    assert [row[0] for row in rows(tmp_path)] == [f"wavs/{n}.wav" for n in range(6)]


def test_names_and_words_apart_by_a_space(tmp_path):
    files(tmp_path, **{"transcripts.txt": [f"{n} TEXT OF CLIP {n}" for n in range(6)]})
    assert [row[:2] for row in rows(tmp_path)] == [(f"{n}", f"TEXT OF CLIP {n}") for n in range(6)]


def test_several_are_refused_with_all_their_names(tmp_path):
    files(tmp_path, **{"a.list": ROWS, "b.list": ROWS, "c.txt": ROWS})
    told = refusal(tmp_path)
    assert "holds 3 transcripts: a.list, b.list, c.txt." in told
    assert "rename it to metadata.list" in told
    (tmp_path / "a.list").rename(tmp_path / "metadata.list")
    assert len(rows(tmp_path)) == 6


def test_a_folder_for_each_person_is_refused_with_all_folders(tmp_path):
    for person in ("anna", "ben", "cleo"):
        (tmp_path / person).mkdir()
        files(tmp_path / person, **{"metadata.csv": ROWS})
    told = refusal(tmp_path)
    assert "anna/metadata.csv, ben/metadata.csv, cleo/metadata.csv" in told
    assert "set DATASET_DIR to its folder" in told


def test_one_transcript_below_the_folder_is_read(tmp_path):
    (tmp_path / "dataset").mkdir()
    files(tmp_path / "dataset", **{"metadata_train.csv": ROWS[:4], "metadata_eval.csv": ROWS[4:]})
    assert [row[0] for row in rows(tmp_path)] == [f"dataset/wavs/{n}.wav" for n in range(6)]
    assert held_out(tmp_path) == [False] * 4 + [True] * 2


def test_a_format_by_name_reads_its_own_files(tmp_path):
    files(tmp_path, **{"metadata_train.csv": ROWS[:3], "metadata.csv": ROWS})
    found = {form: len(read_entries(tmp_path, form, "en")) for form in ("auto", "coqui", "ljspeech")}
    assert found == {"auto": 3, "coqui": 3, "ljspeech": 6}
    assert find_transcripts(tmp_path).unread == (tmp_path / "metadata.csv",)


def test_a_table_that_names_no_recording_is_named_with_what_to_do(tmp_path):
    files(tmp_path, **{"speech.csv": ["who,what", "x,y"]})
    told = refusal(tmp_path)
    assert "No column of speech.csv names these recordings" in told and "header line" in told


def test_marks_between_joined_files_are_no_part_of_a_name(tmp_path):
    marked = ["\ufeff" + row if n in (0, 3) else row for n, row in enumerate(ROWS)]
    files(tmp_path, metadata__csv=marked)
    assert [row[0] for row in rows(tmp_path)] == [f"wavs/{n}.wav" for n in range(6)]


def test_recordings_of_one_speaker_in_several_folders_are_told(tmp_path):
    for n in range(6):
        (tmp_path / ("ann", "ben")[n % 2]).mkdir(exist_ok=True)
        (tmp_path / ("ann", "ben")[n % 2] / f"{n}.wav").touch()
    text = [f"{('ann', 'ben')[n % 2]}/{n}.wav|Text of clip {n}, in words." for n in range(6)]
    written(tmp_path, "\n".join(text))
    assert (
        "The 2 folders are read as one speaker. If each folder is another person, add" in (notes(tmp_path)[0])
    )
    written(tmp_path, "\n".join(f"{row}|{row[:3]}" for row in text))
    assert {row[2] for row in rows(tmp_path)} == {"ann", "ben"} and notes(tmp_path) == []


@pytest.mark.parametrize(
    "content",
    [
        {"a.wav": "One of them.", "b.wav": "Two of them."},
        {"a.wav": {"text": "One of them."}, "b.wav": {"text": "Two of them."}},
        {
            "version": 1,
            "data": [{"audio": "a.wav", "text": "One of them."}, {"audio": "b.wav", "text": "Two of them."}],
        },
    ],
)
def test_one_json_object_that_holds_all_clips(tmp_path, content):
    for name in ("a.wav", "b.wav"):
        (tmp_path / name).touch()
    written(tmp_path, json.dumps({"name": "a corpus"}), "dataset_info.json")
    written(tmp_path, json.dumps(content), "metadata.json")
    assert [row[:2] for row in rows(tmp_path)] == [("a.wav", "One of them."), ("b.wav", "Two of them.")]
    written(tmp_path, json.dumps(content, indent=1), "metadata.json")
    assert len(rows(tmp_path)) == 2


def test_a_list_of_objects_in_a_json_file(tmp_path):
    objects = [{"file_name": "a.wav", "text": "One\nline."}, {"file_name": "b.wav", "text": "Two."}]
    written(tmp_path, json.dumps(objects, indent=1), "metadata.json")
    assert [row[:2] for row in rows(tmp_path)] == [("a.wav", "One line."), ("b.wav", "Two.")]
