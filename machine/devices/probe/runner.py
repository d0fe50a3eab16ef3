"""Starts a probe child for each GPU, with a time limit, and collects verdicts.

A faulty driver may kill or hang any process that calls it, so this process never does. It starts
`machine.devices.probe.child`, waits with a limit, and reads the child's output. If a check fails,
up to three more run with one thing changed; the first that passes becomes the advice.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from machine.devices.health import (
    CLEAN_LIBRARY_PATH,
    CUDNN_OFF,
    OPERATIONS,
    USES_CUDNN,
    GpuHealth,
    Outcome,
    ProbeVariant,
)
from machine.devices.probe import cache as probe_cache
from machine.devices.probe.cache import ProbeMoment
from machine.devices.probe.verdict import gpu_of
from machine.process import ProcessResult, module_command, run_with_timeout
from machine.storage.atomic import WriteError
from machine.storage.file_cache import cache_folder
from machine.storage.locks import wait_for

COLD_SECONDS = 60.0
WARM_SECONDS = 20.0
# Eight GPUs, each checked four times, each check up to its time limit.
LONGEST_WAIT_SECONDS = 700.0


@dataclass(frozen=True)
class ProbeChild:
    """How to start a check; tests replace `command` and `devices`."""

    command: tuple[str, ...] = field(
        default_factory=lambda: module_command("machine.devices.probe.child")
    )
    devices: str = "cuda:{}"
    cold_seconds: float = COLD_SECONDS
    warm_seconds: float = WARM_SECONDS
    operations: tuple[str, ...] = OPERATIONS
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


def probe(
    *, use_cache: bool = True, cache: Path | None = None, child: ProbeChild | None = None
) -> tuple[GpuHealth, ...]:
    """Every GPU with its verdicts. A check that dies or hangs gives a verdict, not an error.

    Args:
        use_cache: False checks again and caches the new result.
        cache: The cache file; None is the one in the user's cache folder.
        child: How to start the check.
    """
    child = child or ProbeChild()
    cache = cache or _cache_file()
    key = probe_cache.key_of(child.environ)
    if use_cache and (gpus := probe_cache.read(cache, key, ProbeMoment.present())) is not None:
        return gpus
    with _one_at_a_time(cache):
        # Of the processes that torchrun starts on a node, one checks and the others read.
        if use_cache and (gpus := probe_cache.read(cache, key, ProbeMoment.present())) is not None:
            return gpus
        gpus = _checked(child, warm=probe_cache.known(cache, key))
        moment = ProbeMoment.present()
        probe_cache.write(cache, key, gpus, moment)
    return probe_cache.with_surprises(cache, gpus, moment)


def report_surprise(device: str, words: str, cache: Path | None = None) -> None:
    """Records a run-time fault that the check did not predict.

    The next start checks again. For a day, that GPU speaks no samples beside a model in training.
    """
    index = int(device.partition(":")[2] or 0)
    probe_cache.surprised(cache or _cache_file(), index, words, ProbeMoment.present())


def clean_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without LD_LIBRARY_PATH and LD_PRELOAD."""
    whole = os.environ if environ is None else environ
    return {name: value for name, value in whole.items() if name not in probe_cache.SEARCHED}


def _cache_file() -> Path:
    return cache_folder(os.environ) / "gpus.json"


@contextlib.contextmanager
def _one_at_a_time(cache: Path) -> Iterator[None]:
    """Waits for another process's check, unless the cache folder cannot hold a lock."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, WriteError):
            cache.parent.mkdir(parents=True, exist_ok=True)
            lock = wait_for(cache.with_suffix(".lock"), limit_seconds=LONGEST_WAIT_SECONDS)
            stack.enter_context(lock)
        yield


def _checked(child: ProbeChild, *, warm: bool) -> tuple[GpuHealth, ...]:
    first, count = _check(child, 0, child.warm_seconds if warm else child.cold_seconds)
    gpus = [first]
    gpus += [_check(child, index, child.warm_seconds)[0] for index in range(1, count)]
    return tuple(_with_advice(child, gpu, gpus) for gpu in gpus)


def _check(
    child: ProbeChild, index: int, limit_seconds: float, *options: str,
    environ: Mapping[str, str] | None = None,
) -> tuple[GpuHealth, int]:  # fmt: skip
    """Runs one child for one GPU: that GPU's health, and how many GPUs the child saw."""
    device = child.devices.format(index)
    command = (*child.command, "--device", device, *options)
    if "--operations" not in options:
        command += ("--operations", ",".join(child.operations))
    events, ending = run(command, environ or child.environ, limit_seconds)
    try:
        return gpu_of(index, events, ending)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"the check's answer cannot be parsed ({error!r})."
        return GpuHealth(index, "the GPU", (0, 0), 0, Outcome.COULD_NOT_RUN, reason=reason), 1


def _with_advice(child: ProbeChild, gpu: GpuHealth, gpus: Sequence[GpuHealth]) -> GpuHealth:
    """`gpu` with the variants that were tried; none if it passed or is only busy or full."""
    if gpu.outcome in (Outcome.OK, Outcome.TRANSIENT):
        return gpu
    tried: list[ProbeVariant] = []
    for variant in _variants(child, gpu, gpus):
        tried.append(variant)
        if variant.ok:
            break
    cure = f" {tried[-1].advice}" if tried and tried[-1].ok else ""
    return replace(gpu, variants=tuple(tried), reason=gpu.reason + cure)


def _variants(
    child: ProbeChild, gpu: GpuHealth, gpus: Sequence[GpuHealth]
) -> Iterator[ProbeVariant]:
    # The operations that failed, and those that were never reached.
    passed = {one.name for one in gpu.operations if one.ok}
    remaining = tuple(name for name in child.operations if name not in passed)
    names = ("--operations", ",".join(remaining))
    foreign = [name for name in probe_cache.SEARCHED if child.environ.get(name)]
    if foreign:
        clean = clean_environment(child.environ)
        result, _ = _check(child, gpu.index, child.warm_seconds, *names, environ=clean)
        without = " ".join(f"-u {name}" for name in foreign)
        names_set = " and ".join(foreign)
        advice = f"It passes without {names_set}: put `env {without}` before the command."
        yield _variant(CLEAN_LIBRARY_PATH, advice, result)
    if not USES_CUDNN.isdisjoint(remaining):
        result, _ = _check(child, gpu.index, child.warm_seconds, *names, "--no-cudnn")
        yield _variant(CUDNN_OFF, "It passes without cuDNN, so Sotaque uses it that way.", result)
    other = next((one for one in gpus if one.index != gpu.index and not one.verdict), None)
    if other:
        yield ProbeVariant(
            f"GPU {other.index}", True,
            f"{other.name} (cuda:{other.index}) passes: set DEVICE=cuda:{other.index}.",
        )  # fmt: skip


def _variant(name: str, advice: str, result: GpuHealth) -> ProbeVariant:
    ok = not result.verdict
    passed = tuple(one.name for one in result.operations if one.ok)
    return ProbeVariant(name, ok, advice if ok else "", result.verdict, passed)


def run(
    command: Sequence[str], environ: Mapping[str, str], limit_seconds: float
) -> tuple[list[dict[str, Any]], ProcessResult]:
    """Starts a child and collects its events until it ends or its time is up."""
    # With this the child's is_available() and device_count() use NVML and create no context.
    environment = {**environ, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    result = run_with_timeout(command, limit_seconds, environment)
    return _events(result.out), result


def _events(out: str) -> list[dict[str, Any]]:
    events = []
    for line in out.splitlines():
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict) and "event" in event:
                events.append(event)
    return events
