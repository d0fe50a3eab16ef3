"""Inspects ONNX Runtime and tries a provider in a child process."""

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path

from machine.devices import selection
from machine.onnxruntime.evidence import OnnxSurroundings, Trial
from machine.onnxruntime.providers import LIBRARIES, PROVIDERS, ProviderRequest
from machine.process import ask_once, module_command
from machine.readings import programs, system_files
from machine.readings.snapshot import AMD, INTEL

_LIMIT_SECONDS = 90.0
_KEPT_CHARACTERS = 8000
# What a terminal would show as colour.
_COLOUR = re.compile(r"\x1b\[[\d;]*m")


@cache
def surroundings(root: Path = Path("/")) -> OnnxSurroundings:
    """What needs no attempt: packages, files, devices. Once per process."""
    folder = runtime_folder()
    build = folder / "build_and_package_info.py" if folder else Path()
    files = {path.name for path in folder.glob("libonnxruntime_providers_*")} if folder else set()
    driver = system_files.driver_version(root)
    nodes = system_files.nodes(root)
    container = system_files.container(root, {})
    cards = {card.vendor for card in system_files.graphics(root).cards}
    gpus = {
        "nvidia": bool(nodes.gpus or "dxg" in nodes.names),
        "amd": AMD in cards and (root / "dev/kfd").exists(),
        "intel": INTEL in cards,
    }
    return OnnxSurroundings(
        packages=programs.onnx_packages(),
        build=programs.build_word(build, "package_name"),
        cuda=programs.build_word(build, "cuda_version"),
        torch_cuda=_torch_cuda(),
        libraries=frozenset(files),
        gpus=frozenset(name for name, there in gpus.items() if there),
        driver=driver,
        system=sys.platform,
        distribution=system_files.system_names(root),
        in_container=container.inside,
        hint=selection.gpu_hint(bool(driver), bool(nodes.gpus), container.inside),
    )


def runtime_folder() -> Path | None:
    """Where ONNX Runtime's libraries are; None where it is not installed."""
    spec = importlib.util.find_spec("onnxruntime")
    return Path(spec.origin).parent / "capi" if spec and spec.origin else None


def present(seen: OnnxSurroundings) -> tuple[str, ...]:
    """The kinds that `auto` tries: those for which this build brings a library, or that the whole
    build is for."""
    found = []
    for kind, names in PROVIDERS.items():
        built_for = any(LIBRARIES.get(name) in seen.libraries for name in names)
        if built_for or (kind == "directml" and "onnxruntime-directml" in seen.packages):
            found.append(kind)
    return tuple(found)


@cache
def trial(wish: ProviderRequest) -> Trial:
    """What came of trying a wish: of AMD's two names the first that this build knows. Once per
    process: a driver does not get well beside a program that runs, and a child costs a second."""
    attempts = [tried(PROVIDERS[wish.kind][0], wish.options())]
    for provider in PROVIDERS[wish.kind][1:]:
        if not attempts[-1].known:
            attempts.append(tried(provider, wish.options()))
    return next((one for one in attempts if one.known), attempts[0])


def tried(provider: str, options: dict[str, str]) -> Trial:
    """One attempt in a child; what it wrote to file descriptors 1 and 2 is kept."""
    request = {"provider": provider, "options": options}
    found = ask_once(
        module_command("machine.onnxruntime.trial_child"), _LIMIT_SECONDS, request=request
    )
    log = plain(found.errors)[-_KEPT_CHARACTERS:]
    if (answer := found.answer) is None:
        return Trial(provider, log=log, ending=found.last_error)
    return Trial(
        provider, bool(answer["known"]), tuple(answer["active"]),
        answer["nodes"], answer.get("distance"),
        f"{log}\n{answer['log']}".strip(), str(answer["fault"]), "", str(answer.get("version", "")),
    )  # fmt: skip


def plain(log: str) -> str:
    """Without colours."""
    return _COLOUR.sub("", log).strip()


def _torch_cuda() -> str:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return ""
    return programs.build_word(Path(spec.origin).parent / "version.py", "cuda")
