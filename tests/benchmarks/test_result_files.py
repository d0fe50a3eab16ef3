"""Result files and goals: writing, refusals and computed values."""

import json
import re
import subprocess

import pytest

from benchmarks import __main__ as program
from benchmarks import goals, result_files, text
from benchmarks.goals import Goal
from benchmarks.result_files import ResultError

WHOLE = {
    "subject": "Speaking",
    "title": "A sentence",
    "machine": "2 cores",
    "command": ".venv/bin/python -m benchmarks speaking",
    "load": "quiet",
    "date": "2026-11-25",
    "commit": "0a1b2c3",
    "recorded": "by the benchmark",
    "rounds": 3,
    "figures": {"ours": {"seconds": 2.0}, "coqui": {"seconds": 6.0, "v1.5": 4}},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(result_files, "FOLDER", tmp_path)
    return tmp_path


def written(folder, **changes):
    path = folder / "speaking.json"
    path.write_text(json.dumps(WHOLE | changes), encoding="utf-8")
    return path


# ---- files ----


@pytest.mark.parametrize("field", WHOLE)
def test_a_missing_field_is_refused_by_its_name(field, folder):
    content = {name: value for name, value in WHOLE.items() if name != field}
    path = folder / "speaking.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ResultError, match=rf"^speaking\.json: {field} is missing\. Fix the file"):
        result_files.read(path)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"subject": "Poetry"}, "subject"),
        ({"machine": " "}, "machine: Value error, it is empty"),
        ({"date": "yesterday"}, "date"),
        ({"commit": "main"}, "'main' is no commit"),
        ({"recorded": "from memory"}, "recorded"),
        ({"figures": {"ours": "fast"}}, "there is no figure in it"),
        ({"figures": {"ours": float("inf")}}, "a number in it is not finite"),
        ({"spread": 1}, "spread"),
    ],
)
def test_a_wrong_field_is_refused_with_what_is_wrong(changes, told, folder):
    with pytest.raises(ResultError, match=re.escape(told)):
        result_files.read(written(folder, **changes))


def test_no_file_at_all_is_a_sentence(folder):
    (folder / "speaking.json").write_text("{", encoding="utf-8")
    with pytest.raises(ResultError, match=r"^speaking\.json: the file"):
        result_files.read_all(folder)


def test_a_figure_is_found_by_its_path(folder):
    written(folder, figures=WHOLE["figures"] | {"starts": [4.9, 2.4]})
    results = result_files.read_all(folder)
    assert result_files.figure(results, "speaking.coqui.seconds") == 6.0
    assert result_files.figure(results, "speaking.coqui.v1.5") == 4
    assert result_files.figure(results, "speaking.starts.1") == 2.4
    for path in ("speaking.ours.rtf", "speaking.ours.seconds.more", "loading.ours"):
        with pytest.raises(ResultError, match=re.escape(path)):
            result_files.figure(results, path)


# ---- recording ----


def test_a_run_is_recorded_with_where_and_how(folder, monkeypatch, capsys):
    found = {"phrases": {"ours": 1.0}, "unseen": {"ours": 0.5}}
    monkeypatch.setattr(text, "run", lambda arguments: found)
    assert program.main(["text", "--record", "new", "--show"]) == 0
    result = result_files.read(folder / "text-new.json")
    assert result.command == ".venv/bin/python -m benchmarks text --show"
    assert (result.subject, result.title) == ("Speaking", "text new")
    assert result.figures == found
    assert re.match(r"\d+ cores? of .+, \d+ GB, ", result.machine)
    assert result.recorded == "by the benchmark" and "load average" in result.load
    assert json.loads(capsys.readouterr().out) == found


def test_recording_again_keeps_what_a_person_wrote(folder, monkeypatch):
    written(folder, title="Mine", method="By hand.")
    (folder / "speaking.json").rename(folder / "text.json")
    monkeypatch.setattr(text, "run", lambda arguments: {"ours": 0.5})
    assert program.main(["text", "--record"]) == 0
    result = result_files.read(folder / "text.json")
    assert (result.title, result.method) == ("Mine", "By hand.")
    assert result.figures == {"ours": 0.5}


def test_without_record_nothing_is_written(folder, monkeypatch):
    monkeypatch.setattr(text, "run", lambda arguments: {"ours": 0.5})
    assert program.main(["text"]) == 0
    assert list(folder.iterdir()) == []


def test_a_run_that_failed_is_not_recorded(folder, monkeypatch, capsys):
    monkeypatch.setattr(text, "run", lambda arguments: {"ours": 0.5})
    monkeypatch.setattr(text, "exit_code", lambda found: 1, raising=False)
    assert program.main(["text", "--record"]) == 1
    assert list(folder.iterdir()) == []
    assert "Not recorded" in capsys.readouterr().err


def test_a_run_without_figures_is_not_recorded(folder, monkeypatch, capsys):
    monkeypatch.setattr(text, "run", lambda arguments: {"ours": float("nan")})
    assert program.main(["text", "--record"]) == ResultError.exit_code
    assert list(folder.iterdir()) == []
    assert "text.json is not written: figures" in capsys.readouterr().err


def test_what_chooses_the_output_is_no_part_of_the_command():
    for words in (["--record"], ["--record", "new"], ["--record=new"]):
        told = result_files.command("text", [*words, "--seeds", "2"])
        assert told == ".venv/bin/python -m benchmarks text --seeds 2"


def test_a_commit_with_changes_is_marked(tmp_path, monkeypatch):
    def git(*words):
        name = ("-c", "user.name=a", "-c", "user.email=a@b.example")
        subprocess.run(["git", "-C", tmp_path, *name, *words], check=True, capture_output=True)

    monkeypatch.setattr(result_files, "__file__", str(tmp_path / "benchmarks" / "result_files.py"))
    assert result_files.commit() is None
    git("init")
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    (tmp_path / "code.py").write_text("1\n", encoding="utf-8")
    git("add", ".")
    git("commit", "-m", "Code")
    clean = result_files.commit()
    assert clean is not None and re.fullmatch(r"[0-9a-f]{7,}", clean)
    (tmp_path / "benchmarks" / "results" / "text.json").write_text("{}", encoding="utf-8")
    assert result_files.commit() == clean
    (tmp_path / "code.py").write_text("2\n", encoding="utf-8")
    assert result_files.commit() == f"{clean}+"


# ---- goals ----


def judged(folder, **fields):
    written(folder)
    content = {"subject": "Speaking", "goal": "{limit}", "figure": ["speaking.ours.seconds"]}
    goal = Goal.model_validate(content | fields)
    return goals.judged(goal, result_files.read_all(folder))


@pytest.mark.parametrize(
    ("fields", "figure"),
    [
        ({"at_most": 2.0}, 2.0),
        ({"at_least": 2.0}, 2.0),
        ({"at_most": 0.4, "divided_by": "speaking.coqui.seconds"}, 1 / 3),
        ({"at_most": -4.0, "minus": "speaking.coqui.seconds"}, -4.0),
    ],
)
def test_reached_and_missed_are_computed(fields, figure, folder):
    reached = judged(folder, **fields)
    assert reached.figures == pytest.approx((figure,))
    assert (reached.verdict, reached.results) == ("reached", ("speaking",))
    # The same figure against a limit on the other side.
    name = "at_least" if "at_least" in fields else "at_most"
    limit = 100.0 if name == "at_least" else -100.0
    assert judged(folder, **fields | {name: limit, "reason": "slow"}).verdict == "missed"


def test_all_figures_of_a_goal_have_to_keep_its_limit(folder):
    both = ["speaking.ours.seconds", "speaking.coqui.seconds"]
    assert judged(folder, figure=both, at_most=6.0).verdict == "reached"
    assert judged(folder, figure=both, at_most=5.0, reason="slow").verdict == "missed"


def test_a_miss_has_a_reason_and_a_reached_goal_has_none(folder):
    with pytest.raises(ResultError, match="is missed without a reason"):
        judged(folder, at_most=1.0)
    with pytest.raises(ResultError, match="is reached and has a reason"):
        judged(folder, at_most=3.0, reason="slow")


def test_what_is_no_number_cannot_be_compared(folder):
    with pytest.raises(ResultError, match="is no number"):
        judged(folder, figure=["speaking.ours"], at_most=1.0)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("", "reason and the command"),
        ('figure = ["a.b"]', "one of at_most, at_least and equals"),
        ('figure = ["a.b"]\nat_most = 1\nat_least = 2', "one of at_most, at_least and equals"),
        ('figure = ["a.b"]\nat_most = 1', "no {limit}"),
        ('reason = "none"\ncommand = "make"\nshape = 1', "shape"),
    ],
)
def test_a_goal_that_is_not_whole_is_refused(fields, told, tmp_path):
    path = tmp_path / "goals.toml"
    path.write_text(f'[[goal]]\nsubject = "GPU"\ngoal = "Fast"\n{fields}\n', encoding="utf-8")
    with pytest.raises(ResultError, match=rf"goals\.toml, 'Fast': .*{re.escape(told)}"):
        goals.read(path)


def test_a_goal_without_a_figure_is_not_measured():
    goal = Goal(subject="GPU", goal="Fast", reason="no GPU", command="make bench")
    assert goals.judged(goal, {}).verdict == "not measured"
