"""`python -m benchmarks probe`: the check of a GPU, held against a real one.

Runs every operation of `machine.devices.probe.operations` many times, each time with other numbers,
and prints how far from the CPU it came beside what is allowed: the tolerances are to be set by
this. Then provokes an error 710, an FFT without memory and a libcufft that refuses every plan, each
in a process of its own, and a run without a fault to compare with. --quick leaves the two runs out.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import gpu_faults, tables
from machine.devices import selection
from machine.errors import SotaqueError

TIMES = 50
# A limit should lie so far above the largest distance that was seen.
HEADROOM = 4.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--provoke", choices=("assertion", "low memory"), help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Distances and faults. Raises SotaqueError on a machine without a GPU."""
    require_gpu(arguments.device)
    if arguments.provoke:
        gpu_faults.provoke(arguments.provoke, arguments.device)
    return measure(arguments.device, arguments.times, quick=arguments.quick)


def exit_code(found: dict[str, Any]) -> int:
    """1 when an operation is out of its tolerance or a fault is not understood."""
    return 0 if good(found) else 1


def require_gpu(device: str) -> None:
    """Raises SotaqueError unless there is an NVIDIA GPU to measure; the check need not pass."""
    devices = selection.gpu_nodes()
    if not device.startswith("cuda") or not devices:
        driver = Path("/proc/driver/nvidia/version").exists()
        hint = selection.gpu_hint(driver, devices, in_container=Path("/.dockerenv").exists())
        raise SotaqueError(
            f"This benchmark measures an NVIDIA GPU, and {device} is none on this machine. "
            + (hint or "Run it on a machine that has one.")
        )


def measure(device: str, times: int, *, quick: bool) -> dict[str, Any]:
    """The check once, cold and cached; distances; faults."""
    with tempfile.TemporaryDirectory() as name:
        checked = _check(Path(name))
        found: dict[str, Any] = {
            "device": device,
            "check": checked,
            "distances": distances(device, times),
            "faults": [gpu_faults.provoked(what, device) for what in ("assertion", "low memory")],
        }
        if not quick:
            found["refused_fft"] = gpu_faults.refused_fft(device, Path(name))
            found["sound_run"] = gpu_faults.sound_run(device)
    return found


def distances(device: str, times: int) -> list[dict[str, Any]]:
    """Every part of every operation: the largest distance to the CPU, and between two runs."""
    import torch

    from machine.devices.probe.operations import TOLERANCES, ProbePlace, distance, operations

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    rows = []
    for name, parts in operations().items():
        for part_name, part in parts.items():
            seen, between, seconds = [], [], 0.0
            for number in range(times):
                reference = part(ProbePlace("cpu", exact=True, seed=number))
                begun = time.perf_counter()
                first, second = (part(ProbePlace(device, seed=number)).cpu() for _ in range(2))
                seconds += time.perf_counter() - begun
                seen.append(distance(first, reference))
                between.append(distance(first, second))
            rows.append(
                {
                    "operation": name, "part": part_name, "times": times,
                    "largest": max(seen), "median": sorted(seen)[len(seen) // 2],
                    "between_runs": max(between), "tolerance": TOLERANCES[name],
                    "milliseconds": round(500 * seconds / times, 3),
                }
            )  # fmt: skip
    return rows


def advice(row: dict[str, Any]) -> str:
    """Whether a tolerance fits what was measured."""
    worst, limit = max(row["largest"], row["between_runs"]), row["tolerance"]
    if not worst <= limit:
        return "FAILS"
    if limit == 0 or worst * HEADROOM <= limit <= worst * 1000 + 1e-12:
        return "fits"
    return "too tight" if worst * HEADROOM > limit else "could be tighter"


def good(found: dict[str, Any]) -> bool:
    """Whether every distance is allowed, and every fault came to what it should."""
    outcomes = {one["fault"]: one.get("outcome") for one in found["faults"]}
    fits = all(advice(row) != "FAILS" for row in found["distances"])
    alive = all(one["we_still_compute"] for one in found["faults"])
    known = outcomes["assertion"] == "sticky" and outcomes["low memory"] in ("transient", "none")
    refused = found.get("refused_fft")
    moved = refused is None or (
        refused["check"]["failed"] == ["fft"]
        and refused["run"]["mode"] == "in_process"
        and "CUFFT_INVALID_SIZE" in refused["run"]["reason"]
        and found["sound_run"]["mode"] == "in_process"
    )
    return fits and alive and known and moved


def report(found: dict[str, Any]) -> str:
    """Tables for docs/benchmarks.md."""
    check = found["check"]
    lines = [
        f"{check['name']}, torch {check['torch']}: {check['outcome']} {check['reason']}",
        f"check cold {check['cold_seconds']} s, cached {check['cached_seconds']} s",
        "",
    ]
    lines += tables.markdown(
        ("operation", "part", "largest", "between runs", "allowed", ""),
        (
            (row["operation"], row["part"], f"{row['largest']:.1e}", f"{row['between_runs']:.1e}",
             f"{row['tolerance']:g}", advice(row))
            for row in found["distances"]
        ),
    )  # fmt: skip
    columns = ("fault", "text", "outcome", "exit_code", "we_still_compute")
    lines += ["", *tables.markdown(
        ("fault", "what came", "classified as", "exit", "we still compute"),
        ([one.get(column) for column in columns] for one in found["faults"]),
    )]  # fmt: skip
    for what in ("refused_fft", "sound_run"):
        if what in found:
            lines += ["", f"{what}: {json.dumps(found[what], default=str)}"]
    return "\n".join(lines)


def _check(folder: Path) -> dict[str, Any]:
    import torch

    from machine.devices.probe.runner import probe

    seconds = []
    for _ in range(2):
        begun = time.perf_counter()
        gpus = probe(cache=folder / "gpus.json")
        seconds.append(round(time.perf_counter() - begun, 2))
    return {
        "name": gpus[0].name, "outcome": gpus[0].outcome, "reason": gpus[0].reason,
        "torch": torch.__version__, "cold_seconds": seconds[0], "cached_seconds": seconds[1],
        "operations": {one.name: one.distance for one in gpus[0].operations},
    }  # fmt: skip
