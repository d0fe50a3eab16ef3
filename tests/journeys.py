"""`python -m tests.journeys` counts the modules that a request, a clip and an epoch pass through.

The real programs run under a profiler, in every process that they start. A module counts once one
of its functions is called during a journey; a shape is a class of ours that is instantiated during
it. Loops that do the same without the journey do not count (`BACKGROUND`).

- request: from the POST of /v1/audio/speech to the first byte of its answer, the second time.
- clip: reading the dataset, computing its features, and one training step.
- epoch: its checkpoint, its sample, its judging, and the end of the run: the verdict, and before it
  the judging that takes too long for so short an epoch. Each of these is also counted alone.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.ports import free_port

ROOT = Path(__file__).parents[1]
# Goals: modules, shapes.
GOALS = {"request": (35, 15), "clip": (24, 10), "epoch": (40, 20)}
# The trainer's functions in each part of a journey, as module:qualified name.
SPANS = {
    "clip": {
        "reading": ("train.dataset.dataset:read",),
        "features": ("train.dataset.features:build",),
        "step": ("train.step:train_step",),
    },
    "epoch": {
        "saving": ("train.epoch_end:EpochEnd.save",),
        "sampling": ("train.epoch_end:EpochEnd.sample",),
        "judging": ("train.epoch_end:EpochEnd.judge", "train.epoch_end:EpochEnd.conclude"),
    },
}
# Loops of the service that run every two seconds, whether or not a request does: the follower of
# new weights, and the queues of books and cuts. What they call, in any thread, is not counted.
BACKGROUND = ("api.runs.following:VoiceFollower.poll", "extras.common.work_queue:WorkQueue.work")
# Written into a folder where every process finds it as its sitecustomize.
TRACER = '''
import contextvars, os, sys, threading, time
ROOT, FOLDER = os.environ["JOURNEYS_ROOT"], os.environ["JOURNEYS_FOLDER"]
PACKAGES = ("machine", "xtts", "train", "api", "extras")
METER = "machine"  # The thread that reads the machine's usage every few seconds, in any journey.
out = open(os.path.join(FOLDER, str(os.getpid())), "w", buffering=1)
homes, seen = {}, set()
spans = set(os.environ["JOURNEYS_SPANS"].split(","))
loops = set(os.environ["JOURNEYS_BACKGROUND"].split(","))
# Of a task of asyncio; the threads that it waits for have its context, too.
background = contextvars.ContextVar("background", default=False)


def home(path):
    """The module of a file of ours, or an empty string."""
    if path.startswith(ROOT):
        name = path[len(ROOT) + 1 :].removesuffix(".py").replace(os.sep, ".")
        if name.startswith(PACKAGES) and name.split(".")[0] in PACKAGES:
            return name.removesuffix(".__init__")
    return ""


def note(kind, name):
    now = time.time()
    moment = kind, name, round(now, 3)
    if moment not in seen and not background.get() and threading.current_thread().name != METER:
        seen.add(moment)
        out.write(f"{kind}\\t{name}\\t{now:.6f}\\n")


def profile(frame, event, argument):
    if event not in ("call", "return"):
        return
    code = frame.f_code
    path = code.co_filename
    if code.co_name in ("__init__", "__new__") and event == "call" and code.co_varnames:
        instance = frame.f_locals.get(code.co_varnames[0])
        # No isinstance: it may call a __getattribute__ of an object that is not complete.
        kind = instance if issubclass(type(instance), type) else type(instance)
        if str(kind.__module__).split(".")[0] in PACKAGES:
            note("shape", f"{kind.__module__}.{kind.__qualname__}")
    module = homes.get(path)
    if module is None:
        module = homes[path] = home(path)
    if not module or code.co_name == "<module>":
        return
    name = f"{module}:{code.co_qualname}"
    if name in loops:
        background.set(True)
    if name in spans:
        seen.clear()  # what was noted just before the span is noted in it, too
        out.write(f"{event}\\t{name}\\t{time.time():.6f}\\n")
    if event == "call":
        note("function", name)


threading.setprofile(profile)
sys.setprofile(profile)
'''


@dataclass(frozen=True)
class Line:
    """One observation: kind `function`, `shape`, or the `call` or `return` of a span's function."""

    kind: str
    name: str
    seconds: float


@dataclass(frozen=True)
class Journey:
    """The modules of one journey, each with the functions that were called, and its shapes."""

    modules: Mapping[str, Sequence[str]]
    shapes: Sequence[str]


def traced_environment(folder: Path) -> dict[str, str]:
    """The environment of a program whose processes all log their calls into `folder`."""
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "sitecustomize.py").write_text(TRACER, encoding="utf-8")
    (folder / "lines").mkdir()
    spans = [span for parts in SPANS.values() for part in parts.values() for span in part]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(folder / "site"), str(ROOT))),
        "JOURNEYS_ROOT": str(ROOT),
        "JOURNEYS_FOLDER": str(folder / "lines"),
        "JOURNEYS_SPANS": ",".join(spans),
        "JOURNEYS_BACKGROUND": ",".join(BACKGROUND),
    }


def lines(folder: Path) -> list[Line]:
    """All observations of all processes, by time."""
    observations = []
    for path in (folder / "lines").iterdir():
        for line in path.read_text(encoding="utf-8").splitlines():
            kind, name, seconds = line.split("\t")
            observations.append(Line(kind, name, float(seconds)))
    return sorted(observations, key=lambda line: line.seconds)


def journey(seen: Sequence[Line], spans: Sequence[tuple[float, float]]) -> Journey:
    """The modules and shapes within the spans, (from, to) in seconds."""
    within = [line for line in seen if any(begin <= line.seconds <= end for begin, end in spans)]
    modules = defaultdict[str, list[str]](list)
    for name in sorted({line.name for line in within if line.kind == "function"}):
        module, _, function = name.partition(":")
        modules[module].append(function)
    return Journey(modules, sorted({line.name for line in within if line.kind == "shape"}))


def spans_of(seen: Sequence[Line], functions: Sequence[str]) -> Iterator[tuple[float, float]]:
    """From the first call of each function to its return."""
    for function in functions:
        begin = next(line.seconds for line in seen if (line.kind, line.name) == ("call", function))
        returns = [line.seconds for line in seen if (line.kind, line.name) == ("return", function)]
        end = next(seconds for seconds in returns if seconds >= begin)
        yield begin, end


def of_training(folder: Path) -> Mapping[str, Journey]:
    """The journeys of a clip and an epoch and of their parts, in an epoch of the embedded dataset's
    first clips."""
    settings = {
        "MAX_TRAIN_SAMPLES": "12",
        "NUM_EPOCHS": "1",
        "TENSORBOARD": "off",
        "BLEND": "off",
        "LEARN_DECODER": "off",
        "OUTPUT_DIR": str(folder / "output"),
        "RUNS_DIR": str(folder / "runs"),
        "CACHE_DIR": str(folder / "cache"),
        "DEVICE": "cpu",
    }
    environment = {**traced_environment(folder), **settings}
    subprocess.run([sys.executable, "-m", "train"], cwd=ROOT, env=environment, check=True)
    seen = lines(folder)
    journeys = dict[str, Journey]()
    for name, parts in SPANS.items():
        spans = {part: list(spans_of(seen, functions)) for part, functions in parts.items()}
        journeys[name] = journey(seen, [span for part in spans.values() for span in part])
        journeys |= {f"{name}, {part}": journey(seen, within) for part, within in spans.items()}
    return journeys


def of_request(folder: Path) -> Journey:
    """A request's journey through a service that has spoken once already."""
    port = free_port()
    environment = {
        **traced_environment(folder),
        "API_PORT": str(port),
        "OUTPUT_DIR": str(folder / "output"),
        "VOICES_DIR": str(folder / "voices"),
        "CACHE_DIR": str(folder / "cache"),
        "DEVICE": "cpu",
    }
    address = f"http://127.0.0.1:{port}"
    service = subprocess.Popen([sys.executable, "-m", "api"], cwd=ROOT, env=environment)
    try:
        with httpx.Client(base_url=address, timeout=120) as client:
            _wait_ready(client, service)
            for text in ("Good morning.", "The kettle is on."):
                body = {"input": text, "voice": "default", "response_format": "wav"}
                begin = time.time()
                with client.stream("POST", "/v1/audio/speech", json=body) as answer:
                    if answer.status_code != 200:
                        raise RuntimeError(answer.read().decode())
                    chunks = answer.iter_raw()
                    next(chunks)
                    end = time.time()
                    for _ in chunks:
                        pass
    finally:
        service.terminate()
        service.wait(60)
    return journey(lines(folder), [(begin, end)])


def _wait_ready(client: httpx.Client, service: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if service.poll() is not None:
            raise RuntimeError(f"the service ended with {service.returncode}")
        try:
            if client.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    raise TimeoutError("the service was not ready after five minutes")


def all_of_them() -> dict[str, Journey]:
    """Runs both programs and counts the three journeys."""
    with tempfile.TemporaryDirectory() as serving, tempfile.TemporaryDirectory() as training:
        return {"request": of_request(Path(serving)), **of_training(Path(training))}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Counts the modules and shapes of each journey.")
    parser.add_argument("--names", action="store_true", help="print their names, too")
    arguments = parser.parse_args()
    for name, passed in all_of_them().items():
        counts = f"{name}: {len(passed.modules)} modules, {len(passed.shapes)} shapes"
        print(f"{counts} (goals {GOALS[name]})" if name in GOALS else counts)
        if arguments.names and name in GOALS:
            print(json.dumps(passed.__dict__, indent=1))
