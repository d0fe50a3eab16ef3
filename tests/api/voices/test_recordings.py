"""The child that decodes uploads: its limits, its exit codes, and its end."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from api.errors import APIError
from api.voices import recordings
from api.voices.recordings_child import NO_MEMORY
from tests.api.sounds import KINDS, file_of, made, speech

WAV = b"RIFF\0\0\0\0WAVE"


def refusal_of(data: bytes = WAV, seconds: float = 60.0) -> APIError:
    async def asked() -> APIError:
        with pytest.raises(APIError) as caught:
            await asyncio.wait_for(recordings.decode(data), seconds)
        return caught.value

    return asyncio.run(asked())


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@pytest.mark.parametrize("data", [WAV, b"\0\0\0\x18ftypM4A " + bytes(200)], ids=["wav", "m4a"])
def test_the_child_that_reads_an_upload_has_limits_and_one_thread(data, monkeypatch):
    """Inspected from outside, started by the service, before it reads a byte.

    OpenBLAS starts a thread for each core when numpy is imported, and each takes 40 MB of the
    address space: with 24 cores an upload was "damaged".
    """
    seen: dict[str, int] = {}
    start = asyncio.create_subprocess_exec

    async def started(*command, **how):
        child = await start(*command, **how)
        end = time.monotonic() + 60
        unlimited = (resource.RLIM_INFINITY,) * 2
        while resource.prlimit(child.pid, resource.RLIMIT_FSIZE) == unlimited:
            assert time.monotonic() < end and child.returncode is None
            await asyncio.sleep(0.01)
        for name in ("AS", "CPU", "CORE", "FSIZE"):
            seen[name] = resource.prlimit(child.pid, getattr(resource, f"RLIMIT_{name}"))[0]
        seen["threads"] = int(status_of(child.pid)["Threads"])
        return child

    monkeypatch.setattr(asyncio, "create_subprocess_exec", started)
    monkeypatch.setattr(recordings, "WALL_SECONDS", 60.0)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "64")
    assert "cannot be decoded" in refusal_of(data).detail
    assert 1 << 30 <= seen["AS"] < 1.5 * (1 << 30) and 0 < seen["CPU"] <= 30
    assert (seen["CORE"], seen["FSIZE"], seen["threads"]) == (0, 0, 1)


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        ("sys.stderr.write('It is silent.'); sys.exit(3)", 422, "It is silent."),
        ("sys.exit(4)", 422, "1,024 MB of memory"),
        ("sys.exit(5)", 503, "short of memory"),
        ("os.kill(os.getpid(), 9)", 503, "short of memory"),
        ("os.kill(os.getpid(), signal.SIGXCPU)", 422, "within the time limit"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 422, "malicious"),
    ],
)
def test_a_want_of_memory_is_no_damage(monkeypatch, program, status, words):
    whole = f"import os, signal, sys; {program}"
    monkeypatch.setattr(recordings, "COMMAND", (sys.executable, "-S", "-c", whole))
    refusal = refusal_of()
    assert (refusal.status, words in refusal.detail) == (status, True), refusal.detail
    assert (refusal.retry_after is not None) is (status == 503)


def test_what_a_decoder_writes_to_stderr_is_not_what_the_child_says():
    """libmpg123 warns there about a truncated MP3: the answer was a 500, or that warning."""
    data = file_of(speech(3.0), format="MP3")
    half, third = data[: len(data) // 2], data[: len(data) // 3 - 200]
    done = subprocess.run([*recordings.COMMAND], input=half, capture_output=True, check=False)
    assert done.returncode == 0 and done.stderr.startswith(b"Warning: Xing")
    assert asyncio.run(recordings.decode(half)).quality["word"] == "usable"
    refusal = refusal_of(third)
    assert refusal.status == 422 and refusal.detail.startswith("It is 0.")


def test_what_cannot_be_started_is_no_damage(monkeypatch):
    async def full(*_, **__):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", full)
    assert refusal_of().code == "no_decoder"


def ended_with(memory_bytes: int, data: bytes) -> int:
    """The real child's exit code with this much memory beyond its use before it reads."""
    container = recordings.container_of(data)
    program = (
        f"import sys, api.voices.recordings_child as child; child.MEMORY_BYTES = {memory_bytes}; "
        "sys.exit(child.main())"
    )
    return subprocess.run(
        [sys.executable, "-c", program, "60", *([container] if container else [])],
        input=data,
        capture_output=True,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    ).returncode


def test_a_recording_that_takes_too_much_memory_is_told_so():
    """A minute of eight channels in 16 MB; and less than 1 MB, with which FFmpeg would crash."""
    many = file_of(np.full((48_000 * 59, 8), 0.1, "float32"), 48_000, format="FLAC")
    assert ended_with(16 << 20, many) == NO_MEMORY
    noise = made("m4a", np.random.default_rng(0).normal(0, 0.1, 50 * 48_000))
    assert [ended_with(size, noise) for size in (0, 256 << 10, 16 << 20)] == [NO_MEMORY] * 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_want_of_memory_looks_like_damage(kind):
    """With 0 to 64 MB, the recording is read or refused as taking too much memory."""
    data = made(kind, np.tile(speech(2.0, 48_000), 10), channels=2)
    sizes = [0, 64 << 10, 1 << 20, *range(2 << 20, 65 << 20, 6 << 20)]
    ends = [ended_with(size, data) for size in sizes]
    assert ends == sorted(ends, reverse=True) and set(ends) == {NO_MEMORY, 0}


@pytest.mark.slow
def test_the_largest_recording_that_is_allowed_fits():
    sound = np.zeros((192_000 * 59, 8), "float32")
    sound[:, 0] = speech(59.0, 192_000)
    data = file_of(sound, 192_000, format="FLAC")
    assert len(data) < recordings.MAX_BYTES and ended_with(recordings.MEMORY_BYTES, data) == 0


@pytest.mark.slow
def test_a_decoder_that_takes_too_long_is_gone_with_all_it_started(tmp_path, monkeypatch):
    noted = tmp_path / "pids"
    program = (
        "import os, subprocess, sys, time; "
        "other = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)']); "
        f"open({str(noted)!r}, 'w').write(f'{{os.getpid()}} {{other.pid}}'); time.sleep(600)"
    )
    monkeypatch.setattr(recordings, "COMMAND", (sys.executable, "-S", "-c", program))
    monkeypatch.setattr(recordings, "WALL_SECONDS", 5.0)
    pids: list[int] = []
    try:
        refusal = refusal_of(seconds=30.0)
        pids = [int(pid) for pid in noted.read_text().split()]
        assert "within the time limit" in refusal.detail and len(pids) == 2
        ended_by = time.monotonic() + 5.0  # the kernel takes a moment on a busy machine
        while any(map(alive, pids)) and time.monotonic() < ended_by:
            time.sleep(0.05)
        assert [pid for pid in pids if alive(pid)] == []
    finally:
        for pid in pids or [int(pid) for pid in noted.read_text().split()]:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    try:
        return not status_of(pid)["State"].startswith("Z")
    except FileNotFoundError:
        return False
