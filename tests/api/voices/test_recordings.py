"""The child that decodes uploads: what limits it, what its end means, and that it is gone."""

import asyncio
import io
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from api.errors import APIError
from api.voices import recordings
from tests.api.routes.test_voice_routes import file_of, speech

WAV = b"RIFF\0\0\0\0WAVE"


def refusal_of(data: bytes = WAV, seconds: float = 60.0) -> APIError:
    async def asked() -> APIError:
        with pytest.raises(APIError) as caught:
            await asyncio.wait_for(recordings.decoded(data), seconds)
        return caught.value

    return asyncio.run(asked())


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@pytest.mark.parametrize("data", [WAV, b"\0\0\0\x18ftypM4A " + bytes(200)], ids=["wav", "m4a"])
def test_the_child_that_reads_an_upload_has_limits_and_one_thread(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at from outside, where the service itself starts it and before it reads a byte.

    OpenBLAS starts a thread for each core when numpy is imported, and each takes 40 MB of the
    address space: with 24 cores an upload was "damaged".
    """
    seen: dict[str, object] = {}

    async def look() -> None:
        start = asyncio.create_subprocess_exec

        async def started(*command: str, **how: object) -> asyncio.subprocess.Process:
            child = await start(*command, **how)  # type: ignore[arg-type]
            end = time.monotonic() + 60
            unlimited = (resource.RLIM_INFINITY,) * 2
            while resource.prlimit(child.pid, resource.RLIMIT_FSIZE) == unlimited:
                assert time.monotonic() < end and child.returncode is None
                await asyncio.sleep(0.01)
            for name in ("AS", "CPU", "CORE", "FSIZE"):
                kind = getattr(resource, f"RLIMIT_{name}")
                seen[name] = resource.prlimit(child.pid, kind)[0]
            seen["status"] = status_of(child.pid)
            return child

        monkeypatch.setattr(asyncio, "create_subprocess_exec", started)
        with pytest.raises(APIError, match="cannot be decoded"):
            await recordings.decoded(data)

    monkeypatch.setattr(recordings, "WALL_SECONDS", 60.0)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "64")
    asyncio.run(look())
    assert 1 << 30 <= seen["AS"] < 1.5 * (1 << 30)  # type: ignore[operator]
    assert 0 < seen["CPU"] <= 30  # type: ignore[operator]
    assert (seen["CORE"], seen["FSIZE"]) == (0, 0)
    assert seen["status"]["Threads"] == "1"  # type: ignore[index]


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        ("import sys; sys.stderr.write('It is silent.'); sys.exit(3)", 422, "It is silent."),
        ("import sys; sys.exit(4)", 422, "within 1,024 MB of memory"),
        ("import sys; sys.exit(5)", 503, "short of memory"),
        ("import os; os.kill(os.getpid(), 9)", 503, "short of memory"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)", 422, "in time"),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
            422,
            "it is damaged, or made to do harm, or takes far more",
        ),
    ],
)
def test_a_want_of_memory_is_no_damage(
    monkeypatch: pytest.MonkeyPatch, program: str, status: int, words: str
) -> None:
    monkeypatch.setattr(recordings, "COMMAND", (sys.executable, "-S", "-c", program))
    refusal = refusal_of()
    assert (refusal.status, words in refusal.detail) == (status, True), refusal.detail
    assert (refusal.retry_after is not None) is (status == 503)


def test_what_a_decoder_writes_to_stderr_is_not_what_the_child_says() -> None:
    """libmpg123 warns there of an MP3 that was cut off: answered with 500, or with its warning."""
    data = file_of(speech(3.0), format="MP3")
    half, third = data[: len(data) // 2], data[: len(data) // 3 - 200]
    done = subprocess.run([*recordings.COMMAND], input=half, capture_output=True, check=False)
    assert done.returncode == 0 and done.stderr.startswith(b"Warning: Xing")
    assert asyncio.run(recordings.decoded(half)).quality["word"] == "usable"
    refusal = refusal_of(third)
    assert refusal.status == 422 and refusal.detail.startswith("It is 0.")


def test_what_cannot_be_started_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", full)
    assert refusal_of().code == "no_decoder"


def test_a_recording_that_takes_too_much_memory_is_told_so() -> None:
    """The real child with a sixteenth of its memory, at a minute of eight channels."""
    out = io.BytesIO()
    soundfile.write(out, np.full((48_000 * 59, 8), 0.1, "float32"), 48_000, format="FLAC")
    program = (
        "import sys, api.voices.recordings_child as child; child.MEMORY_BYTES //= 16; "
        "sys.argv.append('60'); sys.exit(child.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=out.getvalue(), capture_output=True, check=False
    )
    assert done.returncode == 4, done.stderr


@pytest.mark.slow
def test_the_largest_recording_that_is_allowed_fits() -> None:
    out = io.BytesIO()
    sound = np.zeros((192_000 * 59, 8), "float32")
    sound[:, 0] = speech(59.0, 192_000)
    soundfile.write(out, sound, 192_000, format="FLAC")
    assert len(out.getvalue()) < recordings.MOST_BYTES
    done = subprocess.run(
        [sys.executable, "-m", "api.voices.recordings_child", "60"], input=out.getvalue(),
        capture_output=True, check=False, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_decoder_that_takes_too_long_is_gone_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        assert "in time" in refusal.detail and len(pids) == 2
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
