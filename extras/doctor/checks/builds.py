"""Checks of torch's build: CUDA version, libraries, architectures and visible GPUs."""

import shlex
from collections.abc import Mapping, Sequence

from extras.common.readings.nvml import GpuState
from extras.common.readings.snapshot import Container, Driver, MachineSettings, Managed, Nodes, TorchBuild
from extras.common.remedies import (
    CPU_ONLY,
    OLDEST_DRIVER,
    backend_command,
    branch_of,
    driver_command,
    fitting_backend,
    has_code_for,
    major_of,
)
from extras.doctor.finding import Finding, fail, ok, warn
from machine import commands
from machine.devices.selection import Environment


def without_foreign_libraries() -> str:
    """The command that trains with torch's bundled libraries."""
    return f"env -u LD_LIBRARY_PATH -u LD_PRELOAD {commands.make('train')}"


def torch_build(
    torch: TorchBuild, nodes: Nodes, managed: Managed, driver: Driver, container: Container
) -> Finding:
    """Whether torch can be imported, and has CUDA if there is a GPU."""
    if torch.fault:
        return fail(
            "torch cannot be imported",
            "torch 2.11",
            "Sotaque does not work without torch.",
            f"rm -rf {shlex.quote(commands.in_clone('.venv'))} && {commands.make('install')}",
            torch.fault,
        )
    built = f"torch {torch.version}, " + (f"CUDA {torch.cuda}" if torch.cuda else "without CUDA")
    if nodes.gpus and not torch.cuda:
        fitting = fitting_backend(driver.version, _capabilities(managed)) or "default"
        return warn(
            built,
            "a build with CUDA",
            "There is a GPU, but this build cannot use it.",
            backend_command(fitting, container.inside),
        )
    return ok(built, evidence=" ".join(torch.architectures))


def driver_age(torch: TorchBuild, driver: Driver, managed: Managed, container: Container) -> Finding | None:
    """Whether the driver is new enough for the CUDA that torch was built with."""
    branch, major = branch_of(driver.version), major_of(torch.cuda)
    if branch is None or major not in OLDEST_DRIVER:
        return None
    oldest = OLDEST_DRIVER[major]
    if branch >= oldest:
        return ok(f"driver {driver.version} runs CUDA {torch.cuda}", f"{oldest} or newer")
    fitting = fitting_backend(driver.version, _capabilities(managed))
    return fail(
        f"driver {driver.version} with torch for CUDA {torch.cuda}",
        f"driver {oldest} or newer for CUDA {major}",
        "The driver is too old for this build of torch: CUDA fails with error 35, and Sotaque uses the CPU.",
        backend_command(fitting, container.inside)
        if fitting
        else driver_command(driver.system, container.inside),
        f"torch {torch.version}",
    )


def architecture(torch: TorchBuild, managed: Managed, driver: Driver, container: Container) -> Finding | None:
    """Whether this build has machine code for each GPU."""
    gpus = [gpu for gpu in managed.gpus if gpu.capability]
    if not gpus or not torch.architectures:
        return None
    without = [gpu for gpu in gpus if not has_code_for(gpu.capability or (0, 0), torch.architectures)]
    if not without:
        return ok("torch has code for " + ", ".join(map(_gpu_words, gpus)))
    fitting = fitting_backend(driver.version, _capabilities(managed))
    newer = fitting_backend("", _capabilities(managed))
    if fitting:
        fix = backend_command(fitting, container.inside)
    elif newer:
        fix = (
            f"{backend_command(newer, container.inside)}, with driver "
            + str(OLDEST_DRIVER[major_of(newer.removeprefix("cu")[:2]) or 13])
            + " or newer"
        )
    else:
        fix = CPU_ONLY
    return fail(
        f"torch {torch.version} has no code for {', '.join(map(_gpu_words, without))}",
        "a build with code for this GPU",
        "Every operation fails with CUDA error 209, 'no kernel image is available'.",
        fix,
        " ".join(torch.architectures),
    )


def library_path(torch: TorchBuild, variables: Mapping[str, str], environment: Environment) -> Finding | None:
    """Whether torch loads the libraries that it was built with."""
    if torch.fault or not torch.cuda:
        return None
    foreign = {
        name: [path for path in paths if path.rpartition("/")[0] not in torch.folders]
        for name, paths in torch.libraries.items()
    }
    foreign = {name: paths for name, paths in foreign.items() if paths}
    variables_set = [
        f"{name}={variables[name]}" for name in ("LD_LIBRARY_PATH", "LD_PRELOAD") if variables.get(name)
    ]
    if not foreign:
        return ok("torch loads its own CUDA libraries", evidence="; ".join(variables_set))
    first, paths = next(iter(sorted(foreign.items())))
    more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
    judge = fail if any(gpu.reason for gpu in environment.gpus) else warn
    return judge(
        f"{first} is loaded from {paths[0]}{more}, not from torch's own folder",
        "the libraries that came with torch",
        "Another CUDA comes first in the library path. This can cause CUFFT_INVALID_SIZE and "
        "cuDNN version mismatches.",
        without_foreign_libraries(),
        "; ".join([*variables_set, *(f"{name}: {' '.join(paths)}" for name, paths in foreign.items())]),
    )


def visible_gpus(variables: Mapping[str, str], nodes: Nodes, settings: MachineSettings) -> Finding | None:
    """Whether CUDA_VISIBLE_DEVICES hides the GPUs."""
    if "CUDA_VISIBLE_DEVICES" not in variables or not nodes.gpus:
        return None
    value = variables["CUDA_VISIBLE_DEVICES"]
    names = [part.strip() for part in value.split(",")]
    # CUDA stops at the first entry that is not a GPU. Identifiers (GPU-…, MIG-…) are not checked.
    numbers = {name.removeprefix("nvidia") for name in nodes.gpus}
    if names[0] in numbers or names[0].startswith(("GPU-", "MIG-")):
        return ok(f"CUDA_VISIBLE_DEVICES={value}")
    judge = fail if settings.device.startswith("cuda") else warn
    return judge(
        f"CUDA_VISIBLE_DEVICES={value!r} hides every GPU",
        "not set, or the number of a GPU",
        "Programs started with this setting see no GPU.",
        "unset CUDA_VISIBLE_DEVICES",
        " ".join(f"/dev/{name}" for name in nodes.gpus),
    )


def compute_mode(managed: Managed) -> Finding | None:
    """Whether several processes may use a GPU."""
    for gpu in managed.gpus:
        mode = gpu.compute_mode.lower()
        if "prohibited" in mode:
            return fail(
                f"{gpu.name} is in compute mode {gpu.compute_mode}",
                "Default",
                "No program can compute on it.",
                f"sudo nvidia-smi -i {gpu.index} -c DEFAULT",
            )
        if "exclusive" in mode:
            return warn(
                f"{gpu.name} is in compute mode {gpu.compute_mode}",
                "Default",
                "Only one process can use the GPU. While one trains, no second process can speak "
                "samples on it, and another trainer or the API fails with CUDA error 46.",
                f"sudo nvidia-smi -i {gpu.index} -c DEFAULT",
            )
    return ok("Default: several processes can use the GPU") if managed.gpus else None


def _capabilities(managed: Managed) -> Sequence[tuple[int, int]]:
    return [gpu.capability for gpu in managed.gpus if gpu.capability]


def _gpu_words(gpu: GpuState) -> str:
    major, minor = gpu.capability or (0, 0)
    return f"{gpu.name} (sm_{major}{minor})"
