"""`python -m benchmarks probe` runs the check of a GPU many times and compares it with its limits.

Every operation of `machine.devices.probe.operations` runs with other numbers each time. The report
has its largest distance from the CPU beside the tolerance, by which tolerances are set. Then the
benchmark provokes an error 710, an FFT without memory, and a libcufft that refuses every plan, each
in a process of its own, and a run without a fault to compare with. --quick leaves out the two runs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import measuring, synthetic, tables
from machine.devices import cuda_errors, selection
from machine.devices.probe import runner as probe
from machine.errors import SotaqueError

TIMES = 50
# A limit should lie so far above the largest distance that was seen.
HEADROOM = 4.0
SHIM = Path(__file__).with_name("cufft_shim.c")
LEFT_BYTES = 64 << 20
LIMIT_SECONDS = 900.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--provoke", choices=("assertion", "low memory"), help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Distances and faults. Raises SotaqueError on a machine without a GPU."""
    require_gpu(arguments.device)
    if arguments.provoke:
        provoke(arguments.provoke, arguments.device)
    return measure(arguments.device, arguments.times, quick=arguments.quick)


def exit_code(found: dict[str, Any]) -> int:
    """1 if an operation exceeds its tolerance or a fault is misclassified."""
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
            "faults": [provoked(what, device) for what in ("assertion", "low memory")],
        }
        if not quick:
            found["refused_fft"] = refused_fft(device, Path(name))
            found["sound_run"] = sound_run(device)
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
    """Whether every distance is allowed and every fault has the expected result."""
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
    """The figures as Markdown tables."""
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


def provoked(name: str, device: str) -> dict[str, Any]:
    """Has a child provoke a fault; what it says of it, and whether this process still computes."""
    command = (sys.executable, "-m", "benchmarks", "probe", "--provoke", name, "--device", device)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    found = json.loads(lines[-1]) if lines else {"text": done.stderr[-300:]}
    return {
        "fault": name,
        "exit_code": done.returncode,
        **found,
        "we_still_compute": not cuda_errors.poisoned(device),
    }


def provoke(name: str, device: str) -> int:
    """The child's side: fails, tells how the error is classified, and leaves as a worker would."""
    found = assertion(device) if name == "assertion" else low_memory(device)
    print(json.dumps(found), flush=True)
    cuda_errors.exit_after_fault(
        cuda_errors.GpuLost.exit_code if found["outcome"] == "sticky" else 0
    )
    return 0


def assertion(device: str) -> dict[str, Any]:
    """Reads outside of a table, as a token of a foreign vocabulary does (coqui #3079)."""
    import torch

    table = torch.nn.Embedding(402, 8).to(device)
    try:
        table(torch.tensor([5000], device=device)).sum().item()
    except Exception as error:
        return _told(error, device)
    return {"outcome": "none", "text": "no error came"}


def low_memory(device: str) -> dict[str, Any]:
    """The speaker's mel of 30 s while 64 MB are left; then as `faults.free_after_fault` leaves
    it."""
    import torch

    from xtts.audio import speaker_mel

    sound = torch.randn(32, 480_000, device=device)
    kept = []
    while (free := torch.cuda.mem_get_info(device)[0]) > 2 * LEFT_BYTES:
        try:
            size = max(1 << 20, (free - LEFT_BYTES) // 2)
            kept.append(torch.empty(size, dtype=torch.uint8, device=device))
        except torch.OutOfMemoryError:
            break
    found: dict[str, Any] = {"outcome": "none", "text": "no error came", "free_bytes": free}
    try:
        speaker_mel(sound).sum().item()
    except Exception as error:
        found = {**_told(error, device), "free_bytes": free}
    kept.clear()
    cuda_errors.free_after_fault(device)
    speaker_mel(sound).sum().item()
    return {**found, "passes_after_clearing": True}


def refused_fft(device: str, folder: Path) -> dict[str, Any]:
    """The check and a whole run with a libcufft that refuses every plan."""
    library = build_shim(folder)
    environ = {
        **probe.ProbeChild().environ,
        "LD_PRELOAD": str(library),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    index = int(device.partition(":")[2] or 0)
    gpus = probe.probe(cache=folder / "gpus.json", child=probe.ProbeChild(environ=environ))
    gpu = gpus[index]
    check = {
        "outcome": gpu.outcome, "failed": sorted(gpu.failed), "reason": gpu.reason,
        "trains": gpu.trains(), "speaks": gpu.speaks(),
    }  # fmt: skip
    return {"check": check, "run": run_of_one_epoch(folder / "run", environ, device)}


def build_shim(folder: Path) -> Path:
    """Compiles the shim. Raises SotaqueError where there is no compiler."""
    library = folder / "cufft_shim.so"
    command = ("gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SHIM))
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise SotaqueError("There is no gcc to build the shim; install the package gcc.") from error
    except subprocess.CalledProcessError as error:
        raise SotaqueError(f"gcc does not build {SHIM.name}: {error.stderr.strip()}") from error
    return library


def run_of_one_epoch(folder: Path, environ: Mapping[str, str], device: str) -> dict[str, Any]:
    """`python -m train` on the embedded model with 8 clips; the sidecar of its sample."""
    synthetic.write_dataset(folder / "data")
    command = measuring.training_command(
        folder, base_model="demo", dataset_dir=folder / "data", num_epochs=1,
        sample_text="One two three.", device=device,
    )  # fmt: skip
    done = subprocess.run(
        command, env=dict(environ), stdout=sys.stderr, timeout=LIMIT_SECONDS, check=False
    )
    sidecar = folder / "output" / "samples" / "epoch_1_output.json"
    told = json.loads(sidecar.read_text()) if sidecar.exists() else {}
    kept = {key: told.get(key) for key in ("mode", "device", "reason", "seconds", "audio_seconds")}
    return {"exit_code": done.returncode, **kept}


def sound_run(device: str) -> dict[str, Any]:
    """The same run with nothing in front of libcufft: its sample is spoken in process."""
    with tempfile.TemporaryDirectory() as name:
        environ = {**probe.ProbeChild().environ, "XDG_CACHE_HOME": name}
        return run_of_one_epoch(Path(name) / "run", environ, device)


def _told(error: Exception, device: str) -> dict[str, Any]:
    found = cuda_errors.classify(error, cuda_errors.free_bytes(device))
    return {
        "kind": type(error).__name__,
        "code": getattr(error, "error_code", None),
        "text": (str(error).splitlines() or [""])[0],
        "outcome": found.outcome if found else "not known",
        "poisoned": cuda_errors.poisoned(device),
    }
