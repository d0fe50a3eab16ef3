"""BACKEND=onnx in the speaking child: requests in, sound out, and the device that computes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from extras.onnx import folder as folders
from extras.onnx.folder import OnnxError
from tests.models import tiny_voice
from tests.xtts.inference.crowds import batcher_of
from tests.xtts.workers.test_server_main import (
    Talk,
    refuses_what_cannot_be_spoken,
    says_the_same_alone_and_in_a_crowd,
    talking,
)
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.voices.base_models import BundleError
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_voice(tmp_path_factory.mktemp("voice") / "seed0")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("voices")


@pytest.fixture(scope="module")
def talk(base: Path, kept: Path) -> Iterator[Talk]:
    with talking(base, latents_folder=kept / "latents", backend="onnx") as found:
        yield found


@pytest.mark.slow
def test_the_onnx_child_answers_as_the_one_with_torch(talk):
    assert talk.opened["placed"]["execution_provider"] == "CPUExecutionProvider"
    says_the_same_alone_and_in_a_crowd(talk)
    refuses_what_cannot_be_spoken(talk)
    talk.say("good", "a", temperature=0.0)
    assert talk.until("done", "good")["say"] == "done"


@pytest.mark.slow
def test_a_voice_is_exported_once_and_kept(talk, base, kept):
    (folder,) = (path for path in (kept / "onnx").iterdir() if path.is_dir())
    # Unused weights are not exported: such a small model speaks in float32.
    assert not (folder / folders.GPT_FILES["int8"]).exists()
    before = (folder / "onnx.json").stat().st_mtime_ns
    assert talk.open("again", base)["say"] == "opened"
    assert (folder / "onnx.json").stat().st_mtime_ns == before
    talk.send(do="close", key="again")


@pytest.mark.slow
def test_an_uploaded_recording_is_heard_and_its_latents_are_kept(talk, base, kept):
    talk.say("uploaded", "a", recording=str(base / "reference.wav"))
    assert talk.until("done", "uploaded")["say"] == "done"
    assert len(list((kept / "latents").iterdir())) == 1


@pytest.mark.slow
def test_the_child_never_loads_torch(talk, base):
    """Whatever it has done before: torch's libraries take 0.25 GB that are never freed."""
    talk.say("once more", "a", recording=str(base / "reference.wav"))
    assert talk.until("done", "once more")["say"] == "done"
    mapped = Path(f"/proc/{talk.child.pid}/maps").read_text()
    assert "onnxruntime" in mapped and "libtorch" not in mapped


def test_a_voice_that_is_not_there_is_refused(tmp_path, base):
    with pytest.raises(BundleError, match="There is no voice at"):
        opened(tmp_path / "none", tmp_path / "latents")
    with pytest.raises(OnnxError, match="no folder is set to cache"):
        opened(base)


def opened(folder: Path, latents_folder: Path | None = None) -> LoadedVoice:
    where = ComputeConfig(backend="onnx", latents_folder=latents_folder)
    return load_voice(VoiceSpec(str(folder)), where)


def test_without_a_recording_nobody_speaks(onnx_folder):
    """The service tests its device like this (`xtts.workers.server`)."""
    standing = opened(onnx_folder)
    assert standing.own_voice is None and len(standing.weights) == 64
    batcher = batcher_of(standing, 1)
    batcher.enter("micro", standing.placeholder_voice(), SynthesisRequest("a", "en", max_codes=4))
    said = [part for _ in range(5) if batcher.busy for part in batcher.step()]
    assert said[-1].speech.done and said[-1].error is None and sum(len(p.chunks) for p in said) > 0


def test_torch_says_who_speaks_an_onnx_voice(onnx_folder):
    with pytest.raises(BundleError, match="it needs BACKEND=onnx"):
        load_voice(VoiceSpec(str(onnx_folder)), ComputeConfig(), {})


ONNX = """
import shutil, sys
import numpy as np
from safetensors.numpy import save_file
import xtts
random = np.random.default_rng(0)
latents = random.standard_normal((1, 32, 64)).astype(np.float32)
speaker = random.standard_normal((1, 512, 1)).astype(np.float32)
folder = shutil.copytree(sys.argv[1], sys.argv[2])
save_file({"latents": latents, "speaker": speaker}, folder + "/voice.safetensors")
voice = xtts.load_voice(folder, low_memory=True)
assert len(xtts.synthesize(voice, "the old man walked.", temperature=0))
left = [name for name in ("torch", "TTS", "transformers", "onnx") if name in sys.modules]
print(left, int(open("/proc/self/statm").read().split()[1]) * 4096)
"""


def test_an_onnx_voice_speaks_without_torch(onnx_folder, tmp_path):
    """`python -m benchmarks loading --sentences` and its test show that memory stays this low."""
    done = subprocess.run(
        [sys.executable, "-c", ONNX, str(onnx_folder), str(tmp_path / "voice")],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    left, resident = done.stdout.strip().rsplit(" ", 1)
    assert left == "[]" and int(resident) < 250e6  # with torch it would be 560 MB
