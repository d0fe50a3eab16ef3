"""Findings on the disk, the memory and the trial sentence."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

import api.__main__
import train.__main__
from extras.common import training_preflight
from extras.common.readings import programs
from extras.common.readings.snapshot import MachineSettings, Storage, TrialSpeech
from extras.doctor import serving_preflight
from extras.doctor.checks import surroundings
from extras.doctor.checks.surroundings import disk, memory, speech
from extras.doctor.finding import Severity
from extras.doctor.verbs.doctor import preflights
from tests.extras.common.readings.places import write
from tests.extras.doctor.simulated import DEMO_BYTES, computer, gpu


@pytest.mark.parametrize(
    ("free_bytes", "model_bytes", "status"),
    [
        (1_000_000_000, DEMO_BYTES, Severity.OK),
        (200_000_000, DEMO_BYTES, Severity.WARN),
        (100_000_000, DEMO_BYTES, Severity.FAIL),
        (1_000_000_000, 1_867_929_118, Severity.FAIL),
        (10_000_000_000, 1_867_929_118, Severity.WARN),
        (20_000_000_000, 1_867_929_118, Severity.OK),
    ],
)
def test_the_disk_is_measured_by_the_model(free_bytes, model_bytes, status):
    place = Storage(Path("/data"), free_bytes, 10**12)
    assert disk(MachineSettings(model_bytes=model_bytes), place).status is status


def test_a_folder_that_cannot_be_written_is_worse_than_a_full_one():
    place = Storage(Path("/data"), 10**12, 10**12, "read-only file system")
    found = disk(MachineSettings(), place)
    assert found.status is Severity.FAIL and "read-only" in found.evidence


def test_memory_counts_for_the_cpu_only():
    small = replace(computer(), memory_bytes=8_000_000_000)
    full_size = MachineSettings(base_model="xtts_v2")
    assert memory(full_size, small).status is Severity.WARN
    assert memory(full_size, replace(small, gpus=(gpu(),))).status is Severity.OK
    assert memory(MachineSettings(), small).status is Severity.OK


@pytest.mark.parametrize(
    ("spoken", "status"),
    [
        (TrialSpeech("cpu", 1.0, 2.5, 0.1), Severity.OK),
        (TrialSpeech("cpu", 1.0, 2.5, 0.0), Severity.FAIL),
        (TrialSpeech("cpu", 1.0, 0.1, 0.1), Severity.FAIL),
        (TrialSpeech("cpu", fault="ended by Segmentation fault"), Severity.FAIL),
        (TrialSpeech("cuda:0", 1.0, 2.5, 0.1, 1e-5), Severity.OK),
        (TrialSpeech("cuda:0", 1.0, 2.5, 0.1, 1.3), Severity.WARN),
        (TrialSpeech("cuda:0", 1.0, 2.6, 0.1, None), Severity.WARN),
    ],
)
def test_speech(spoken, status):
    (found,) = speech((spoken,))
    assert (found.id, found.status) == (f"speech_{spoken.device}", status)


@pytest.mark.parametrize(
    ("lines", "program"),
    [
        ("NUM_EPOCHS=abc\n", "train"),
        ("BASE_MODEL=nope\n", "train"),
        ("BASE_MODEL=xtts_v2\n", "train"),
        ("DATASET_DIR=nowhere\n", "train"),
        ("API_PORT=high\n", "api"),
        ("API_HOST=0.0.0.0\n", "api"),
    ],
)
def test_what_a_program_would_refuse_is_told_in_its_own_words(lines, program, tmp_path, capsys, monkeypatch):
    dotenv = write(tmp_path, {".env": lines}) / ".env"
    told = {"train": training_preflight.refusals(dotenv), "api": serving_preflight.refusals(dotenv)}
    refused = tuple((name, sentence) for name, sentences in told.items() for sentence in sentences)
    assert set(dict(refused)) == {program}
    finding = surroundings.settings(MachineSettings(), refused)
    assert finding.status is Severity.FAIL
    # The real program in the folder of that .env, with the demo's clips at their default place.
    (tmp_path / "train").symlink_to(Path(train.__file__).parent)
    monkeypatch.chdir(tmp_path)
    main = {"train": lambda: train.__main__.main(["check"]), "api": lambda: api.__main__.main([])}
    assert main[program]() == 2
    # The consent to XTTS-v2 names no file: "a line of .env".
    told_by_program = re.sub(r"(?<!line of )\.env", str(dotenv), capsys.readouterr().err.strip())
    assert told_by_program == finding.meaning


def test_settings_that_both_programs_accept_are_no_finding(tmp_path):
    dotenv = write(tmp_path, {".env": "NUM_EPOCHS=3\nAPI_PORT=8005\n"}) / ".env"
    assert training_preflight.refusals(dotenv) == serving_preflight.refusals(dotenv) == []


def test_each_program_is_asked_in_its_own_process(tmp_path):
    dotenv = write(tmp_path, {".env": "NUM_EPOCHS=abc\nAPI_PORT=high\n"}) / ".env"
    environ = {"PATH": os.defpath, "HOME": str(tmp_path)}
    refused = programs.refused_settings(preflights(), environ, dotenv)
    assert list(refused) == [
        ("a run", training_preflight.refusals(dotenv)[0]),
        ("the service", serving_preflight.refusals(dotenv)[0]),
    ]
    finding = surroundings.settings(MachineSettings(), refused)
    assert finding.observed == "the settings are invalid: a run and the service would not start"
