"""Inspects ONNX Runtime and tries a provider in a child process.

`get_available_providers()` is never asked: it lists what a build was compiled for, CUDA on machines
that have none too (measured with 1.31.1; microsoft/onnxruntime#23372).
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from machine.devices import selection
from machine.onnxruntime.providers import LIBRARIES, PROVIDERS, ProviderRequest
from machine.process import ask_once, module_command
from machine.readings import programs, system_files
from machine.readings.snapshot import AMD, INTEL

_LIMIT_SECONDS = 90.0
_KEPT_CHARACTERS = 8000


@dataclass(frozen=True)
class OnnxSurroundings:
    """packages: builds that are installed -> version; build: which of them answers; cuda,
    torch_cuda: "13.0", what it and torch are built for; libraries: the providers' files that the
    build brings; gpus: kinds of GPU that the system shows ("nvidia", "amd", "intel"); driver:
    version of NVIDIA's kernel module; hint: a sentence about a GPU out of reach."""

    packages: Mapping[str, str] = field(default_factory=dict)
    build: str = ""
    cuda: str = ""
    torch_cuda: str = ""
    libraries: frozenset[str] = frozenset()
    gpus: frozenset[str] = frozenset()
    driver: str = ""
    system: str = "linux"
    distribution: tuple[str, ...] = ()
    in_container: bool = False
    hint: str = ""


@dataclass(frozen=True)
class Trial:
    """One attempt in a child: two products on a provider, compared with the CPU's.

    known: the build knows the provider; active: the session's own list, in its order; nodes:
    provider -> how many of the nodes it took; distance: largest difference to the CPU's result;
    log: all that was written to file descriptors 1 and 2; fault: what was raised; ending: "" or how
    the child ended instead of answering.
    """

    provider: str
    known: bool = True
    active: tuple[str, ...] = ()
    nodes: Mapping[str, int] = field(default_factory=dict)
    distance: float | None = None
    log: str = ""
    fault: str = ""
    ending: str = ""
    version: str = ""


@cache
def surroundings(root: Path = Path("/")) -> OnnxSurroundings:
    """What needs no attempt: packages, files, devices. Once per process."""
    folder = programs.package_folder("onnxruntime") / "capi"
    build = folder / "build_and_package_info.py"
    driver = system_files.driver_version(root)
    nodes = system_files.nodes(root)
    inside = selection.inside_container(root)
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
        torch_cuda=programs.build_word(programs.package_folder("torch") / "version.py", "cuda"),
        libraries=frozenset(path.name for path in folder.glob("libonnxruntime_providers_*")),
        gpus=frozenset(name for name, there in gpus.items() if there),
        driver=driver,
        system=sys.platform,
        distribution=system_files.system_names(root),
        in_container=inside,
        hint=selection.gpu_hint(bool(driver), bool(nodes.gpus), inside),
    )


def present(seen: OnnxSurroundings) -> list[str]:
    """The kinds that `auto` tries: those for which this build brings a library, or that the whole
    build is for."""
    return [
        kind
        for kind, names in PROVIDERS.items()
        if any(LIBRARIES.get(name) in seen.libraries for name in names)
        or (kind == "directml" and "onnxruntime-directml" in seen.packages)
    ]


@cache
def trial(wish: ProviderRequest) -> Trial:
    """What came of trying a wish: of AMD's two names the first that this build knows. Once per
    process: a driver does not get well beside a program that runs, and a child costs a second."""
    first, *others = PROVIDERS[wish.kind]
    found = tried(first, wish.options())
    for provider in others:
        if not found.known and (other := tried(provider, wish.options())).known:
            return other
    return found


def tried(provider: str, options: dict[str, str]) -> Trial:
    """One attempt in a child; what it wrote to file descriptors 1 and 2 is kept."""
    request = {"provider": provider, "options": options}
    found = ask_once(
        module_command("machine.onnxruntime.trial_child"), _LIMIT_SECONDS, request=request
    )
    log = found.errors.strip()[-_KEPT_CHARACTERS:]
    if found.answer is None:
        return Trial(provider, log=log, ending=found.last_error)
    answer = dict(found.answer)
    answer |= {"active": tuple(answer["active"]), "log": f"{log}\n{answer['log']}".strip()}
    return Trial(provider, **answer)
