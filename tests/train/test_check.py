"""`python -m train check` from the command line."""

import contextlib
import io
import json
from pathlib import Path

import pytest

from tests.bad_audio import FILES
from tests.datasets import make_dataset


def test_a_good_dataset_is_counted_and_nothing_but_the_cache_is_written(check, tmp_path):
    make_dataset(tmp_path / "data", clips=9)
    code, said = check("--no-likelihood")
    assert code == 0
    assert "Dataset: 8 clips, 0.1 min for training; 1 clip, 1 s for validation; 0 ref" in said
    assert {path.name for path in tmp_path.iterdir()} == {"data", "cache"}
    assert not list((tmp_path / "cache").glob("features-*"))


def test_json_has_the_totals_the_refused_and_the_suspect_clips(check, tmp_path):
    folder = make_dataset(tmp_path / "data", clips=9)
    bad = next(file for file in FILES if file.name == "nan.wav")
    (folder / "wavs" / bad.name).write_bytes(bad.content())
    with (folder / "metadata.csv").open("a") as file:
        file.write("nan.wav|Some text.\n")
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        code, _said = check("--json", "--no-likelihood", DATASET_FORMAT="ljspeech")
    found = json.loads(written.getvalue().splitlines()[-1])
    assert code == 0 and found["clips"] + found["validation_clips"] == 9
    assert [one["clip"] for one in found["refused"]] == ["nan.wav"]
    assert found["minutes"] > 0 and isinstance(found["suspects"], list)


def test_rows_are_shown_as_they_were_understood_before_anything_else(check, tmp_path):
    folder = make_dataset(tmp_path / "data", clips=9)
    texts = [row.split("|")[1] for row in (folder / "metadata.csv").read_text().splitlines()]
    (folder / "metadata.csv").write_text(
        "".join(f"clip-{n}|{'anna' if n < 7 else 'ben'}|{texts[n]}\n" for n in range(9))
    )
    code, said = check("--no-likelihood")
    assert code == 0
    first, *others = said.splitlines()[:5]
    assert first.endswith("data: metadata.csv (file|speaker|text): 3 of 9 rows as understood")
    assert others == [
        "file             text                             speaker  language",
        "wavs/clip-0.wav  This is clip one, number one.    anna     en",
        "wavs/clip-4.wav  This is clip five, number one.   anna     en",
        "wavs/clip-7.wav  This is clip eight, number one.  ben      en",
    ]


def test_check_and_run_answer_one_language_with_one_refusal(check, tmp_path):
    """A user with German clips must not be advised to teach the base German."""
    make_dataset(tmp_path / "data", clips=9)
    answers = [
        check(verb=verb, LANGUAGE="de", OUTPUT_DIR="out", RUNS_DIR="runs", TENSORBOARD="off")
        for verb in ("check", "run")
    ]
    assert [code for code, _ in answers] == [2, 2]
    last = [said.splitlines()[-1] for _, said in answers]
    assert last[0] == last[1] and "are in German (LANGUAGE=de). XTTS-v2 speaks it" in last[0]
    assert not any("extend" in said or "vocabulary lacks" in said for _, said in answers)


def test_refused_clips_are_in_a_table(check, tmp_path):
    folder = make_dataset(tmp_path / "data", clips=2)
    bad = next(file for file in FILES if file.name == "nan.wav")
    (folder / "wavs" / bad.name).write_bytes(bad.content())
    with (folder / "metadata.csv").open("a") as file:
        file.write("nan.wav|Some text.\n")
    code, said = check(DATASET_FORMAT="ljspeech")
    assert code == 0 and "1 refused" in said
    assert "refused clip" in said and "non-finite" in said


def test_clips_whose_text_cannot_be_read_are_in_the_table(check, tmp_path):
    folder = make_dataset(tmp_path / "data", clips=5)
    texts = ["9" * 307, "0" * 4096, "hello \u4f60\u597d"]
    names = sorted(path.name for path in (folder / "wavs").iterdir())[: len(texts)]
    rows = (folder / "metadata.csv").read_text().splitlines()
    kept = [row for row in rows if Path(row.split("|")[0]).stem not in {n[:-4] for n in names}]
    bad = [f"{name}|{text}" for name, text in zip(names, texts, strict=True)]
    (folder / "metadata.csv").write_text("\n".join(kept + bad) + "\n", encoding="utf-8")
    code, said = check(DATASET_FORMAT="ljspeech")
    assert code == 0 and "3 refused" in said and "Traceback" not in said
    assert "a number of 307 digits" in said and "4,096 characters are too many" in said
    assert "unknown characters" in said


@pytest.mark.parametrize(
    ("metadata", "seen"),
    [
        (None, "is not a folder"),
        ("a|b|c|d|e\n", "5 columns whose meaning is not clear"),
        ("../a.wav|Text.\n", "without `..`"),
        ("absent|Text.\n", "No clip of"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(check, tmp_path, metadata, seen):
    if metadata:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "metadata.csv").write_text(metadata)
    code, said = check()
    assert code == 2 and seen in said and "Traceback" not in said


def test_damage_is_found_named_and_mended(check, tmp_path):
    make_dataset(tmp_path / "data", clips=4)
    code, said = check("--verify")
    assert code == 0 and "0 records are intact, 4 are missing" in said
    assert check(verb="prepare")[0] == 0
    (shard,) = tmp_path.glob("cache/features-*/*.bin")
    content = bytearray(shard.read_bytes())
    content[10] ^= 1
    shard.write_bytes(content)
    code, said = check("--verify")
    assert code == 2 and "3 records are intact, 0 are missing" in said
    assert "1 are damaged" in said and "Damaged: clip-0." in said and "--repair" in said
    code, said = check("--repair")
    assert code == 0 and "1 damaged records were computed again. clip-0" in said
    assert check("--verify")[0] == 0
