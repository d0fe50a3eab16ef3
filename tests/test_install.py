"""`.ci/install` reports what is missing before it downloads anything, and installs by hash.

The programs that it calls are stubs here; `make test` itself depends on the real installation.
"""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A Python that accepts everything, makes a venv of itself, and logs its calls.
PYTHON = """
case "$*" in
"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
esac
echo "python $*" >>calls
"""
UV = """
[ "$1" = --version ] && exit 0
if [ "$1" = venv ]; then mkdir -p .venv/bin && cp stubs/python3 .venv/bin/python; fi
echo "uv $*" >>calls
"""
NO_UV = "exit 127"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A clone with stubs for everything that would download."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    pins = [
        "numpy==2.4.6",
        "torch==2.11.0",
        "torchaudio==2.11.0",
        "triton==3.6.0",
        "nvidia-cublas==13.1 ; sys_platform == 'linux'",
        "cuda-toolkit==13.0",
        "torchcodec==0.17.0",
    ]
    for name, more in (("requirements.lock", []), ("requirements-dev.lock", ["pytest==9.2.0"])):
        lines = [f"{pin} \\\n    --hash=sha256:{pin[:3]}\n" for pin in pins + more]
        (tmp_path / name).write_text("".join(lines))
    stub(tmp_path, "python3", PYTHON)
    stub(tmp_path, "uv", UV)
    return tmp_path


def stub(folder: Path, name: str, script: str) -> None:
    (folder / "stubs").mkdir(exist_ok=True)
    path = folder / "stubs" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def install(folder: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": f"{folder / 'stubs'}{os.pathsep}/usr/bin{os.pathsep}/bin", **settings}
    return subprocess.run(
        ["/bin/sh", ".ci/install", *words],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def calls(folder: Path) -> list[str]:
    path = folder / "calls"
    return path.read_text().splitlines() if path.exists() else []


def installs(folder: Path) -> list[str]:
    return [call for call in calls(folder) if " install " in call]


def stamps(folder: Path) -> set[str]:
    return {path.name for path in folder.glob(".venv/.installed-*")}


def refusal(folder: Path, **settings: str) -> str:
    """The one line of a failure that installed nothing."""
    done = install(folder, **settings)
    assert done.returncode == 2 and not installs(folder) and not stamps(folder)
    assert done.stdout == "" and done.stderr.count("\n") == 1
    return done.stderr


DISK = "echo header; echo /dev/x 9 9 {} 9% /"


@pytest.mark.parametrize(
    ("stubs", "settings", "words"),
    [
        (
            {"python3": '[ "$1" = -V ] && echo "Python 3.10.2" && exit; exit 1'},
            {},
            ("3.11 to 3.14", "Python 3.10.2", "make PYTHON="),
        ),
        ({}, {"PYTHON": "python3.99"}, ("`python3.99`",)),
        ({}, {"TORCH_BACKEND": "cuda"}, ("'cuda'", "default", "auto", "cpu", "cu126", "cu130")),
        ({"df": DISK.format(7_900_000)}, {}, ("7 GB free", "8 GB")),
        # Debian without python3-venv leaves half a .venv.
        ({"uv": NO_UV, "python3": "mkdir -p .venv/bin; ! [ $2 = venv ]"}, {}, ("python3-venv", "uv")),
    ],
    ids=["an old python", "no python", "an unknown build of torch", "a full disk", "no venv"],
)
def test_what_is_missing_is_told_before_anything_is_downloaded(folder, stubs, settings, words):
    for name, script in stubs.items():
        stub(folder, name, script)
    said = refusal(folder, **settings)
    assert [word for word in words if word not in said] == []
    assert not (folder / ".venv").exists()


@pytest.mark.parametrize("program", ["uv", "python"])
def test_the_lock_is_installed_by_hash_and_then_the_project(folder, program):
    if program == "python":
        stub(folder, "uv", NO_UV)
    assert install(folder).returncode == 0
    lock, project = installs(folder)
    assert {call.split()[0] for call in (lock, project)} == {program}
    assert "--require-hashes -r requirements.lock" in lock
    assert "--editable ." in project and "--no-deps" in project
    assert stamps(folder) == {".installed-default"}


@pytest.mark.parametrize("fails", ["requirements.lock", "--editable"])
def test_a_failed_installation_says_so_last(folder, fails):
    stub(folder, "uv", f'case "$*" in *"{fails}"*) echo "no route to host" >&2; exit 1 ;; esac\n{UV}')
    stub(folder, "python3", PYTHON + 'case "$*" in *" install "*) exit 1 ;; esac')
    done = install(folder)
    assert done.returncode != 0 and not stamps(folder)
    assert "no route to host" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("The installation failed (above)")


def test_a_failed_installation_of_another_torch_names_where_it_comes_from(folder):
    stub(folder, "uv", f'case "$*" in *--torch-backend*) exit 1 ;; esac\n{UV}')
    (folder / ".venv" / "bin").mkdir(parents=True)
    done = install(folder, TORCH_BACKEND="cpu")
    assert done.returncode != 0 and not stamps(folder)
    assert "TORCH_BACKEND=cpu takes torch from PyTorch's own package index" in done.stderr


def test_uv_stands_in_for_the_venv_module_and_8_gb_are_enough(folder):
    stub(folder, "df", DISK.format(8_100_000))
    stub(folder, "python3", PYTHON.replace('"-m venv"*)', '"-m venv"*) exit 1 ;; never)'))
    assert install(folder).returncode == 0
    assert any(call.startswith("uv venv") for call in calls(folder))


def test_what_is_to_be_installed_has_to_be_known_and_may_be_the_lock_alone(folder):
    done = install(folder, "devel")
    assert done.returncode == 2 and not installs(folder)
    assert "'devel'" in done.stderr and "run, dev or lock" in done.stderr
    assert install(folder, "lock").returncode == 0  # as for an image
    (only,) = installs(folder)
    assert "requirements.lock" in only and not stamps(folder)


def test_to_develop_is_to_install_the_larger_lock_which_holds_the_other(folder):
    assert install(folder, "dev").returncode == 0
    lock, project = installs(folder)
    assert "--require-hashes -r requirements-dev.lock" in lock and "--editable ." in project
    assert stamps(folder) == {".installed-default", ".installed-default-dev"}
    # After a new installation for the programs alone, the versions for tests are unknown.
    assert install(folder).returncode == 0
    assert stamps(folder) == {".installed-default"}


def test_pip_takes_over_where_uv_knows_no_way_out(folder):
    stub(folder, "uv", UV + "\necho 'invalid peer certificate' >&2; [ $1 != pip ]")
    done = install(folder)
    assert done.returncode == 0 and "invalid peer certificate" in done.stderr
    assert [call.split()[0] for call in installs(folder)] == ["uv", "python", "uv", "python"]


def test_a_failed_installation_is_not_taken_minute_steps(folder):
    stub(folder, "uv", NO_UV)
    stub(folder, "python3", PYTHON + '\n[ "$3" != install ]')
    assert install(folder).returncode != 0 and not stamps(folder)


def test_another_torch_is_the_lock_without_torch_and_then_that_pair(folder):
    (folder / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(folder / "stubs" / "uv", folder / ".venv" / "bin" / "uv")
    shutil.copy(folder / "stubs" / "python3", folder / ".venv" / "bin" / "python")
    (folder / ".venv" / ".installed-default").touch()
    done = install(folder, TORCH_BACKEND="cpu")
    assert done.returncode == 0, done.stderr
    rest = (folder / ".venv" / "without-torch.lock").read_text()
    kept = [line.split("=")[0] for line in rest.splitlines() if line[0] != " "]
    assert kept == ["numpy", "torchcodec"]
    assert "sha256:tor" in rest and rest.count("sha256") == 2
    by_hash, pair, _project = installs(folder)
    assert by_hash.endswith("--require-hashes -r .venv/without-torch.lock")
    assert pair.endswith("--torch-backend=cpu torch==2.11.0 torchaudio==2.11.0")
    assert stamps(folder) == {".installed-cpu"}


def make(folder: Path, *words: str, installed: Iterable[str] = ()) -> str:
    """The dry run of make in a clone with these stamps of an installation."""
    shutil.copy(ROOT / "Makefile", folder)
    shutil.copytree(ROOT / ".ci", folder / ".ci")
    for name in ("requirements.lock", "requirements-dev.lock", "pyproject.toml"):
        (folder / name).touch()
    (folder / ".venv").mkdir()
    for stamp in installed:  # newer than the files they depend on
        (folder / ".venv" / f".installed-{stamp}").touch()
    done = subprocess.run(
        ["make", "-n", *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize(
    ("dotenv", "installed", "said", "expected"),
    [
        ("", "", "", "default"),
        ("TORCH_BACKEND=cu126\n", "", "", "cu126"),
        ('TORCH_BACKEND="cpu"\r\n', "", "", "cpu"),
        ("TORCH_BACKEND=cu126\n", "default", "TORCH_BACKEND=cpu", "cpu"),
        ("TORCH_BACKEND=\n", "cpu", "", "cpu"),
        ("NUM_EPOCHS=2\n", "cpu", "", "cpu"),
        ("", "cpu-dev", "", "default"),  # "cpu-dev" is not a build of torch
    ],
)
def test_make_takes_the_torch_of_the_command_then_of_dotenv_then_the_installed_one(
    tmp_path, dotenv, installed, said, expected
):
    (tmp_path / ".env").write_text(dotenv)
    done = make(tmp_path, "-B", "install", *said.split(), installed=filter(None, [installed]))
    assert f'TORCH_BACKEND="{expected}"' in done


@pytest.mark.parametrize(
    ("target", "installed", "expected"),
    [
        ("train", (), ["run"]),
        ("test", (), ["dev"]),
        ("check", (), ["dev"]),
        ("serve", ("", "-dev"), []),
        ("test", ("", "-dev"), []),
        ("test", ("",), ["dev"]),
    ],
)
def test_make_installs_what_the_command_needs(tmp_path, target, installed, expected):
    done = make(tmp_path, target, installed=[f"default{kind}" for kind in installed])
    found = [
        line.split("sh .ci/install")[1].strip() or "run"
        for line in done.splitlines()
        if "sh .ci/install" in line
    ]
    assert found == expected
