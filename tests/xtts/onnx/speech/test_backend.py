"""Speaking with ONNX Runtime: what torch says, whole or in a stream, and without torch."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from xtts.inference import speech
from xtts.inference.decoding import DecodingState, iterate_codes, repetition_penalty
from xtts.inference.speed import SpeedChange
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import TorchBackend
from xtts.inference.voice import Voice
from xtts.model import loading as torchs
from xtts.model.config import SamplingParams
from xtts.model.loading import Model
from xtts.model.shapes import PLACEHOLDER_ID
from xtts.onnx import folder
from xtts.onnx.export import exporter
from xtts.onnx.speech.backend import OnnxBackend
from xtts.onnx.speech.loading import (
    OnnxComputeConfig,
    OnnxLatents,
    OnnxModel,
    load_onnx_model,
    read_voice,
)
from xtts.text.errors import TextError
from xtts.voices.base_models import DEMO

TEXT = "the old man walked along the river."
LONG = " ".join(["one two three four five six seven eight nine ten eleven."] * 14)
TIE = 1e-4


@pytest.mark.parametrize("text", ["one two.", TEXT, "a", "the river, the river and the river!"])
@pytest.mark.parametrize("penalty", [1.0, 5.0])
def test_greedy_codes_are_torchs_up_to_a_tie(
    text: str,
    penalty: float,
    torch_model: Model,
    torch_voice: Voice,
    onnx_model: OnnxModel,
    onnx_voice: OnnxLatents,
) -> None:
    rules = SamplingParams(greedy=True, repetition_penalty=penalty)
    wanted, tied = torchs_codes(torch_model, torch_voice, text, rules, 60)
    found = codes_of(onnx_model, onnx_voice, text, rules, 60)
    assert len(wanted) > 0 and found[: len(wanted)] == wanted
    assert tied or len(found) == len(wanted)


@pytest.mark.slow
def test_the_embedded_voice_says_what_it_says_with_torch(tmp_path: Path) -> None:
    """Learned weights, at the sizes that are in the package: codes up to a tie, and the sound."""
    exporter.export(exporter.source_of_folder(DEMO), tmp_path / "demo", ["fp32"])
    ours, theirs = (
        load_onnx_model(tmp_path / "demo", OnnxComputeConfig("fp32")),
        torchs.load_model(DEMO),
    )
    whose = read_voice(tmp_path / "demo" / folder.VOICE, ours.config)
    voice = Voice(torch.from_numpy(whose.latents), torch.from_numpy(whose.speaker))
    rules = replace(ours.config.decoding, greedy=True)
    for text in ("The farmer found a silver coin.", "Good evening, my sister!", "one two three."):
        wanted, tied = torchs_codes(theirs, voice, text, rules, 200)
        codes, most = codes_of(ours, whose, text, rules, 200), len(wanted)
        assert most > 10 and codes[:most] == wanted and (tied or len(codes) == most)
        sound = speech.synthesize(
            TorchBackend(theirs),
            voice,
            SynthesisRequest(text, "en", sampling=rules, max_codes=most),
        ).numpy()
        found = speech.synthesize(
            OnnxBackend(ours), whose, SynthesisRequest(text, "en", sampling=rules, max_codes=most)
        )
        assert np.linalg.norm(found - sound) < 1e-3 * np.linalg.norm(sound)


def torchs_codes(
    model: Model, voice: Voice, text: str, rules: SamplingParams, most: int
) -> tuple[list[int], bool]:
    """What torch says, up to the first tie, and whether there was one: another order of sums may
    choose otherwise there."""
    ids = model.tokenizer.encode(text, "en")
    utterance = DecodingState(model.gpt, rules, torch.Generator(), most)
    codes: list[int] = []
    for said in iterate_codes(model.gpt, voice.latents, torch.tensor(ids), utterance):
        seen = torch.zeros(model.gpt.shape.audio_ids, dtype=torch.bool)
        seen[[PLACEHOLDER_ID, model.gpt.shape.audio_start, *codes]] = True
        logits = model.gpt.mel_head(said.latents[-1])
        best = repetition_penalty(logits, seen, rules.repetition_penalty).topk(2).values
        if float(best[0] - best[1]) < TIE:
            return codes, True
        if not said.stopped:
            codes.append(int(said.code))
    return codes, False


def codes_of(
    model: OnnxModel, voice: OnnxLatents, text: str, rules: SamplingParams, most: int
) -> list[int]:
    backend, ids = OnnxBackend(model), model.tokenizer.encode(text, "en")
    said = backend.begin(voice, ids, rules, backend.random(0), most, ())
    while not said.done:
        backend.step([said])
    return said.said()


def test_the_waveform_is_torchs_within_a_thousandth(
    torch_model: Model, torch_voice: Voice, onnx_model: OnnxModel, onnx_voice: OnnxLatents
) -> None:
    rules = replace(onnx_model.config.decoding, greedy=True)
    for text in (TEXT, LONG):
        wanted = speech.synthesize(
            TorchBackend(torch_model),
            torch_voice,
            SynthesisRequest(text, "en", sampling=rules, max_codes=30),
        ).numpy()
        found = speech.synthesize(
            OnnxBackend(onnx_model),
            onnx_voice,
            SynthesisRequest(text, "en", sampling=rules, max_codes=30),
        )
        assert found.shape == wanted.shape
        assert np.linalg.norm(found - wanted) < 1e-3 * np.linalg.norm(wanted)


@pytest.mark.parametrize("text", [TEXT, LONG, "a"])
@pytest.mark.parametrize("speed", [1.0, 1.3, 0.7])
def test_a_stream_joined_is_the_whole(
    text: str, speed: float, onnx_model: OnnxModel, onnx_voice: OnnxLatents
) -> None:
    request = SynthesisRequest(text, "en", seed=5, speed=speed, max_codes=70)
    whole = speech.synthesize(OnnxBackend(onnx_model), onnx_voice, request)
    chunks = list(speech.stream(OnnxBackend(onnx_model), onnx_voice, request))
    joined = np.concatenate(chunks)
    assert joined.shape == whole.shape
    assert np.abs(joined - whole).max() < 1e-5
    assert len(chunks) > 2 or len(whole) < 24_000


def test_a_seed_speaks_the_same_again(onnx_model: OnnxModel, onnx_voice: OnnxLatents) -> None:
    one, same, other = (
        speech.synthesize(
            OnnxBackend(onnx_model),
            onnx_voice,
            SynthesisRequest(TEXT, "en", seed=seed, max_codes=20),
        )
        for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same) and not np.array_equal(one, other)


@pytest.mark.parametrize("speed", [0.5, 0.8, 1.0, 1.7, 4.0])
def test_the_tempo_is_torchs(speed: float) -> None:
    latents = torch.randn(23, 6, generator=torch.Generator().manual_seed(0))
    ours, theirs = SpeedChange(speed, np), SpeedChange(speed, torch)
    for latent in latents:
        found, wanted = ours.add(latent.numpy()), theirs.add(latent)
        assert found.shape == tuple(wanted.shape)
        assert np.abs(found - wanted.numpy()).max(initial=0.0) < 1e-6
    assert np.abs(ours.rest() - theirs.rest().numpy()).max(initial=0.0) < 1e-6


@pytest.mark.parametrize("lengths", [(10,), (100, 100), (500,), (119, 2, 200, 1), (240, 0)])
def test_the_fade_is_torchs(lengths: tuple[int, ...]) -> None:
    from xtts.inference.fading import StreamFade

    ours, theirs, random = StreamFade(np), StreamFade(torch), np.random.default_rng(0)
    for length in lengths:
        chunk = random.standard_normal(length).astype(np.float32)
        assert np.allclose(ours.push(chunk), theirs.push(torch.from_numpy(chunk)), atol=1e-6)
    assert np.allclose(ours.end(), theirs.end(), atol=1e-6)


def test_text_that_cannot_be_spoken_is_refused(
    onnx_model: OnnxModel, onnx_voice: OnnxLatents
) -> None:
    with pytest.raises(TextError):
        speech.synthesize(OnnxBackend(onnx_model), onnx_voice, SynthesisRequest("…", "en"))
    with pytest.raises(TextError):
        speech.synthesize(OnnxBackend(onnx_model), onnx_voice, SynthesisRequest(TEXT, "xx"))


ALONE = """
import sys
import numpy as np
from pathlib import Path
from xtts.inference import speech
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.onnx.speech import loading as model
from xtts.onnx.speech.backend import OnnxBackend
loaded = model.load_onnx_model(Path(sys.argv[1]), model.low_memory_config())
random = np.random.default_rng(0)
voice = model.OnnxLatents(
    random.standard_normal((1, 32, 64)).astype(np.float32),
    random.standard_normal((1, 512, 1)).astype(np.float32),
)
request = SynthesisRequest(sys.argv[2], "en", max_codes=10)
assert len(speech.synthesize(OnnxBackend(loaded), voice, request))
left = [name for name in ("torch", "TTS", "transformers", "onnx") if name in sys.modules]
print(left, int(open("/proc/self/statm").read().split()[1]) * 4096)
"""


def test_nothing_of_torch_is_in_the_process(onnx_folder: Path) -> None:
    """`python -m benchmarks low_memory --sentences` and its test say that it stays as little."""
    command = [sys.executable, "-c", ALONE, str(onnx_folder), TEXT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    left, resident = done.stdout.strip().rsplit(" ", 1)
    assert left == "[]"
    assert int(resident) < 250e6  # torch alone would be 560
