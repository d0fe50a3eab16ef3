"""job.json: a written job is read back, and one of another version is ignored."""

from dataclasses import dataclass

from api.background.job_file import Job, read_job, write_job
from machine.storage.atomic import write_json


@dataclass(frozen=True)
class Cut(Job):
    inputs: str = ""


def test_a_job_is_kept_with_its_changes(tmp_path):
    assert read_job(tmp_path, Cut) == Cut() and not Cut().is_queued
    asked = write_job(tmp_path, Cut(inputs="a"), state="queued", asked="2026-01-01")
    assert asked == read_job(tmp_path, Cut) == Cut("queued", "2026-01-01", inputs="a")
    assert asked.is_queued and not write_job(tmp_path, asked, state="done").is_queued
    assert read_job(tmp_path, Cut).asked == "2026-01-01"


def test_a_job_of_another_version_is_none(tmp_path):
    write_json(tmp_path / "job.json", {"state": "done", "unknown": 1})
    assert read_job(tmp_path, Job) == Job()
