"""Faults of a GPU, each provoked in a separate process.

An error 710, an FFT without memory, and a libcufft that refuses every plan.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import measuring, synthetic
from machine.devices import cuda_errors, recovery
from machine.devices.probe import ProbeChild, probe
from machine.errors import SotaqueError

SHIM = Path(__file__).with_name("cufft_shim.c")
LEFT_BYTES = 64 << 20
LIMIT_SECONDS = 900.0


def provoked(name: str, device: str) -> dict[str, Any]:
    """Provokes a fault in a child. Returns its report, and whether this process still computes."""
    command = (sys.executable, "-m", "tests.gpu.faults", name, device)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    found = json.loads(lines[-1]) if lines else {"text": done.stderr[-300:]}
    return {
        "fault": name,
        "exit_code": done.returncode,
        **found,
        "we_still_compute": not recovery.remaining_fault(device),
    }


def provoke(name: str, device: str) -> None:
    """The child: fails, reports how the error is classified, and exits as a worker would."""
    found = assertion(device) if name == "assertion" else low_memory(device)
    print(json.dumps(found), flush=True)
    recovery.exit_after_fault(recovery.GpuLost.exit_code if found["outcome"] == "sticky" else 0)


def assertion(device: str) -> dict[str, Any]:
    """Reads outside a table, as a token of a foreign vocabulary does (coqui #3079)."""
    import torch

    table = torch.nn.Embedding(402, 8).to(device)
    try:
        table(torch.tensor([5000], device=device)).sum().item()
    except Exception as error:
        return _told(error, device)
    return {"outcome": "none", "text": "no error came"}


def low_memory(device: str) -> dict[str, Any]:
    """The speaker's mel of 30 s with 64 MB left, and again after `free_after_fault`."""
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
    recovery.free_after_fault(device)
    speaker_mel(sound).sum().item()
    return {**found, "passes_after_clearing": True}


def refused_fft(device: str, folder: Path) -> dict[str, Any]:
    """The check and a complete run with a libcufft that refuses every plan."""
    library = build_shim(folder)
    environ = {**ProbeChild().environ, "LD_PRELOAD": str(library), "XDG_CACHE_HOME": str(folder / "cache")}
    index = int(device.partition(":")[2] or 0)
    gpus = probe(folder=folder / "cache", child=ProbeChild(environ=environ))
    gpu = gpus[index]
    check = {
        "outcome": gpu.outcome,
        "failed": sorted(gpu.failed_operations),
        "reason": gpu.reason,
        "works": gpu.works,
    }
    return {"check": check, "run": run_of_one_epoch(folder / "run", environ, device)}


def build_shim(folder: Path) -> Path:
    """Compiles the shim. Raises SotaqueError without a compiler."""
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
    """`python -m train` on the embedded model with 8 clips: exit code and the sample's sidecar."""
    synthetic.write_dataset(folder / "data")
    command = measuring.training_command(
        folder,
        base_model="demo",
        dataset_dir=folder / "data",
        num_epochs=1,
        sample_text="One two three.",
        device=device,
    )
    done = subprocess.run(command, env=dict(environ), stdout=sys.stderr, timeout=LIMIT_SECONDS, check=False)
    sidecar = folder / "output" / "samples" / "epoch_1_output.json"
    told = json.loads(sidecar.read_text()) if sidecar.exists() else {}
    kept = {key: told.get(key) for key in ("mode", "device", "reason", "seconds", "audio_seconds")}
    return {"exit_code": done.returncode, **kept}


def _told(error: Exception, device: str) -> dict[str, Any]:
    found = cuda_errors.classify(error, cuda_errors.free_bytes(device))
    return {
        "kind": type(error).__name__,
        "code": getattr(error, "error_code", None),
        "text": (str(error).splitlines() or [""])[0],
        "outcome": found.outcome if found else "not known",
        "poisoned": recovery.remaining_fault(device),
    }


if __name__ == "__main__":
    provoke(*sys.argv[1:])
