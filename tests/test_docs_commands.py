"""Every command of the README and of docs/ runs here as written, or has a reason why not.

Commands are in ```sh blocks, in Python blocks, and in the README's table. A command that this file
does not know fails the test. Two pages are left out: docs/develop/modules.md has no commands, and
`tests/benchmarks/` runs those of docs/benchmarks.md.
"""

import argparse
import contextlib
import importlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from api import settings as api_settings
from tests.installed import has, missing
from tests.ports import free_port
from train import settings as train_settings
from train.__main__ import modules, open_verb
from xtts.__main__ import parser_of_all

ROOT = Path(__file__).parents[1]
PYTHON = ".venv/bin/python -m"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"] + [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if page.stem != "benchmarks" and page.stem != "modules"
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
# The text that a reader types: settings, then a program.
PROGRAMS = r"(?:\.venv/bin/|make |docker |podman-compose |curl |sudo |unset |echo |git |id=)"
COMMAND = re.compile(rf"(?:[A-Z_]+=(?:\"[^\"]*\"|\S*) )*{PROGRAMS}")


@dataclass(frozen=True)
class Run:
    """How a command is run here.

    exit_code: the expected one. settings: additional environment that makes it small. names: the
    page's placeholders and their values. until: the output at which a program that does not end is
    stopped.
    """

    exit_code: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    until: str = ""


# One epoch of few clips, without judges.
SMALL = {
    "MAX_TRAIN_SAMPLES": "16",
    "NUM_EPOCHS": "1",
    "EVALUATE_RECOGNISER": "off",
    "EVALUATE_NATURALNESS": "off",
    "BLEND": "off",
    "LEARN_DECODER": "off",
}
FREE = {"API_PORT": str(free_port()), "TENSORBOARD_PORT": str(free_port())}
ANNA = "DATASET_DIR=clips/anna"
UK = "LANGUAGE=uk DATASET_DIR=~/voices/uk"
EPOCH_4 = "--checkpoint train/output/checkpoints/checkpoint_epoch_4.pt"
# Seconds each.
QUICK = {
    "make help": Run(),
    f"{PYTHON} pydoc xtts": Run(),
    f"{PYTHON} xtts speak --show-text --text 'Dr. Smith paid $12.50 on March 5, 2024 at 3:05 pm."
    "[pause:500ms] Call 555-1234.'": Run(),
    f"{PYTHON} xtts speak --show-text --text 'press <enter>'": Run(exit_code=2),
}
# A reader's .env for a small run: a run resumes with the clips it began with.
CLIPS = {"MAX_TRAIN_SAMPLES": "60"}
# In this order: the first one trains the run that the others use.
SLOW = {
    "make train": Run(settings={"NUM_EPOCHS": "4"} | CLIPS | FREE),
    'SAMPLE_TEXT="Good morning." .venv/bin/python -m train sample --epoch 3': Run(settings=CLIPS),
    'SAMPLE_TEXT="Good morning." .venv/bin/python -m train sample --epoch 4': Run(settings=CLIPS),
    f"{PYTHON} train evaluate": Run(settings=CLIPS),
    f"{PYTHON} train evaluate --json": Run(settings=CLIPS),
    f"{PYTHON} train learn-decoder --minutes 5": Run(settings=CLIPS),
    f"{PYTHON} train export {EPOCH_4} --to exported/anna": Run(),
    f'{PYTHON} xtts speak --voice exported/anna --text "It is a good day." --out day.wav': Run(),
    f"{PYTHON} train export --to DIR": Run(names={"DIR": "exported/best"}),
    f"{PYTHON} train export --to FILE.sotaque": Run(names={"FILE": "exported/other"}),
    f"{PYTHON} train export --to exported/anna.sotaque": Run(),
    f"{PYTHON} xtts import exported/anna.sotaque": Run(),
    f'{PYTHON} xtts speak --voice voices/imported/anna --text "Good day." --out there.wav': Run(),
    f"{PYTHON} train export --onnx {EPOCH_4} --to exported/anna-onnx": Run(),
    f'{PYTHON} xtts speak --voice exported/anna-onnx --text "Hello." --out hello.wav': Run(),
    f"{PYTHON} benchmarks guard --part heads --bundle DIR": Run(names={"DIR": "exported/anna"}),
    "NUM_EPOCHS=5 make train": Run(settings=CLIPS | FREE),
    f'{PYTHON} xtts speak --text "Good morning." --out out.wav': Run(),
    f'{PYTHON} xtts speak --text "Turn left here." --out left.wav --words left.srt': Run(),
    f"{PYTHON} xtts explain MODEL.onnx --run --provider cuda": Run(),
    f"{PYTHON} xtts monitor": Run(until="\n"),
    f"{PYTHON} train check": Run(),
    f"{ANNA} {PYTHON} train check": Run(),
    f"{PYTHON} train check --show-text": Run(),
    f"{PYTHON} train prepare": Run(),
    f"{PYTHON} train check --no-likelihood": Run(),
    f"{PYTHON} train check --verify": Run(),
    f"{PYTHON} train check --repair": Run(),
    f"{PYTHON} train cut TAPE.mp3 --to DIR --text TAPE.txt": Run(names={"DIR": "cut", "TAPE": "tape"}),
    f"{PYTHON} train cut tape.mp3 --to ~/voices/anna --text tape.txt": Run(),
    "DATASET_DIR=~/voices/anna OUTPUT_DIR=runs/anna make train": Run(settings={**SMALL, **FREE}),
    f"{UK} {PYTHON} train check": Run(exit_code=2),
    f"{PYTHON} train extend --language uk --dataset ~/voices/uk --to bases/uk": Run(),
    f"BASE_MODEL=bases/uk {UK} OUTPUT_DIR=runs/uk make train": Run(settings={**SMALL, **FREE}),
    f'{PYTHON} xtts speak --voice runs/uk --language uk --text "Добрий день." --out uk.wav': Run(),
    f"OUTPUT_DIR=runs/uk {PYTHON} train export --to exported/uk": Run(),
    "make doctor": Run(exit_code=-1),
    "make tensorboard": Run(settings=FREE, until="http"),
    "make studio": Run(settings=FREE, until="Ready: "),
    f"{PYTHON} train queue": Run(until="The training queue is"),
    "make serve": Run(settings=FREE, until="Ready: "),
    "LOW_MEMORY=on make serve": Run(settings=FREE, until="Listens on"),
}
# While `make serve` runs.
SPEECH = "curl http://localhost:8005/"
JSON = "-H 'Content-Type: application/json'"
SERVED = {
    f"{SPEECH}v1/trainings {JSON} -d "
    """'{"run": "demo", "dataset": "train/data/demo", "settings": {"NUM_EPOCHS": "2"}}'""",
    f"{SPEECH}v1/trainings",
    f"{SPEECH}status",
    f"{SPEECH}v1/audio/speech {JSON} -d "
    """'{"input": "Good morning.", "response_format": "wav"}' -o said.wav""",
    f"{SPEECH}dev/captioned_speech {JSON} -d "
    """'{"input": "Turn left here.", "response_format": "wav", "stream": false}'""",
    f"{SPEECH}v1/voices -F file=@anna.wav -F 'name=Anna Reid'",
    f"""id=$(curl -s http://localhost:8005/v1/datasets {JSON} -d '{{"name": "Anna"}}' """
    "| jq -r .id)",
    'curl "http://localhost:8005/v1/datasets/$id/recordings?name=tape.mp3" -T tape.mp3 -X POST',
    'curl -X PUT "http://localhost:8005/v1/datasets/$id/text?kind=txt" --data-binary @tape.txt',
    "curl -X POST http://localhost:8005/v1/datasets/$id/cut",
    f"{SPEECH}v1/runs/current/candidates/epoch_3/speech {JSON} -d "
    """'{"input": "Good morning.", "response_format": "wav"}' -o epoch_3.wav""",
}
# Beginnings of commands, each with the reason why it does not run here.
CANNOT = {
    "COQUI_TOS_AGREED=1 .venv/bin/python -m xtts speak": "it downloads 2.1 GB; "
    "tests/xtts/voices/test_published_voice.py downloads a tiny model",
    "mkdir -p ~/.local": "it makes folders in the reader's home",
    "make test": "it runs the tests themselves",
    "make check": "it runs the tests themselves",
    "make install": "it downloads; tests/test_install.py runs .ci/install with stubs",
    "make test-gpu": "it needs an NVIDIA GPU",
    f"{PYTHON} benchmarks gpu": "it needs an NVIDIA GPU; tests/benchmarks/test_gpu.py rehearses it",
    f"{PYTHON} pip": "it needs a package index",
    ".venv/bin/uv pip install -e '.[mcp]'": "it needs a package index",
    ".venv/bin/uv pip install -e '.[watermark]'": "it needs a package index",
    "WATERMARK=perth make serve": "it needs that package; tests/extras/watermark speaks with it",
    "ffprobe": "tests/xtts/test_marks.py reads every format with it",
    "sotaque ": "it needs the console script; tests/machine/test_console.py runs it",
    ".venv/bin/sotaque": "tests/machine/test_console.py runs it",
    "TORCH_BACKEND=": "it downloads another build of torch",
    "docker compose": "it needs Docker; tests/test_images.py builds and starts the images",
    "podman-compose": "it needs podman; tests/test_images.py starts both files with it",
    "sudo": "it changes the machine",
    "unset": "it changes the reader's shell",
    "git clone": "the sentence leaves out the address, and there is no network here",
    "MAX_TRAIN_SAMPLES=64 ": "its clips are not here",
    "echo DOCKER_RUNTIME": "it needs an NVIDIA GPU and Docker",
    "API_PORT=800": "it needs a shared folder; tests/api/test_replicas.py runs two replicas",
    ".venv/bin/torchrun": "it needs several GPUs; tests/train/test_distributed.py runs processes",
    f"{PYTHON} train cut tape.mp3 --to ~/voices/anna --text tape.txt --ray": "it needs Ray",
    f"{PYTHON} xtts read": "there is no book here; tests/extras/books/test_read.py reads some",
    "VOICE=demo make serve": "tests/api/test_real_voice.py serves the demo with adapters",
    f"{PYTHON} xtts speak --voice adapters/anna": "there is no adapter here; "
    "tests/xtts/voices/test_adapter_voice.py speaks with one",
    f"{PYTHON} train distil": "a student learns for minutes; "
    "tests/extras/distil/test_distillation.py teaches small ones",
    f"{PYTHON} train export --checkpoint exported/small": "as `train distil`",
    f"{PYTHON} xtts speak --voice exported/small": "as `train distil`",
    f"{PYTHON} train export --adapter": "the run here has no LORA_RANK; "
    "tests/train/test_adapter_export.py exports one",
}
# Marks of commands that need an extra, or a result of an earlier command that does.
NEEDS = {
    "books": r"xtts read",
    "cut": r"train cut|/voices/anna",
    "dialects": r"captioned_speech",
    "distil": r"train distil|exported/small",
    "doctor": r"make doctor|xtts (?:doctor|explain|monitor)",
    "languages": r"train extend|\buk\b",
    "onnx": r"onnx",
    "ray": r"--ray",
    "ssml": r"<enter>",
    "studio": r"make studio|train queue|v1/(?:datasets|trainings)",
}
# Beginnings of blocks of Python.
CANNOT_PYTHON = {
    "from pathlib import Path\nfrom xtts import encoding": "tests/xtts/test_marks.py writes a file",
    "import soundfile, torch\nfrom extras.watermark": "it needs resemble-perth",
    "model.tokenizer.preprocess_text": "it needs a voice that Coqui's Xtts has loaded",
    "client = ElevenLabs(": "it needs elevenlabs; tests/extras/streams speaks with it",
    "import json\nfrom websockets": "tests/extras/streams/test_vllm_omni.py sends these messages",
    "from openai import": "it needs openai; tests/api/test_client_libraries.py speaks with it",
    "tts = ElevenLabsTTSService(": "it needs pipecat; tests/extras/streams speaks with it",
    "tts = elevenlabs.TTS(": "it needs livekit; tests/extras/streams speaks with it",
}


def commands(page: Path) -> list[str]:
    """The lines of the page's ```sh blocks without comments, and the README's inline commands."""
    text = page.read_text(encoding="utf-8")
    blocks = [body for kind, body in BLOCK.findall(text) if kind == "sh"]
    lines = [without_comment(line) for block in blocks for line in re.sub(r"\\\n\s*", "", block).splitlines()]
    return lines + (spans(page) if page.name == "README.md" else [])


def without_comment(line: str) -> str:
    return re.sub(r"\s{2,}# .*$", "", line)


def spans(page: Path) -> list[str]:
    """Commands within a sentence or a table, as a reader types them."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    found = re.findall(r"`([^`\n]+)`", text)
    return [span for span in found if COMMAND.match(span) and "…" not in span]


def lacking(command: str) -> str:
    """Why a command does not run in this copy: the extra that was deleted."""
    return next((one for one in missing() if re.search(NEEDS.get(one, r"(?!)"), command)), "")


def skip_without_its_extra(command: str) -> None:
    if name := lacking(command):
        pytest.skip(f"extras/{name} is not installed")


def reason_not_to_run(command: str) -> str | None:
    for beginning, reason in CANNOT.items():
        if command.startswith(beginning):
            return reason
    return None


ALL = sorted({line for page in PAGES for line in commands(page)})
SPANS = sorted({span for page in PAGES for span in (*commands(page), *spans(page))})


def test_there_are_commands():
    assert len(ALL) > 50 and len(SPANS) > 80


@pytest.mark.parametrize("command", ALL)
def test_every_command_is_run_here_or_has_a_reason(command):
    known = command in {*QUICK, *SLOW, *SERVED}
    assert known or reason_not_to_run(command), (
        "Run it in QUICK, SLOW or SERVED of tests/test_docs_commands.py, or say in CANNOT why not."
    )


def test_no_command_is_run_that_no_page_has():
    assert {*QUICK, *SLOW, *SERVED} - set(ALL) == set()
    assert [one for one in CANNOT if not any(line.startswith(one) for line in ALL)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_stand_in_blocks_of_their_own(page):
    """```sh for commands, another block for their output."""
    others = [body for kind, body in BLOCK.findall(page.read_text("utf-8")) if kind != "sh"]
    lines = [line for body in others for line in body.splitlines()]
    assert [line for line in lines if COMMAND.match(line)] == []
    assert [line for line in lines if line.startswith("$ ")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_written_the_same_everywhere(page):
    text = re.sub(r"^#.*$", "", page.read_text("utf-8"), flags=re.M)
    found = re.findall(r"(?<!\.venv/bin/)\bpython -m (?:train|xtts|api|benchmarks|tests)\S*", text)
    assert found == [], f"write {PYTHON}"


@pytest.mark.parametrize("command", SPANS)
def test_every_flag_of_ours_is_one(command):
    skip_without_its_extra(command)
    words = shlex.split(command, comments=True)
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words.pop(0)
    if words[:2] != PYTHON.split() or len(words) < 3:
        return
    module, rest = words[2], words[3:]
    if module == "train":
        check_train(rest)
    elif module == "xtts":
        check_xtts(rest)
    elif module == "api":
        api_settings.load(rest, {}, None)
    elif module == "benchmarks":
        check_benchmark(rest)
    elif module not in ("pip", "pydoc", "pytest"):
        assert importlib.util.find_spec(module), module


def check_train(words: list[str]) -> None:
    verb = words.pop(0) if words and not words[0].startswith("-") else "run"
    assert verb in modules()
    _, settings = open_verb(verb)[1].parse_known_args(words)
    train_settings.load(settings, {}, None)


def check_xtts(words: list[str]) -> None:
    """Parses a command; one without its positional arguments only names the verb."""
    parser = parser_of_all()
    (verbs,) = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    verb = verbs.choices[words[0]]
    for action in verb._actions:
        action.required = False
    for group in verb._mutually_exclusive_groups:
        group.required = False
    has_positional = any(not one.option_strings for one in verb._actions)
    if has_positional and len(words) == 1:
        return
    parser.parse_args(words)


def check_benchmark(words: list[str]) -> None:
    module = importlib.import_module(f"benchmarks.{words[0]}")
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    if hasattr(module, "add_arguments"):
        module.add_arguments(parser)
    parser.parse_args(words[1:])


# Commands that run


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracked files, as after `git clone` and the first `make`, with a reader's own files."""
    if not (ROOT / ".git").exists() or not (ROOT / ".venv/bin/python").exists():
        pytest.skip("not a clone with its .venv")
    folder = tmp_path_factory.mktemp("clone") / "sotaque"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    # make has already installed from these files.
    for name in ("requirements.lock", "requirements-dev.lock", "pyproject.toml", ".ci/install"):
        os.utime(folder / name, (0, 0))
    give_what_a_reader_has(folder)
    return folder


def give_what_a_reader_has(folder: Path) -> None:
    """Writes a reader's files: clips, recordings and a model.

    Anna's clips, the same labelled Ukrainian, a long recording with its text, and one without.
    """
    demo = folder / "train/data/demo"
    rows = [line.split("|", 1) for line in (demo / "metadata.csv").read_text("utf-8").splitlines()[:8]]
    wavs = folder / "clips/anna/wavs"
    wavs.mkdir(parents=True)
    (wavs.parent / "metadata.csv").write_text("\n".join("|".join(row) for row in rows) + "\n")
    tape: list[Any] = []
    for name, _ in rows:
        (clip,) = (demo / "wavs").glob(f"{name}.*")
        sound, rate = soundfile.read(clip, dtype="float32")
        soundfile.write(wavs / f"{name}.wav", sound, rate)
        tape += [sound, np.zeros(rate // 2, np.float32)]
    if has("languages"):
        ukrainian = folder.parent / "home/voices/uk"
        shutil.copytree(wavs, ukrainian / "wavs")
        texts = (ROOT / "tests/extras/languages/uk.txt").read_text("utf-8").splitlines()
        pairs = (f"{name}|{text}\n" for (name, _), text in zip(rows, texts, strict=False))
        (ukrainian / "metadata.csv").write_text("".join(pairs), "utf-8")
    soundfile.write(folder / "tape.mp3", np.concatenate(tape), rate)
    (folder / "tape.txt").write_text("\n".join(row[1] for row in rows) + "\n")
    soundfile.write(folder / "anna.wav", np.concatenate(tape[:6]), rate)
    silero = importlib.util.find_spec("silero_vad")
    if silero and silero.origin:
        shutil.copy(Path(silero.origin).parent / "data/silero_vad.onnx", folder / "MODEL.onnx")


def environment(clone: Path, how: Run) -> dict[str, str]:
    home = clone.parent / "home"
    return {"PATH": os.environ["PATH"], "HOME": str(home), "OMP_NUM_THREADS": "1", **how.settings}


def as_typed(command: str, how: Run) -> str:
    for placeholder, name in how.names.items():
        command = re.sub(rf"\b{placeholder}\b", name, command)
    return command


def run(command: str, how: Run, clone: Path) -> str:
    """Runs a command, checks its exit code and returns its output."""
    if how.until:
        with running(command, how, clone) as printed:
            return printed
    done = subprocess.run(
        ["bash", "-c", as_typed(command, how)],
        cwd=clone,
        env=environment(clone, how),
        timeout=1500,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert how.exit_code in (done.returncode, -1), done.stdout[-3000:]
    return done.stdout


@contextlib.contextmanager
def running(command: str, how: Run, clone: Path) -> Iterator[str]:
    """Runs a program until the caller is done; yields its output once it is ready."""
    log = clone.parent / "program.log"
    with log.open("w") as file:
        program = subprocess.Popen(
            ["bash", "-c", as_typed(command, how)],
            cwd=clone,
            env=environment(clone, how),
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + 120
        while how.until not in log.read_text() and time.monotonic() < end:
            assert program.poll() is None, log.read_text()[-3000:]
            time.sleep(0.2)
        assert how.until in log.read_text()
        yield log.read_text()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGTERM)
        try:
            program.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()


def printed_block(command: str) -> str | None:
    """The block that a page shows directly after the block of this command alone."""
    for page in PAGES:
        shown = re.search(
            r"^```sh\n" + re.escape(command) + r"\n```\n\n```\n(.*?)^```$",
            page.read_text("utf-8"),
            re.M | re.S,
        )
        if shown:
            return shown[1]
    return None


@pytest.mark.parametrize("command", QUICK)
def test_a_quick_command_runs_as_it_is_written(command, clone):
    skip_without_its_extra(command)
    printed = run(command, QUICK[command], clone)
    shown = printed_block(command)
    assert shown is None or shown.split() == printed.split()


@pytest.mark.slow
@pytest.mark.parametrize("command", SLOW)
def test_a_command_runs_as_it_is_written(command, clone):
    skip_without_its_extra(command)
    run(command, SLOW[command], clone)


@pytest.mark.slow
def test_what_is_asked_of_the_service_is_answered(clone):
    how = SLOW["make serve"]
    pages = (ROOT / "docs/api.md", ROOT / "docs/develop/api.md")
    # A line may be on both pages.
    asked = list(dict.fromkeys(command for page in pages for command in commands(page) if command in SERVED))
    assert len(asked) == len(SERVED)
    asked = [line for line in asked if not lacking(line)]
    script = "set -e\n" + "\n".join(
        re.sub(r"\bcurl\b", "curl --fail-with-body --silent --show-error --max-time 240", line)
        for line in asked
    )
    for program in ("curl", "jq"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    with running("make serve", how, clone):
        wait_for(int(how.settings["API_PORT"]))
        run(script.replace(":8005", f":{how.settings['API_PORT']}"), Run(), clone)
    assert (clone / "said.wav").stat().st_size > 1000
    assert (clone / "epoch_3.wav").stat().st_size > 1000


def wait_for(port: int, within_seconds: float = 120.0) -> None:
    end = time.monotonic() + within_seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as one:
            one.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            if b" 200 " in one.recv(64):
                return
        time.sleep(0.5)
    raise TimeoutError("the service is not ready")


# Python


def python_blocks(page: Path) -> list[str]:
    return [body for kind, body in BLOCK.findall(page.read_text("utf-8")) if kind == "python"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_python_is_run_here_or_has_a_reason(page):
    if page.name == "python.md":
        return
    blocks = python_blocks(page)
    assert [block for block in blocks if not block.startswith(tuple(CANNOT_PYTHON))] == []


def test_python_s_page_runs_from_top_to_bottom(clone, monkeypatch):
    monkeypatch.chdir(clone)
    played: list[Any] = []
    names: dict[str, Any] = {"play": played.append}
    *programs, session = python_blocks(ROOT / "docs/python.md")
    for program in programs:
        exec(compile(program, "docs/python.md", "exec"), names)
    assert (clone / "out.wav").exists() and played
    for typed, shown in re.findall(r"^>>> (.*)\n((?:(?!>>>).*\n)+)", session, re.M):
        with pytest.raises(Exception) as raised:
            eval(typed, names)
        said = "".join(traceback.format_exception_only(raised.value))
        assert said.split() == shown.split()
