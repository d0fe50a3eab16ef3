"""Inspects ONNX Runtime and tries a provider in a child process.

`get_available_providers()` is not used: it lists what a build was compiled for, including CUDA on
machines without it (measured with 1.31.1; microsoft/onnxruntime#23372).
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from extras.common.answers import ask_once
from extras.common.onnxruntime.providers import PROVIDER_LIBRARIES, PROVIDERS, ProviderRequest
from extras.common.readings import libraries, system_files
from extras.common.readings.snapshot import AMD, INTEL
from machine.devices import selection
from machine.process import module_command

_MAX_TRIAL_SECONDS = 90.0
_MAX_LOG_CHARACTERS = 8000


@dataclass(frozen=True)
class OnnxSurroundings:
    """What can be read about ONNX Runtime and the GPUs without running anything.

    Attributes:
        packages: Installed builds, name -> version.
        build: The one that `import onnxruntime` loads.
        cuda, torch_cuda: The CUDA versions of ONNX Runtime and torch, as "13.0".
        libraries: The provider libraries in the build.
        gpus: Kinds of GPU in the machine: "nvidia", "amd", "intel".
        driver: Version of NVIDIA's kernel module.
        system: `sys.platform`.
        distribution: ID and ID_LIKE of os-release.
        hint: A sentence about a GPU that cannot be reached.
    """

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
    """The result of trying a provider in a child: two products, compared with the CPU's.

    Attributes:
        known: Whether the build knows the provider.
        active: The session's providers, in its order.
        nodes: Provider -> number of nodes that it took.
        distance: Largest difference to the CPU's result.
        log: What was written to file descriptors 1 and 2.
        fault: The error that was raised.
        ending: How the child ended without an answer; "" if it answered.
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
def read_surroundings(root: Path = Path("/")) -> OnnxSurroundings:
    """Reads packages, files and devices, once per process."""
    folder = libraries.package_folder("onnxruntime") / "capi"
    build_info = folder / "build_and_package_info.py"
    driver = system_files.driver_version(root)
    nodes = system_files.nodes(root)
    in_container = selection.inside_container(root)
    cards = {card.vendor for card in system_files.graphics(root).cards}
    gpus = {
        "nvidia": bool(nodes.gpus or "dxg" in nodes.names),
        "amd": AMD in cards and (root / "dev/kfd").exists(),
        "intel": INTEL in cards,
    }
    return OnnxSurroundings(
        packages=libraries.onnx_packages(),
        build=libraries.constant_in_source(build_info, "package_name"),
        cuda=libraries.constant_in_source(build_info, "cuda_version"),
        torch_cuda=libraries.constant_in_source(libraries.package_folder("torch") / "version.py", "cuda"),
        libraries=frozenset(path.name for path in folder.glob("libonnxruntime_providers_*")),
        gpus=frozenset(name for name, available in gpus.items() if available),
        driver=driver,
        system=sys.platform,
        distribution=system_files.system_names(root),
        in_container=in_container,
        hint=selection.gpu_hint(bool(driver), bool(nodes.gpus), in_container),
    )


def available_kinds(surroundings: OnnxSurroundings) -> list[str]:
    """The kinds that `auto` tries: those that this build has a library for, or is built for."""
    return [
        kind
        for kind, names in PROVIDERS.items()
        if any(PROVIDER_LIBRARIES.get(name) in surroundings.libraries for name in names)
        or (kind == "directml" and "onnxruntime-directml" in surroundings.packages)
    ]


@cache
def try_request(request: ProviderRequest) -> Trial:
    """Tries the requested provider, once per process, since a child costs a second.

    For AMD, which has two providers, it returns the first that this build knows.
    """
    first, *alternatives = PROVIDERS[request.kind]
    result = try_provider(first, request.options())
    for provider in alternatives:
        if not result.known and (alternative := try_provider(provider, request.options())).known:
            return alternative
    return result


def try_provider(provider: str, options: dict[str, str]) -> Trial:
    """Tries a provider in a child and keeps what it wrote to file descriptors 1 and 2."""
    request = {"provider": provider, "options": options}
    reply = ask_once(
        module_command("extras.common.onnxruntime.trial_child"), _MAX_TRIAL_SECONDS, request=request
    )
    log = reply.errors.strip()[-_MAX_LOG_CHARACTERS:]
    if reply.answer is None:
        return Trial(provider, log=log, ending=reply.last_error)
    answer = dict(reply.answer)
    answer |= {"active": tuple(answer["active"]), "log": f"{log}\n{answer['log']}".strip()}
    return Trial(provider, **answer)
