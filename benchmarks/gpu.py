"""`python -m benchmarks gpu` measures the important figures of a GPU within a time limit.

It measures the check of a GPU and its distances, a code with CUDA graphs and without, training by
batch and shape, Coqui in turns, and the pause of saving. Each part runs in a separate process, so a
part that fails or hangs stops only itself. Its figures are written to --out as soon as it ends, and
--resume continues from there. A part without its package reports "not run" and names the package.
--rehearse runs every part on the CPU with small sizes.
"""

import argparse
import json
import sys
import time
from contextlib import suppress
from pathlib import Path

from benchmarks import measuring
from machine.devices.current_gpu import make_current
from machine.devices.selection import has_gpu_node
from machine.errors import SotaqueError

MAX_PART_SECONDS = 540.0

# {"parts": {NAME: {figures, seconds}, {failed} or {not_run}}}
Report = dict[str, dict[str, dict[str, object]]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--minutes", type=float, default=60.0, help="no part starts after this time")
    parser.add_argument("--resume", action="store_true", help="continue with what is in --out")
    parser.add_argument("--rehearse", action="store_true", help="run every part small on the CPU")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--folder", default="", help="folder for a base model")
    parser.add_argument("--only", default="", help="parts to run, separated by commas")


def run(arguments: argparse.Namespace) -> Report:
    """Runs the remaining parts. Raises SotaqueError without a GPU, except with --rehearse."""
    if arguments.rehearse:
        arguments.device = "cpu"
    elif not has_gpu_node():
        raise SotaqueError(
            "This benchmark measures an NVIDIA GPU, and there is none on this machine. --rehearse "
            "runs every part small on the CPU."
        )
    return run_parts(arguments)


def exit_code(result: Report) -> int:
    """1 if a part failed."""
    return int(any("failed" in figures for figures in result["parts"].values()))


def run_parts(arguments: argparse.Namespace) -> Report:
    """Runs every part that is missing in --out, within the time limit; writes --out after each."""
    from benchmarks.gpu_parts import PARTS

    began, out = time.monotonic(), arguments.out
    result: Report = {"parts": {}}
    if arguments.resume:
        with suppress(OSError, ValueError):
            result |= json.loads(out.read_text(encoding="utf-8"))
    selected = arguments.only.split(",") if arguments.only else PARTS
    for name in ["machine", *(name for name in PARTS if name in selected)]:
        if "seconds" in result["parts"].get(name, {}):
            continue
        if time.monotonic() - began > 60 * arguments.minutes:
            result["parts"][name] = {"not_run": f"{arguments.minutes:g} minutes were over"}
            continue
        print(f"{name} …", file=sys.stderr, flush=True)
        part = (name, arguments.device, arguments.folder)
        figures = run_part(*part, rehearse=True) if arguments.rehearse else run_part_in_child(*part)
        result["parts"][name] = figures
        out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def run_part_in_child(name: str, device: str, folder: str) -> dict[str, object]:
    """Runs a part in a separate process; returns what `run_part` returns there, or how it failed."""
    try:
        result: dict[str, object] = measuring.ask(
            "benchmarks.gpu", name, device, folder, limit_seconds=MAX_PART_SECONDS
        )
    except measuring.ChildFailed as error:
        return {"failed": str(error)}
    return result


def run_part(name: str, device: str, folder: str, *, rehearse: bool = False) -> dict[str, object]:
    """Runs a part in this process; returns its figures and seconds, or why it has none."""
    from benchmarks import gpu_parts

    began = time.monotonic()
    if name == "machine":
        figures = describe_device(device)
    else:
        make_current(device)
        setup = gpu_parts.choose_setup(device, folder, rehearse=rehearse)
        try:
            figures = gpu_parts.PARTS[name](setup)
        except ImportError as error:
            return {"not_run": str(error)}
        except Exception as error:  # of this part alone
            message = (str(error).splitlines() or [""])[0][:300]
            return {"failed": f"{type(error).__name__}: {message}"}
    return {"figures": figures, "seconds": round(time.monotonic() - began, 1)}


def describe_device(device: str) -> dict[str, object]:
    """The device and its software."""
    import torch

    facts: dict[str, object] = {"torch": torch.__version__, "device": device}
    if device.startswith("cuda"):
        properties = torch.cuda.get_device_properties(device)
        facts |= {
            "name": properties.name,
            "capability": [properties.major, properties.minor],
            "gigabytes": round(properties.total_memory / 1e9, 1),
            "free_gigabytes": round(torch.cuda.mem_get_info(device)[0] / 1e9, 1),
            "cudnn": torch.backends.cudnn.version(),
            "cuda": torch.version.cuda,
        }
    return facts


if __name__ == "__main__":
    print(json.dumps(run_part(*sys.argv[1:])))
