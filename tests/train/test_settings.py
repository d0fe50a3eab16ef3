"""The settings of a run: types, values, bounds."""

import re
from pathlib import Path

import pytest

from api import settings as api_settings
from machine.settings.loading import SettingsError, with_extras
from machine.settings.names import CORE_SETTINGS
from machine.settings.types import fields, means, purpose
from train import defaults
from train.__main__ import main
from train.settings import TrainSettings, load
from xtts.model.config import ModelConfig
from xtts.voices import base_models

DEVICES = ("DEVICE", "SAMPLE_DEVICE")


def test_the_defaults_of_the_contract():
    expected = {
        "base_model": "demo",
        "dataset_dir": Path("train/data/demo"),
        "dataset_format": "auto",
        "language": "en",
        "max_train_samples": None,
        "num_epochs": None,
        "learning_rate": None,
        "batch_seconds": None,
        "precision": "auto",
        "device": "auto",
        "sample_device": "auto",
        "keep_checkpoints": 3,
        "resume": "auto",
        "tensorboard": True,
        "tensorboard_port": 6006,
        "output_dir": Path("train/output"),
        "runs_dir": Path("train/runs"),
        "coqui_tos_agreed": False,
    }
    assert {name: getattr(TrainSettings(), name) for name in expected} == expected


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        *(("NUM_EPOCHS", text, value) for text, value in ((" 7 ", 7), ("AUTO", None))),
        *(("MAX_TRAIN_SAMPLES", text, None) for text in ("all", "")),
        ("MAX_TRAIN_SAMPLES", "9" * 30, int("9" * 30)),
        ("LANGUAGE", "zh-CN", "zh-cn"),
        ("KEEP_CHECKPOINTS", "all", None),
        ("KEEP_CHECKPOINTS", "", 3),
        ("LEARNING_RATE", "5e-6", 5e-6),
        ("LEARNING_RATE", "auto", None),
        ("BATCH_SECONDS", "90.5", 90.5),
        ("STOP_SECONDS", "0", 0.0),
        ("PRECISION", "BF16", "bf16"),
        *(("DEVICE", text, "cuda:1") for text in ("CUDA:1", "gpu:1")),
        *((name, text, "cuda") for name in DEVICES for text in ("cuda", "GPU")),
        *((name, text, text) for name in DEVICES for text in ("auto", "cpu", "cuda:0")),
        ("SAMPLE_DEVICE", "off", "off"),
        ("LANGUAGE", "PT", "pt"),
        ("LANGUAGE", "deu", "de"),
        ("LANGUAGE", "English", "en"),
        ("LANGUAGE", "Brazilian Portuguese", "pt"),
        ("RESUME", "runs/A/checkpoint_epoch_3.pt", "runs/A/checkpoint_epoch_3.pt"),
        ("RESUME", "never", "never"),
        ("BASE_MODEL", "/models/Ana", "/models/Ana"),
        ("DATASET_DIR", "/clips with spaces/Ana", Path("/clips with spaces/Ana")),
        *[("TENSORBOARD", word, True) for word in ("on", "1", "true", "YES")],
        *[("TENSORBOARD", word, False) for word in ("off", "0", "False", "no")],
        ("COQUI_TOS_AGREED", "1", True),
    ],
)
def test_a_value(name, text, value):
    settings, _ = load((), {name: text}, None)
    found = getattr(settings, name.lower())
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("name", ["DATASET_DIR", "OUTPUT_DIR", "RUNS_DIR", "BASE_MODEL", "RESUME"])
def test_home_is_filled_in(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    settings, _ = load((), {name: "~/x"}, None)
    assert str(getattr(settings, name.lower())) == str(tmp_path / "x")


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        *(
            ("NUM_EPOCHS", text, "a whole number from 1 to 100000, or auto")
            for text in ("ten", "0", "-3", "2.5", "1e400", "9" * 40, "all", '"3"')
        ),
        *(("MAX_TRAIN_SAMPLES", text, "empty or all = all clips") for text in ("0", "auto")),
        ("KEEP_CHECKPOINTS", "0", "a whole number from 1, or all"),
        *(("LEARNING_RATE", text, "a number above 0") for text in ("0", "nan", "inf")),
        ("LEARNING_RATE", "0,001", "such as 5e-6"),
        ("BATCH_SECONDS", "-1", "a number of seconds from 1"),
        ("STOP_SECONDS", "inf", "a number of seconds from 0"),
        ("PRECISION", "int8", "auto, fp32, bf16 or fp16"),
        *((name, text, "auto, cpu, gpu") for name in DEVICES for text in ("gpus", "cuda:", "cuda:-1")),
        ("DEVICE", "off", "cuda:N"),
        ("BLEND", "0", "a number above 0, to 1"),
        ("SAMPLE_EVERY", "0", "a whole number from 1"),
        *(("TENSORBOARD", text, "on or off") for text in ("maybe", "2")),
        *(("TENSORBOARD_PORT", text, "a port from 1 to 65535") for text in ("65536", "0")),
        ("SEED", "4294967296", "a whole number from 0"),
        ("DATASET_DIR", "~nobody_of_that_name/clips", "a folder"),
        ("COQUI_TOS_AGREED", "agreed", "on or off"),
    ],
)
def test_a_refused_value(name, text, allowed):
    with pytest.raises(SettingsError) as caught:
        load((), {name: text}, None)
    (fault,) = caught.value.faults
    assert fault.startswith(f"{name} is {text!r} (environment); allowed: ")
    assert allowed in fault


@pytest.mark.parametrize("load_settings", [load, api_settings.load], ids=["train", "api"])
def test_the_allowed_bounds_are_the_real_ones(load_settings):
    """`from 1` takes 1, `above 0` refuses 0, `to 0.9` takes 0.9, `below 1` refuses 1."""
    kind = type(load_settings((), {}, None)[0])
    tried = []
    for name, info in fields(kind).items():
        for words, number in re.findall(r"\b(from|above|to|below|to below) ([\d.]*\d)", means(info).allowed):
            taken = not isinstance(outcome(load_settings, name.upper(), number), SettingsError)
            tried.append(name)
            assert taken is (words in ("from", "to")), f"{name}: {means(info).allowed}"
    assert len(set(tried)) >= (12 if issubclass(kind, TrainSettings) else 2)


def outcome(load_settings, name, text):
    try:
        return load_settings((), {name: text}, None)
    except SettingsError as error:
        return error


def test_what_auto_takes_is_told():
    known, advice = fields(TrainSettings), ModelConfig.read(base_models.DEMO).training
    recipe = f"{defaults.XTTS_LEARNING_RATE:.0e}".replace("e-0", "e-")
    for name, demo, other in (
        ("num_epochs", advice.num_epochs, defaults.DEFAULT_EPOCHS),
        ("learning_rate", "2e-6", recipe),
    ):
        assert f"(demo {demo}), or" in purpose(known[name])
        assert re.search(rf"else .*\b{other}, as for XTTS-v2\.", purpose(known[name]))
    assert advice.learning_rate == 2e-6


def test_how_long_the_container_waits_is_told():
    compose = (Path(__file__).parents[2] / "docker-compose-training.yml").read_text()
    assert "stop_grace_period: 2m" in compose
    assert "waits two minutes" in purpose(fields(TrainSettings)["stop_seconds"])


def test_the_program_refuses_and_writes_nothing(tmp_path, monkeypatch, capsys):
    for name in CORE_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".env").write_text("NUM_EPOCHS=ten\nMAX_TRAIN_SAMPLE=5\n")
    monkeypatch.chdir(tmp_path)
    assert main(["--seed", "x"]) == 2
    told = capsys.readouterr().err
    allowed = "a whole number from 1 to 100000, or auto."
    assert f"NUM_EPOCHS is 'ten' (.env, line 1); allowed: {allowed}" in told
    assert ".env, line 2: MAX_TRAIN_SAMPLE is not a setting; did you mean MAX_TRAIN_S" in told
    assert "SEED is 'x' (command line)" in told
    assert [path.name for path in tmp_path.iterdir()] == [".env"]


def test_a_switch_that_is_gone_is_a_note_in_a_dotenv(tmp_path):
    (tmp_path / ".env").write_text("SEED=3\nPREFETCH=off\nDROPOUT=0.2\n")
    settings, report = load((), {}, tmp_path / ".env")
    assert settings.seed == 3
    assert [note.partition(", line ")[2] for note in sorted(report.notes)] == [
        "2: PREFETCH is no longer a setting; that option is always on.",
        "3: DROPOUT is no longer a setting; it is 0.1.",
    ]
    with pytest.raises(SettingsError, match=r"--dropout is not a setting .* any more: it is 0\.1"):
        load(["--dropout", "0.2"], {}, None)


@pytest.mark.parametrize("name", sorted(name.upper() for name in fields(with_extras(TrainSettings))))
def test_no_setting_is_without_effect(name):
    """Code outside the settings classes reads each setting."""
    root = Path(__file__).parents[2]
    files = [path for package in ("train", "xtts", "extras") for path in (root / package).rglob("*.py")]
    read = re.compile(rf"settings\.{name.lower()}\b")
    assert any(read.search(path.read_text(encoding="utf-8")) for path in files)


def test_the_desktops_locale_is_not_our_language():
    """In GNU gettext LANGUAGE is a list of locales; our setting is a language code."""
    settings, report = load((), {"LANGUAGE": "pt_BR:pt:en"}, None)
    assert settings.language == "en"
    assert any("pt_BR:pt:en" in note for note in report.notes)
    assert load((), {"LANGUAGE": "pt"}, None)[0].language == "pt"


@pytest.mark.parametrize(
    ("name", "text", "more"),
    [
        ("LANGUAGE", "Klingon", "XTTS-v2's are ar, cs, de, en,"),
        ("SEED", "9" * 30, "It must be below 4,294,967,296."),
        ("LORA_RANK", "5000", "It must be at most 1,024."),
        ("NUM_EPOCHS", "1000000000", "It must be at most 100,000."),
        ("BATCH_SECONDS", "1e308", "It must be at most 100,000."),
        ("STOP_SECONDS", "1e300", "It must be at most 86,400."),
    ],
)
def test_a_refusal_names_the_limit_that_was_passed_or_what_was_meant(name, text, more):
    with pytest.raises(SettingsError) as refusal:
        load([], {name: text}, None)
    (fault,) = refusal.value.faults
    assert fault.startswith(f"{name} is {text!r}") and more in fault


def test_a_folder_setting_that_is_a_file_or_cannot_be_looked_at_is_a_sentence(tmp_path):
    (tmp_path / "tape.wav").write_bytes(b"")
    for place, why in (
        (tmp_path / "tape.wav", "It is a file."),
        (tmp_path / ("a" * 300), "File name too long."),
    ):
        with pytest.raises(SettingsError, match=f"OUTPUT_DIR.*{why}"):
            load((), {"OUTPUT_DIR": str(place)}, None)
    with pytest.raises(SettingsError, match=r"DATASET_DIR.*File name too long"):
        load((), {"DATASET_DIR": str(tmp_path / ("a" * 300))}, None)
