"""Speaking does not import heavy packages, however many are installed."""

import subprocess
import sys

import pytest

# Each takes 0.1 s to several seconds to import; Coqui's way to speak imports most of them.
HEAVY = {
    "transformers",
    "pandas",
    "matplotlib",
    "sklearn",
    "numba",
    "sympy",
    "networkx",
    "tensorboard",
    "onnxruntime",
    "onnx",
    "gruut",
    "spacy",
    "torchcodec",
    "datasets",
    "fastapi",
    "tensorflow",
}
SPEAKS = """
import xtts
voice = xtts.load_voice("demo")
assert len(next(xtts.stream(voice, "Yes.")))
"""
SERVES = """
import xtts.workers.server_main, xtts.workers.server, xtts.voices.loading
from xtts.inference.compute_config import ComputeConfig
from xtts.voices.loading import load_voice
from xtts.voices.voice_files import VoiceSpec
voice = load_voice(VoiceSpec("demo"), ComputeConfig(threads=1))
voice.prepare()
assert voice.own_voice
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(SPEAKS, marks=pytest.mark.slow, id="a sentence"),
        pytest.param(SERVES, id="a voice to serve"),
    ],
)
def test_nothing_heavy_is_imported_to_speak(program):
    told = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{told}\nassert 'torch._dynamo' not in sys.modules"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert {"torch", "xtts"} <= loaded
    assert loaded & HEAVY == set()
