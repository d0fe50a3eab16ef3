"""Real clients, unchanged except for the address: elevenlabs, pipecat, LiveKit, vLLM-omni's example.

Each in a separate environment, with text that arrives word by word: with a fake child, and with the
embedded voice, whose figures are in docs/develop/clients.md. System: uv downloads 500 MB.
"""

import json
import os
import shutil
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.api.conftest import PATIENT, Running, running, settings_in
from tests.api.heard import asked
from tests.api.test_client_libraries import LIMITS, MAX_PADDING, run
from tests.extras.streams.conftest import is_idle

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]
PROGRAMS = Path(__file__).parent / "client_programs"
MAX_PADDING_SECONDS = 0.2
TEXT = "If you ask me, we should leave at nine. Then we have time for lunch."
FIRST_SOUND_SECONDS = float(os.environ.get("STREAMS_FIRST_SOUND", "0.6"))


@dataclass(frozen=True)
class StreamingClient:
    """program: ours, which drives the library; packages: from PyPI; turns: the ways to send a turn
    whose words the report has; by_word: those that send each word as it is written."""

    program: str
    packages: tuple[str, ...]
    turns: tuple[str, ...] = ()
    by_word: str = ""


CLIENTS = (
    StreamingClient("elevenlabs_python.py", ("elevenlabs==2.78.0",)),
    StreamingClient(
        "pipecat_elevenlabs.py", ("pipecat-ai[elevenlabs]==1.14.0",), ("sentences", "tokens"), "tokens"
    ),
    StreamingClient(
        "livekit_elevenlabs.py",
        ("livekit-plugins-elevenlabs==1.8.9",),
        ("sentences.padded", "mp3.lossy", "words.padded"),
        "words.padded",
    ),
)
# The newest one on PyPI with its sources, and with them its example.
OMNI = (
    "https://files.pythonhosted.org/packages/a5/48/7c7535cab15cf2ca5335fe68bd4c41350f68aeae8d33c0471c2e062760dd"
    "/vllm_omni-0.20.0.tar.gz"
)
EXAMPLE = "examples/online_serving/text_to_speech/qwen3_tts/streaming_speech_client.py"


@pytest.fixture(scope="module", params=["fake", "demo"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = settings_in(tmp_path_factory.mktemp(request.param))
    real = request.param == "demo"
    limits = LIMITS if real else replace(PATIENT, queue=32)
    with running(settings, limits=limits, threads=1 if real else None) as opened:
        yield opened


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of environments. STREAMS_CLIENTS: one that stays."""
    folder = os.environ.get("STREAMS_CLIENTS")
    if folder:
        yield Path(folder)
        return
    made = tmp_path_factory.mktemp("clients")
    yield made
    shutil.rmtree(made, ignore_errors=True)


def python_with(folder: Path, *packages: str) -> Path:
    """The Python of an environment with these packages."""
    place = folder / packages[0].partition("=")[0].partition("[")[0]
    if not place.exists():
        uv = [sys.executable, "-m", "uv"]
        run(*uv, "venv", "--quiet", "--python", sys.executable, place, cwd=folder)
        run(*uv, "pip", "install", "--quiet", "--python", place / "bin" / "python", *packages, cwd=folder)
    return place / "bin" / "python"


@contextmanager
def no_slot_lost(service: Running) -> Iterator[None]:
    yield
    service.wait_until(lambda: is_idle(service), 10)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.program)
def test_a_client_hears_a_turn_and_knows_its_words(client, service, environments, tmp_path):
    python = python_with(environments, *client.packages)
    with asked() as orders, no_slot_lost(service):
        run(python, PROGRAMS / client.program, service.address, TEXT, tmp_path, cwd=tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())
    parts = {ask.text for ask, _ in orders}
    assert {"If you ask me,", TEXT.partition(". ")[0] + "."} & parts
    spoken = {part: Spoken.of(service, part) for part in parts}
    for file in tmp_path.glob("*.*"):
        if file.suffix != ".json":
            check(file, spoken)
    for name in client.turns:
        words, first = report[name]["words"], report[name]["first_sound"]
        print(f"{client.program} {name}: first sound {first:.2f} s after the clause; {words}")
        check_words(words, spoken)
        assert first < FIRST_SOUND_SECONDS or name != client.by_word


@dataclass(frozen=True)
class Spoken:
    """A part as HTTP gives it: samples, and the starts of the words in seconds."""

    sound: np.ndarray
    words: Sequence[float]

    @classmethod
    def of(cls, service: Running, text: str) -> "Spoken":
        body = {"input": text, "response_format": "pcm", "stream": True}
        pcm = service.client.post("/v1/audio/speech", json=body).raise_for_status().content
        events = {**body, "stream_format": "sse", "timestamp_granularities": ["word"]}
        answer = service.client.post("/v1/audio/speech", json=events).raise_for_status().text
        rows = [json.loads(row[6:]) for row in answer.splitlines() if row.startswith("data: ")]
        words = [word["start_time"] for row in rows for word in row.get("words", ())]
        return cls(np.frombuffer(pcm, "<i2") / 32768, words)


def ways_to_cut(spoken: dict[str, Spoken], text: str = TEXT) -> Iterator[list[Spoken]]:
    """Every sequence of parts that makes the text: later sentences wait together while one speaks."""
    if not text:
        yield []
    for part, sound in spoken.items():
        if text.startswith(part):
            yield from ([sound, *rest] for rest in ways_to_cut(spoken, text[len(part) :].strip()))


def check(file: Path, spoken: dict[str, Spoken]) -> None:
    """The sound is that of the parts, whole and in order; of an MP3, its length is."""
    if file.suffix in (".mp3", ".lossy"):
        # LiveKit decodes its default, mp3_22050_32, itself.
        heard, rate = soundfile.read(file) if file.suffix == ".mp3" else (samples(file), 22_050)
        equal = [
            abs(len(heard) / rate - sum(len(part.sound) for part in parts) / 24_000) < MAX_PADDING_SECONDS
            for parts in ways_to_cut(spoken)
        ]
    else:
        heard = samples(file)
        sounds = [np.concatenate([part.sound for part in parts]) for parts in ways_to_cut(spoken)]
        equal = [
            0 <= len(heard) - len(sound) <= MAX_PADDING and np.array_equal(heard[: len(sound)], sound)
            for sound in sounds
        ]
    assert any(equal), f"{file.name}: {len(heard)} samples are those of no way to cut the text"


def samples(file: Path) -> np.ndarray:
    return np.frombuffer(file.read_bytes(), "<i2") / 32768


def check_words(words: list[list[Any]], spoken: dict[str, Spoken]) -> None:
    """The client's transcript is the text, and each word starts within 60 ms of the sound's."""
    assert "".join(word for word, _ in words).replace(" ", "") == TEXT.replace(" ", "")
    starts = [start for word, start in words if word.strip()]
    assert len(starts) == len(TEXT.split())
    errors = []
    for parts in ways_to_cut(spoken):
        begun, expected = 0.0, []
        for part in parts:
            expected += [begun + start for start in part.words]
            begun += len(part.sound) / 24_000
        shift = starts[0] - expected[0]  # pipecat's clock begins with the first word
        errors.append(max(abs(at - other - shift) for at, other in zip(starts, expected, strict=True)))
    print(f"the largest error of a word's start: {1000 * min(errors):.0f} ms")
    assert min(errors) < 0.060


def test_vllm_omnis_example_hears_an_utterance(service, environments, tmp_path):
    python = python_with(environments, "websockets==17.4")
    archive = environments / OMNI.rpartition("/")[2]
    if not archive.exists():
        run("curl", "-sSfLo", archive, OMNI, cwd=environments)
    with tarfile.open(archive) as files:
        (member,) = (one for one in files.getmembers() if one.name.endswith(EXAMPLE))
        program = files.extractfile(member)
        assert program is not None
        (tmp_path / "client.py").write_bytes(program.read())
    address = service.address.replace("http", "ws") + "/v1/audio/speech/stream"
    words = ["--text", TEXT, "--simulate-stt", "--speaker", "default", "--output-dir", str(tmp_path / "out")]
    more = ["--response-format", "pcm", "--stream-audio", "--url", address]
    with asked() as orders, no_slot_lost(service):
        run(python, tmp_path / "client.py", *words, *more, cwd=tmp_path)
    files_heard = sorted((tmp_path / "out").iterdir())
    assert len(files_heard) == len(orders)
    for file, (ask, _) in zip(files_heard, orders, strict=True):
        heard = np.frombuffer(file.read_bytes(), "<i2") / 32768
        assert np.array_equal(heard, Spoken.of(service, ask.text).sound), ask.text
