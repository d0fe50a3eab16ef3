"""requirements.lock: versions and hashes only, whole, and of what pyproject.toml asks for."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = ("api", "dev", "onnx")  # those that `make lock` writes
PIN = re.compile(r"([a-z0-9][a-z0-9-]*)==([^ ;]+)(?: ; ([^\\]+))? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")
# Left out on purpose: [tool.uv] in pyproject.toml says why.
LEFT_OUT = {Requirement(text).name for text in PROJECT["tool"]["uv"]["override-dependencies"]}


def pins() -> list[Requirement]:
    return [
        Requirement(f"{name}=={version}{f'; {marker}' if marker else ''}")
        for name, version, marker in PIN.findall(LOCK)
    ]


def here() -> dict[str, Requirement]:
    """What the lock names for this machine."""
    return {pin.name: pin for pin in pins() if pin.marker is None or pin.marker.evaluate()}


def asked() -> list[Requirement]:
    project = PROJECT["project"]
    lists = [project["dependencies"], *(project["optional-dependencies"][one] for one in EXTRAS)]
    return [Requirement(text) for texts in lists for text in texts]


def test_every_line_is_a_version_or_a_hash() -> None:
    # So no index address, no path of a machine, no option of pip.
    odd = [
        line for line in LOCK.splitlines() if not PIN.fullmatch(line) and not HASH.fullmatch(line)
    ]
    assert odd == []


def test_every_version_has_a_hash() -> None:
    lines = LOCK.splitlines()
    after = [lines[i + 1] for i, line in enumerate(lines) if PIN.fullmatch(line)]
    assert len(after) > 100
    assert all(HASH.fullmatch(line) for line in after)


@pytest.mark.parametrize("wanted", asked(), ids=str)
def test_what_the_project_asks_for_is_in_the_lock(wanted: Requirement) -> None:
    found = [pin for pin in pins() if pin.name == canonicalize_name(wanted.name)]
    assert found, f"{wanted} is not in requirements.lock; run: make lock"
    for pin in found:
        (specifier,) = pin.specifier
        assert wanted.specifier.contains(specifier.version), "run: make lock"


def test_torch_and_torchaudio_are_a_pair() -> None:
    # Another pair installs and then fails at import: torchaudio compares CUDA versions.
    versions = {pin.name: str(pin.specifier) for pin in pins()}
    assert versions["torch"] == versions["torchaudio"]


def test_it_holds_for_every_python_and_linux_that_the_project_supports() -> None:
    pythons = [f"3.{minor}" for minor in range(11, 15)]
    assert PROJECT["project"]["requires-python"] == ">=3.11,<3.15"
    for version in pythons:
        for machine in ("x86_64", "aarch64"):
            environment = {
                "python_version": version, "python_full_version": f"{version}.1",
                "platform_machine": machine, "sys_platform": "linux", "extra": "",
                "platform_python_implementation": "CPython", "implementation_name": "cpython",
            }  # fmt: skip
            names = [
                pin.name for pin in pins() if pin.marker is None or pin.marker.evaluate(environment)
            ]
            assert len(names) == len(set(names)), f"two versions at once on {version}, {machine}"
            assert {"torch", "coqui-tts", "pytest"} <= set(names)


def test_nothing_that_is_installed_misses_a_part() -> None:
    """It is installed with --no-deps: a hole in it would be found by a user's ImportError."""
    locked = here()
    for name in locked:
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # another TORCH_BACKEND has other libraries
        for need in map(Requirement, needs):
            if need.marker and not evaluated(need.marker):
                continue
            part = canonicalize_name(need.name)
            if part in LEFT_OUT and part not in locked:
                continue
            assert part in locked, f"{name} needs {part}; run: make lock"
            (specifier,) = locked[part].specifier
            assert need.specifier.contains(specifier.version, prereleases=True), f"{name}: {need}"


def evaluated(marker: Marker) -> bool:
    return marker.evaluate({"extra": ""})
