"""`.ci/install` says what is missing before it downloads anything, and installs by hash.

The programs that it calls are stubs here; the real installation is what `make test` itself stands
on.
"""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A Python that says yes to everything, makes a venv of itself, and tells how it was called.
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
    lines = ["numpy==2.4.6 \\", "    --hash=sha256:aa", "torch==2.11.0 \\", "    --hash=sha256:bb"]
    lines += ["torchaudio==2.11.0 \\", "    --hash=sha256:cc", "triton==3.6.0 \\", "    --hash=x"]
    lines += ["nvidia-cublas==13.1 ; sys_platform == 'linux' \\", "    --hash=sha256:dd"]
    lines += [
        "cuda-toolkit==13.0 \\",
        "    --hash=sha256:ee",
        "torchcodec==0.17.0 \\",
        "    --hash=f",
    ]
    (tmp_path / "requirements.lock").write_text("\n".join(lines) + "\n")
    lines += ["pytest==9.2.0 \\", "    --hash=sha256:ff"]
    (tmp_path / "requirements-dev.lock").write_text("\n".join(lines) + "\n")
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
        cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def calls(folder: Path) -> list[str]:
    path = folder / "calls"
    return path.read_text().splitlines() if path.exists() else []


def refusal(folder: Path, **settings: str) -> str:
    """The one line that it ends with, nothing having been installed."""
    done = install(folder, **settings)
    assert done.returncode == 2
    assert not [call for call in calls(folder) if " install " in call]
    assert not list(folder.glob(".venv/.installed-*"))
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_an_old_python_is_named(folder: Path) -> None:
    stub(folder, "python3", '[ "$1" = -V ] && echo "Python 3.10.2" && exit; exit 1')
    said = refusal(folder)
    assert "3.11 to 3.14" in said
    assert "Python 3.10.2" in said
    assert "make PYTHON=" in said


def test_a_missing_python_is_named(folder: Path) -> None:
    assert "`python3.99`" in refusal(folder, PYTHON="python3.99")


def test_an_unknown_build_of_torch_is_named_with_the_known_ones(folder: Path) -> None:
    said = refusal(folder, TORCH_BACKEND="cuda")
    assert "'cuda'" in said
    assert all(word in said for word in ("default", "auto", "cpu", "cu126", "cu130"))


def test_a_full_disk_is_told_before_anything_is_downloaded(folder: Path) -> None:
    stub(folder, "df", "echo header; echo /dev/x 9 9 7900000 9% /")
    said = refusal(folder)
    assert "7 GB free" in said
    assert "8 GB" in said
    stub(folder, "df", "echo header; echo /dev/x 9 9 8100000 9% /")
    assert install(folder).returncode == 0


def test_without_the_venv_module_and_without_uv_one_line_says_what_to_install(folder: Path) -> None:
    stub(folder, "uv", NO_UV)
    stub(folder, "python3", "mkdir -p .venv/bin; ! [ $2 = venv ]")  # as Debian's: half a .venv
    said = refusal(folder)
    assert "python3-venv" in said
    assert "uv" in said
    assert not (folder / ".venv").exists()


def test_uv_stands_in_for_the_venv_module(folder: Path) -> None:
    stub(folder, "python3", PYTHON.replace('"-m venv"*)', '"-m venv"*) exit 1 ;; never)'))
    assert install(folder).returncode == 0
    assert any(call.startswith("uv venv") for call in calls(folder))


@pytest.mark.parametrize("program", ["uv", "python"])
def test_the_lock_is_installed_by_hash_and_then_the_project(folder: Path, program: str) -> None:
    if program == "python":
        stub(folder, "uv", NO_UV)
    assert install(folder).returncode == 0
    installs = [call for call in calls(folder) if " install " in call]
    assert {call.split()[0] for call in installs} == {program}
    lock, project = installs
    assert "--require-hashes -r requirements.lock" in lock
    assert "--editable ." in project
    assert "--no-deps" in project
    assert [path.name for path in folder.glob(".venv/.installed-*")] == [".installed-default"]


def stamps(folder: Path) -> set[str]:
    return {path.name for path in folder.glob(".venv/.installed-*")}


def test_to_develop_is_to_install_the_larger_lock_which_holds_the_other(folder: Path) -> None:
    assert install(folder, "dev").returncode == 0
    lock, project = (call for call in calls(folder) if " install " in call)
    assert "--require-hashes -r requirements-dev.lock" in lock
    assert "--editable ." in project
    assert stamps(folder) == {".installed-default", ".installed-default-dev"}
    # Installed again for the programs alone, nothing says what versions the tests would find.
    assert install(folder).returncode == 0
    assert stamps(folder) == {".installed-default"}


def test_what_is_to_be_installed_has_to_be_known(folder: Path) -> None:
    done = install(folder, "devel")
    assert done.returncode == 2
    assert "'devel'" in done.stderr and "run, dev or lock" in done.stderr
    assert not [call for call in calls(folder) if " install " in call]


def test_pip_takes_over_where_uv_knows_no_way_out(folder: Path) -> None:
    stub(folder, "uv", UV + "\necho 'invalid peer certificate' >&2; [ $1 != pip ]")
    done = install(folder)
    assert done.returncode == 0
    assert "invalid peer certificate" in done.stderr
    installs = [call for call in calls(folder) if " install " in call]
    assert [call.split()[0] for call in installs] == ["uv", "python", "uv", "python"]


def test_a_failed_installation_is_not_taken_for_one(folder: Path) -> None:
    stub(folder, "uv", NO_UV)
    stub(folder, "python3", PYTHON + '\n[ "$3" != install ]')
    assert install(folder).returncode != 0
    assert not list(folder.glob(".venv/.installed-*"))


def test_another_torch_is_the_lock_without_torch_and_then_that_pair(folder: Path) -> None:
    (folder / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(folder / "stubs" / "uv", folder / ".venv" / "bin" / "uv")
    shutil.copy(folder / "stubs" / "python3", folder / ".venv" / "bin" / "python")
    (folder / ".venv" / ".installed-default").touch()
    done = install(folder, TORCH_BACKEND="cpu")
    assert done.returncode == 0, done.stderr
    rest = (folder / ".venv" / "without-torch.lock").read_text()
    assert [line.split("=")[0] for line in rest.splitlines() if line[0] != " "] == [
        "numpy",
        "torchcodec",
    ]
    assert "sha256:bb" not in rest
    by_hash, pair, _project = [call for call in calls(folder) if " install " in call]
    assert by_hash.endswith("--require-hashes -r .venv/without-torch.lock")
    assert pair.endswith("--torch-backend=cpu torch==2.11.0 torchaudio==2.11.0")
    assert [path.name for path in folder.glob(".venv/.installed-*")] == [".installed-cpu"]


def test_an_image_can_install_the_lock_apart_from_the_project(folder: Path) -> None:
    assert install(folder, "lock").returncode == 0
    (only,) = [call for call in calls(folder) if " install " in call]
    assert "requirements.lock" in only
    assert not list(folder.glob(".venv/.installed-*"))


@pytest.mark.parametrize(
    ("dotenv", "installed", "said", "expected"),
    [
        ("", "", "", "default"),
        ("TORCH_BACKEND=cu126\n", "", "", "cu126"),
        ('TORCH_BACKEND="cpu"\r\n', "", "", "cpu"),
        ("TORCH_BACKEND=cu126\n", "default", "TORCH_BACKEND=cpu", "cpu"),
        ("TORCH_BACKEND=\n", "cpu", "", "cpu"),
        ("NUM_EPOCHS=2\n", "cpu", "", "cpu"),
        ("", "cpu-dev", "", "default"),  # "cpu-dev" is no build of torch
    ],
)
def test_make_takes_the_torch_of_the_command_then_of_dotenv_then_the_installed_one(
    tmp_path: Path, dotenv: str, installed: str, said: str, expected: str
) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".env").write_text(dotenv)
    if installed:
        (tmp_path / ".venv" / f".installed-{installed}").touch()
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    for name in ("requirements.lock", "requirements-dev.lock", "pyproject.toml"):
        (tmp_path / name).touch()
    done = subprocess.run(
        ["make", "-n", "-B", "install", *said.split()],
        cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=60,
        check=True,
    )  # fmt: skip
    assert f'TORCH_BACKEND="{expected}"' in done.stdout


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
def test_make_installs_what_the_command_needs(
    tmp_path: Path, target: str, installed: tuple[str, ...], expected: list[str]
) -> None:
    (tmp_path / ".venv").mkdir()
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    for name in ("requirements.lock", "requirements-dev.lock", "pyproject.toml"):
        (tmp_path / name).touch()
    for kind in installed:
        (tmp_path / ".venv" / f".installed-default{kind}").touch()
    done = subprocess.run(
        ["make", "-n", target],
        cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=60,
        check=True,
    )  # fmt: skip
    found = [line.split("sh .ci/install")[1].strip() or "run"
             for line in done.stdout.splitlines() if "sh .ci/install" in line]  # fmt: skip
    assert found == expected
