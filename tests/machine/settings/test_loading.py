"""Loading settings: precedence, `.env`, faults, notes, secrets."""

import random
import re
from pathlib import Path

import pytest
from dotenv import dotenv_values

from api import settings as api
from api.settings import ApiSettings
from machine.errors import SotaqueError
from machine.settings import dotenv
from machine.settings.loading import SettingsError, values_of, with_extras
from machine.settings.names import BY_COMMON_NAME, BY_TRAINER_NAME, CORE_SETTINGS, likely_names
from machine.settings.types import fields, means
from train.settings import TrainSettings, load


def env(folder: Path, content: str | bytes) -> Path:
    path = folder / ".env"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def faults(
    folder: Path, content: str | bytes = "", argv: tuple[str, ...] = (), **environ: str
) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load(argv, environ, env(folder, content))
    assert caught.value.exit_code == 2 and isinstance(caught.value, SotaqueError)
    assert all(fault in str(caught.value) for fault in caught.value.faults)
    return caught.value.faults


@pytest.mark.parametrize(
    ("argv", "environ", "content", "value", "source"),
    [
        (["--num-epochs", "1"], {"NUM_EPOCHS": "2"}, "NUM_EPOCHS=3", 1, "command line"),
        (["--num-epochs=1"], {"NUM_EPOCHS": "2"}, "NUM_EPOCHS=3", 1, "command line"),
        ([], {"NUM_EPOCHS": "2"}, "NUM_EPOCHS=3", 2, "environment"),
        ([], {}, "NUM_EPOCHS=3", 3, ".env, line 1"),
        ([], {}, "", None, "default"),
        # An empty value means the default and still wins over the sources below it.
        (["--num-epochs", ""], {"NUM_EPOCHS": "2"}, "", None, "command line"),
        (["--num-epochs="], {"NUM_EPOCHS": "2"}, "", None, "command line"),
        ([], {"NUM_EPOCHS": ""}, "NUM_EPOCHS=3", None, "environment"),
        ([], {"NUM_EPOCHS": "  "}, "NUM_EPOCHS=3", None, "environment"),
        ([], {}, "NUM_EPOCHS=", None, ".env, line 1"),
        # An overruled value is not validated.
        (["--num-epochs", "1"], {"NUM_EPOCHS": "ten"}, "NUM_EPOCHS=-1", 1, "command line"),
    ],
)
def test_precedence(tmp_path, monkeypatch, argv, environ, content, value, source):
    env(tmp_path, content)
    monkeypatch.chdir(tmp_path)
    settings, report = load(argv, environ)
    assert settings.num_epochs == value
    assert ("NUM_EPOCHS", source) in [(name, where) for name, _, where in report.rows]


def test_the_contracts_example_means_all_clips(tmp_path):
    path = env(tmp_path, "MAX_TRAIN_SAMPLES=1000\nNUM_EPOCHS=50\n")
    settings, _ = load((), {"MAX_TRAIN_SAMPLES": "", "NUM_EPOCHS": "100"}, path)
    assert (settings.max_train_samples, settings.num_epochs) == (None, 100)


def test_the_environment_is_this_processes_unless_told(tmp_path, monkeypatch):
    monkeypatch.setenv("NUM_EPOCHS", "7")
    assert load((), None, tmp_path / "absent")[0].num_epochs == 7
    assert load((), {}, None)[0].num_epochs is None


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("SAMPLE_TEXT=Bom dia", "Bom dia"),
        ("SAMPLE_TEXT=Olá, tudo bem?", "Olá, tudo bem?"),
        ("\ufeffSAMPLE_TEXT=first line, a mark", "first line, a mark"),
        ("export SAMPLE_TEXT=exported", "exported"),
        ("SAMPLE_TEXT = spaces around", "spaces around"),
        ("SAMPLE_TEXT=value  # ou vazio", "value"),
        ("SAMPLE_TEXT= # a comment alone", None),
        ('SAMPLE_TEXT="a # inside"', "a # inside"),
        ('SAMPLE_TEXT="two\\tparts"', "two\tparts"),
        ("SAMPLE_TEXT='it costs $5'", "it costs $5"),
        ("SAMPLE_TEXT='${HOME}'", "${HOME}"),
        ("\r\n# comment\r\nSAMPLE_TEXT=windows\r\n", "windows"),
        ("SAMPLE_TEXT=${GREETING}, Ana", "Hello, Ana"),
        ("SAMPLE_TEXT=${NOBODY:-Hi}", "Hi"),
        ("SAMPLE_TEXT=${EMPTY:-Hi}", "Hi"),
        ("SAMPLE_TEXT=${EMPTY}", None),
        ("NAME=Rui\nSAMPLE_TEXT=Hi ${NAME}", "Hi Rui"),
        ("GREETING=Bye\nSAMPLE_TEXT=${GREETING}", "Hello"),
        ("MONEY='$5'\nSAMPLE_TEXT=${MONEY}", "$5"),
        ("SAMPLE_TEXT=one\nSAMPLE_TEXT=two", "two"),
    ],
)
def test_a_line_of_env(tmp_path, content, value):
    environ = {"GREETING": "Hello", "EMPTY": "", "HOME": "/home/ana"}
    settings, _ = load((), environ, env(tmp_path, content))
    assert settings.sample_text == value


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("NUM_EPOCHS 3", ("line 1", "NUM_EPOCHS", "NAME=value")),
        ("\n\nNUM_EPOCHS: 3", ("line 3", "NAME=value")),
        ("NUM_EPOCHS", ("line 1", "NUM_EPOCHS has no '='")),
        ('SEED=1\nSAMPLE_TEXT="never closed\n', ("line 2", "SAMPLE_TEXT", "NAME=value")),
        ("SAMPLE_TEXT=costs $5", ("line 1", "SAMPLE_TEXT", "single quotes")),
        ("SAMPLE_TEXT=$HOME", ("line 1", "single quotes")),
        ("SAMPLE_TEXT=${NOBODY:?why}", ("line 1", "single quotes")),
        ("DATASET_DIR=${CLIPS}", ("line 1", "DATASET_DIR", "${CLIPS}", "not set")),
        (b"SEED=1\nSAMPLE_TEXT=Ol\xe1\n", ("line 2", "not UTF-8")),
        ("SEED=1".encode("utf-16"), ("line 1", "save it as UTF-8")),
        ("SEED=1".encode("utf-16-le"), ("UTF-16", "save it as UTF-8")),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path, content, words):
    (fault,) = faults(tmp_path, content)
    assert all(word in fault for word in words), fault


def test_a_folder_in_place_of_env_is_named(tmp_path):
    (tmp_path / ".env").mkdir()
    with pytest.raises(SettingsError, match="cannot be read"):
        load((), {}, tmp_path / ".env")


@pytest.mark.parametrize("texts", [400, pytest.param(4000, marks=pytest.mark.slow)])
def test_our_reading_is_python_dotenvs(texts, tmp_path, caplog):
    """Any text is read without an exception; if no fault is reported, the values of our names
    match python-dotenv's."""
    caplog.set_level("ERROR", "dotenv.main")
    chance = random.Random(4)
    parts = [*"A= #'\"\n\\é", "B=1", "\r\n", "export ", "x y"]
    agreed = 0
    for _ in range(texts):
        path = env(tmp_path, "".join(chance.choices(parts, k=chance.randint(0, 12))))
        ours = dotenv.read(path, {}, frozenset({"A", "B"}))
        reference = dotenv_values(path, interpolate=False)
        if not ours.faults:
            for name in ("A", "B"):
                line = ours.given.get(name)
                assert (line and line.text) == reference.get(name)
                agreed += line is not None
    assert agreed > texts / 20


def test_a_broken_line_does_not_tell_a_secret(tmp_path):
    for content in ('API_KEY="hunter2\n', "API_KEY hunter2"):
        with pytest.raises(SettingsError, match="API_KEY") as caught:
            api.load((), {}, env(tmp_path, content))
        assert "hunter2" not in str(caught.value)
    assert "hunter2" not in str(faults(tmp_path, "KEY='-----BEGIN\nhunter2 hunter2\n"))


SLIPS = {
    "NUM_EPOCHS": "NUM_EPOCH num_epochs NUM-EPOCHS NUMEPOCHS NUM_EPHOCS EPOCHS MAX_STEPS",
    "BATCH_SECONDS": "BATCH_SIZE batch-size",
    "LEARNING_RATE": "LR LEARNING_RATES",
    "MAX_TRAIN_SAMPLES": "MAX_SAMPLES MAX_TRAIN_SAMPLE",
    "PRECISION": "FP16",
    "COQUI_TOS_AGREED": "COQUI_TOS_AGREE",
    "API_KEY": "API_KEYS",
}
OTHERS = """COMPOSE_FILE DOCKER_RUNTIME BASE_IMAGE TORCH_BACKEND CUDA_VISIBLE_DEVICES HF_TOKEN
    LOG_LEVEL PATH POSTGRES_PASSWORD""".split()


@pytest.mark.parametrize(("ours", "slips"), SLIPS.items())
def test_a_slip_or_another_trainers_word_is_a_fault_with_our_name(tmp_path, ours, slips):
    for name in slips.split():
        (fault,) = faults(tmp_path, f"\n{name}=1")
        assert "line 2" in fault and name in fault and f"did you mean {ours}" in fault


def test_another_programs_name_is_a_note_and_a_common_word_is_one_with_our_name(tmp_path):
    """Another program that shares the .env may use the name, so it is not a fault."""
    for name, ours in [("data_dir", "DATASET_DIR"), *BY_COMMON_NAME.items()]:
        _, report = load((), {}, env(tmp_path, f"\n{name}=x\n" + "=y\n".join([*OTHERS, ""])))
        first, rest = report.notes
        assert "line 2" in first and f"{name} is not a setting" in first and f" {ours}" in first
        assert all(other in rest for other in OTHERS) and name not in re.split(r"\W+", rest)


def test_every_foreign_name_leads_to_a_setting_and_none_of_ours_is_taken_for_a_slip():
    assert set(BY_TRAINER_NAME.values()) | set(BY_COMMON_NAME.values()) <= CORE_SETTINGS
    assert not BY_TRAINER_NAME.keys() & BY_COMMON_NAME.keys()
    assert not (BY_TRAINER_NAME.keys() | BY_COMMON_NAME.keys()) & CORE_SETTINGS
    assert all(likely_names(name, CORE_SETTINGS) == [name] for name in CORE_SETTINGS)


def test_near_misses_in_the_environment_are_not_judged(tmp_path):
    load((), {"NUM_EPOCH": "3", "EPOCHS": "x"}, tmp_path / ".env")


def test_the_other_programs_settings_are_left_to_it(tmp_path):
    _, report = load((), {}, env(tmp_path, "API_PORT=none\nVOICE=best\n"))
    assert report.notes == ()
    _, report = api.load((), {}, env(tmp_path, "NUM_EPOCHS=none\n"))
    assert report.notes == ()


def test_a_name_set_twice_is_noted(tmp_path):
    settings, report = load((), {}, env(tmp_path, "SEED=1\nNUM_EPOCHS=2\nSEED=3\nNUM_EPOCHS=2\n"))
    assert settings.seed == 3
    assert [("SEED" in note, "lines 1 and 3" in note) for note in report.notes] == [(True, True)]


def test_all_faults_at_once(tmp_path):
    messages = faults(
        tmp_path,
        "NUM_EPOCHS=ten\nEPOCHS=3\nwhat is this\nSEED=-1\nBATCH_SECONDS=${NOBODY}\n",
        ("--learning-rate", "fast", "--sede", "4", "--lora-rank"),
        PRECISION="double",
    )
    for word in (
        "NUM_EPOCHS is 'ten' (",
        "EPOCHS is not",
        "line 3 is not",
        "SEED is '-1'",
        "BATCH_SECONDS",
        "LEARNING_RATE is 'fast' (command line)",
        "--seed?",
        "--lora-rank has no value",
        "PRECISION is 'double' (environment)",
    ):
        assert sum(word in fault for fault in messages) == 1, (word, messages)
    assert len(messages) == 9


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--num-epoch", "3"), "--num-epochs?"),
        (("--num_epochs", "3"), "--num-epochs?"),
        (("--NUM-EPOCHS", "3"), "--num-epochs?"),
        (("--epochs=3",), "--num-epochs?"),
        (("--batch-size", "4"), "--batch-seconds?"),
        (("--lr=1e-5",), "--learning-rate?"),
        (("--gpu", "0"), "--device?"),
        (("--xyzzy",), "--help"),
        (("--api-port", "8005"), "--help"),
        (("surprise",), "surprise is not a setting"),
        (("--seed",), "--seed has no value; allowed: a whole number"),
        (("--seed", "--tensorboard=off"), "--seed has no value"),
    ],
)
def test_bad_flags(tmp_path, argv, words):
    assert words in faults(tmp_path, "", argv)[0]


def test_every_setting_says_what_it_is_and_what_is_allowed():
    for kind in (with_extras(TrainSettings), with_extras(api.ApiSettings)):
        for name, info in fields(kind).items():
            assert info.description, name
            assert means(info).allowed, name


def test_help_names_every_flag(capsys):
    with pytest.raises(SystemExit) as left:
        load(["--help"], {}, None)
    assert left.value.code == 0
    text = capsys.readouterr().out
    for name in fields(with_extras(TrainSettings)):
        assert f"\n  --{name.replace('_', '-')} " in text
    assert len(text.splitlines()) < 80 and max(map(len, text.splitlines())) <= 100
    assert "docs/settings.md" in text


def test_values_are_shown_as_they_are_written(tmp_path):
    path = env(tmp_path, "KEEP_CHECKPOINTS=all\n")
    _, report = load(["--tensorboard", "0", "--learning-rate", "0.00001"], {}, path)
    rows = {name: (value, source) for name, value, source in report.rows}
    assert rows["KEEP_CHECKPOINTS"] == ("all", f"{path}, line 1")
    assert rows["TENSORBOARD"][0] == "off"
    assert rows["LEARNING_RATE"] == ("1e-05", "command line")
    assert rows["NUM_EPOCHS"] == ("auto", "default")


def test_what_was_set_is_shown_and_the_others_are_counted(tmp_path):
    path = env(tmp_path, "KEEP_CHECKPOINTS=all\n")
    _, report = load(["--tensorboard", "0"], {}, path)
    checkpoints, curves, others = report.changed_settings().splitlines()
    assert checkpoints.split()[:2] == ["KEEP_CHECKPOINTS", "all"]
    assert curves.split() == ["TENSORBOARD", "off", "command", "line"]
    count = len(fields(with_extras(TrainSettings))) - 2
    assert others == f"The other {count} settings have their defaults (docs/settings.md)."
    _, report = load([], {}, None)
    assert report.changed_settings() == "All settings have their defaults (docs/settings.md)."


def test_a_default_that_was_written_down_is_not_shown(tmp_path):
    every = [values_of(with_extras(TrainSettings)()), values_of(with_extras(ApiSettings)())]
    lines = [f"{name}={value}" for values in every for name, value in values.items()]
    path = env(tmp_path, "\n".join(lines))
    for load_settings in (load, api.load):
        _, report = load_settings([], {}, path)
        assert report.changed_settings() == "All settings have their defaults (docs/settings.md)."
    path = env(tmp_path, "\n".join(lines).replace("NUM_EPOCHS=auto", "NUM_EPOCHS=7"))
    _, report = load([], {}, path)
    first, others = report.changed_settings().splitlines()
    assert first.split()[:2] == ["NUM_EPOCHS", "7"] and others.startswith("The other ")


def test_a_secret_is_nowhere_shown(tmp_path):
    path = env(tmp_path, "API_KEY=hunter2hunter2\n")
    settings, report = api.load((), {}, path)
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "hunter2hunter2"
    assert "hunter2" not in report.changed_settings() + repr(report) + repr(settings)
    with pytest.raises(SettingsError) as caught:
        api.load(["--api-port", "0"], {}, env(tmp_path, "API_KEY=hunter2$\n"))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "given", "allowed"),
    [
        *[(host, {}, True) for host in ("127.0.0.1", "127.3.3.3", "::1", "localhost")],
        *[(host, {}, False) for host in ("0.0.0.0", "::", "192.168.1.4", "example")],
        ("0.0.0.0", {"API_KEY": "k"}, True),
        ("0.0.0.0", {"API_ALLOW_NO_KEY": "on"}, True),
        ("0.0.0.0", {"API_KEY": "", "API_ALLOW_NO_KEY": "off"}, False),
    ],
)
def test_an_open_api_needs_a_key(host, given, allowed):
    environ = {"API_HOST": host, **given}
    if allowed:
        assert api.load((), environ, None)[0].api_host == host
    else:
        with pytest.raises(SettingsError, match=r"API_KEY is empty\. Set API_KEY"):
            api.load((), environ, None)
