"""BACKEND=onnx in the speaking child: frames in, sound out, and where it computes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.models import tiny_base
from tests.xtts.workers.test_server_main import Talk, next_done
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.loaded_voice import LoadedVoice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.onnx import folder as folders
from xtts.onnx.folder import OnnxError
from xtts.voices.base_models import BundleError
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tiny_base(tmp_path_factory.mktemp("voice") / "seed0")
    wave = np.random.default_rng(0).normal(0, 0.1, 22_050).astype("float32")
    soundfile.write(folder / "reference.wav", wave, 22_050)
    return folder


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("voices")


@pytest.fixture(scope="module")
def talk(base: Path, kept: Path) -> Iterator[Talk]:
    found = Talk(latents_folder=kept / "latents", backend="onnx")
    opened = found.open("a", base)
    assert opened["say"] == "opened", opened
    assert opened["own_voice"] and opened["languages"] == ["en", "pt"]
    assert opened["placed"]["execution_provider"] == "CPUExecutionProvider"
    yield found
    found.child.stdin.close()
    assert found.child.wait(20) == 0


def test_a_voice_is_exported_once_and_kept(talk: Talk, base: Path, kept: Path) -> None:
    (folder,) = (path for path in (kept / "onnx").iterdir() if path.is_dir())
    # What it does not speak with is not there: a model so small speaks exactly.
    assert not (folder / folders.GPT["int8"]).exists()
    before = (folder / "onnx.json").stat().st_mtime_ns
    assert talk.open("again", base)["say"] == "opened"
    assert (folder / "onnx.json").stat().st_mtime_ns == before
    talk.send(do="close", key="again")


def test_alone_and_in_a_crowd_it_is_the_same_to_the_bit(talk: Talk) -> None:
    talk.say("alone", "a", seed=5)
    alone = talk.until("done", "alone")["pcm"]["alone"]
    assert len(alone) > 2000
    for name, seed in (("x", 1), ("same", 5), ("y", 2)):
        talk.say(name, "a", seed=seed)
    pcm: dict[str, bytes] = {}
    for _ in range(3):
        assert next_done(talk, pcm)["say"] == "done"
    assert pcm["same"] == alone and pcm["x"] != alone


def test_an_uploaded_recording_is_heard_and_its_latents_are_kept(
    talk: Talk, base: Path, kept: Path
) -> None:
    talk.say("uploaded", "a", recording=str(base / "reference.wav"))
    assert talk.until("done", "uploaded")["say"] == "done"
    assert len(list((kept / "latents").iterdir())) == 1


def test_text_that_cannot_be_spoken_is_refused_and_the_rest_go_on(talk: Talk) -> None:
    talk.say("bad", "a", text="…")
    assert talk.until("failed", "bad")["say"] == "failed"
    talk.say("good", "a", temperature=0.0)
    assert talk.until("done", "good")["say"] == "done"


def test_a_voice_that_is_not_there_is_refused(tmp_path: Path, base: Path) -> None:
    with pytest.raises(BundleError, match="There is no voice at"):
        opened(tmp_path / "none", tmp_path / "latents")
    with pytest.raises(OnnxError, match="nowhere to keep"):
        opened(base)


def opened(folder: Path, latents_folder: Path | None = None) -> LoadedVoice:
    where = ComputeConfig(backend="onnx", latents_folder=latents_folder)
    return load_voice(VoiceSpec(str(folder)), where)


def test_without_a_recording_nobody_speaks(onnx_folder: Path) -> None:
    """The service tries itself so (`xtts.workers.server`)."""
    standing = opened(onnx_folder)
    assert standing.own is None and len(standing.weights) == 64
    crowd = standing.crowd(1)
    crowd.enter("micro", standing.nobody(), SynthesisRequest("a", "en", max_codes=4))
    said = [part for _ in range(5) if crowd.busy for part in crowd.step()]
    assert said[-1].done and said[-1].error is None and sum(len(p.chunks) for p in said) > 0


def test_torch_says_who_speaks_an_onnx_voice(onnx_folder: Path) -> None:
    with pytest.raises(BundleError, match="BACKEND=onnx speaks with it"):
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
voice = xtts.load_voice(folder)
assert len(xtts.synthesize(voice, "a", temperature=0))
print([name for name in ("torch", "TTS", "transformers", "onnx") if name in sys.modules])
"""


def test_an_onnx_voice_speaks_without_torch(onnx_folder: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ONNX, str(onnx_folder), str(tmp_path / "voice")],
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
