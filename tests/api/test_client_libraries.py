"""Real client libraries, each in a separate environment, with the embedded voice.

The sound is complete, decodable, of the right rate, and the same streamed and complete. System: uv
and npm download 1.3 GB in all. The programs are in `client_programs`.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from tests.api.conftest import QUICK, Running, running, settings_in
from tests.api.decoding import correlation, decoded

pytestmark = pytest.mark.system
PROGRAMS = Path(__file__).parent / "client_programs"
TEXT = "Good morning, how did you sleep?"
# A frame and the encoder's delay at the start; FFmpeg, libsndfile and livekit pad the end.
MAX_PADDING = 4_000
LIMITS = replace(QUICK, queue=32, deadline_seconds=300.0, hang_seconds=120.0)


@dataclass(frozen=True)
class ClientLibrary:
    """One library and its program.

    packages: from PyPI, or from npm for a JavaScript program; sounds: the files that the program
    writes; what: the part of the library that speaks.
    """

    program: str
    packages: tuple[str, ...]
    sounds: str
    what: str


LIBRARIES = (
    ClientLibrary(
        "openai_python.py",
        ("openai==3.54.0",),
        "whole.wav whole.pcm whole.mp3 whole.flac whole.opus whole.aac "
        "streamed.wav streamed.pcm streamed.mp3 events.pcm",
        "`audio.speech.create`, its streaming response, events; both clients",
    ),
    ClientLibrary("litellm_speech.py", ("litellm==1.106.2",), "whole.wav whole.mp3 whole.pcm", "`speech()`"),
    ClientLibrary(
        "livekit_agents.py",
        ("livekit-plugins-openai==1.8.9",),
        "frames.padded decoded_by_it.lossy",
        "`openai.TTS` of LiveKit Agents, as samples and as its decoded MP3",
    ),
    ClientLibrary(
        "openai_agents.py",
        ("openai-agents[voice]==0.24.0",),
        "chunks.pcm",
        "the speech model of the Agents SDK's voice pipeline",
    ),
    ClientLibrary(
        "openai_node.mjs",
        ("openai@6.49.0",),
        "whole.wav whole.mp3 whole.pcm streamed.pcm",
        "npm: `audio.speech.create`, whole and streamed",
    ),
    ClientLibrary(
        "ai_sdk.mjs",
        ("ai@6.0.326", "@ai-sdk/openai@3.0.141"),
        "whole.wav whole.mp3",
        "npm: `generateSpeech` of Vercel's AI SDK",
    ),
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = settings_in(tmp_path_factory.mktemp("libraries"))
    with running(settings, limits=LIMITS, threads=1) as opened:
        yield opened


def run(*command: str | Path, cwd: Path) -> None:
    """Runs a command; a failure shows its output."""
    # The library must not see the project's packages.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def installed(library: ClientLibrary, folder: Path) -> list[str | Path]:
    """Installs the library; returns the command that runs its program."""
    if library.program.endswith(".mjs"):
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("There is no npm on this machine.")
        run(npm, "install", "--no-audit", "--no-fund", *library.packages, cwd=folder)
        # Node looks for packages next to the program.
        return ["node", shutil.copy(PROGRAMS / library.program, folder)]
    uv = [sys.executable, "-m", "uv"]
    run(*uv, "venv", "--quiet", "--python", sys.executable, folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    run(*uv, "pip", "install", "--quiet", "--python", python, *library.packages, cwd=folder)
    return [python, PROGRAMS / library.program]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda program: program.program)
def test_a_library_hears_all_of_it(library, service, tmp_path):
    hears_all_of_it(library, service, 0, tmp_path)


def hears_all_of_it(library: ClientLibrary, service: Running, port: int, folder: Path) -> None:
    """Compares each sound with ours, sample by sample for lossless formats. port: of Wyoming."""
    sounds = folder / "sounds"
    sounds.mkdir()
    try:
        command = installed(library, folder)
        run(*command, service.address, str(port), TEXT, sounds, cwd=folder)
    finally:  # pytest keeps its folders, and some of these have 400 MB
        for name in ("venv", "node_modules"):
            shutil.rmtree(folder / name, ignore_errors=True)
    assert {path.name for path in sounds.iterdir()} == set(library.sounds.split())
    body = {"input": TEXT, "response_format": "pcm"}
    whole = service.client.post("/v1/audio/speech", json=body).raise_for_status().content
    reference = np.frombuffer(whole, "<i2") / 32768
    assert len(reference) > 24_000 and abs(reference).max() > 0.05
    for path in sounds.iterdir():
        check(path, reference)


def check(path: Path, reference: np.ndarray) -> None:
    """lossy: samples that the library decoded; padded: samples, then silence."""
    sound, form = path.read_bytes(), path.suffix[1:]
    raw = form in ("pcm", "padded", "lossy")
    sound_heard = np.frombuffer(sound, "<i2") / 32768 if raw else decoded(sound)
    assert 0 <= len(sound_heard) - len(reference) <= MAX_PADDING, path.name
    if form in ("wav", "flac", "pcm"):
        assert np.array_equal(sound_heard, reference), path.name
    elif form == "padded":
        assert (
            np.array_equal(sound_heard[: len(reference)], reference)
            and not sound_heard[len(reference) :].any()
        )
    else:
        assert correlation(sound_heard, reference) > 0.9, path.name
