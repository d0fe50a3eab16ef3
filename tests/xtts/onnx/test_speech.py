"""Speaking with ONNX Runtime: what torch says, whole or in a stream, and without torch."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from xtts import synthesis
from xtts.decoding import Utterance, codes_one_by_one
from xtts.model import Model
from xtts.onnx import speech
from xtts.onnx.model import OnnxModel
from xtts.onnx.speech import Manner, OnnxLatents
from xtts.sizes import Decoding
from xtts.tempo import Tempo
from xtts.text import TextError
from xtts.voice import Voice

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
    rules = Decoding(greedy=True, repetition_penalty=penalty)
    ids = torch_model.tokenizer.encode(text, "en")
    utterance = Utterance(torch_model.gpt, rules, torch.Generator(), 60)
    wanted, margins = [], []
    steps = codes_one_by_one(torch_model.gpt, torch_voice.latents, torch.tensor(ids), utterance)
    for said in steps:
        wanted.append(int(said.code))
        logits = torch_model.gpt.mel_head(said.latents[-1])
        best = logits.topk(2).values
        margins.append(float(best[0] - best[1]))
    found = codes_of(onnx_model, onnx_voice, text, rules, 60)
    tie = next((i for i, margin in enumerate(margins) if margin < TIE), len(wanted))
    assert tie > 0
    assert found[:tie] == wanted[: len(found)][:tie]


def codes_of(
    model: OnnxModel, voice: OnnxLatents, text: str, rules: Decoding, most: int
) -> list[int]:
    made = speech.OnnxSpeech(model, voice, text, "en", Manner(rules, max_codes=most))
    made.step()
    piece = made._piece
    assert piece is not None
    while not made.done:
        made.step()
    return piece.said


def test_the_waveform_is_torchs_within_a_thousandth(
    torch_model: Model, torch_voice: Voice, onnx_model: OnnxModel, onnx_voice: OnnxLatents
) -> None:
    rules = replace(onnx_model.config.decoding, greedy=True)
    for text in (TEXT, LONG):
        wanted = synthesis.speak(
            torch_model, torch_voice, text, "en", decoding=rules, max_codes=30
        ).numpy()
        found = speech.speak(onnx_model, onnx_voice, text, "en", Manner(rules, max_codes=30))
        assert found.shape == wanted.shape
        assert np.linalg.norm(found - wanted) < 1e-3 * np.linalg.norm(wanted)


@pytest.mark.parametrize("text", [TEXT, LONG, "a"])
@pytest.mark.parametrize("speed", [1.0, 1.3, 0.7])
def test_a_stream_joined_is_the_whole(
    text: str, speed: float, onnx_model: OnnxModel, onnx_voice: OnnxLatents
) -> None:
    manner = Manner(seed=5, speed=speed, max_codes=70)
    whole = speech.speak(onnx_model, onnx_voice, text, "en", manner)
    chunks = list(speech.stream(onnx_model, onnx_voice, text, "en", manner))
    joined = np.concatenate(chunks)
    assert joined.shape == whole.shape
    assert np.abs(joined - whole).max() < 1e-5
    assert len(chunks) > 2 or len(whole) < 24_000


def test_a_seed_speaks_the_same_again(onnx_model: OnnxModel, onnx_voice: OnnxLatents) -> None:
    one, same, other = (
        speech.speak(onnx_model, onnx_voice, TEXT, "en", Manner(seed=seed, max_codes=20))
        for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same) and not np.array_equal(one, other)


@pytest.mark.parametrize("speed", [0.5, 0.8, 1.0, 1.7, 4.0])
def test_the_tempo_is_torchs(speed: float) -> None:
    latents = torch.randn(23, 6, generator=torch.Generator().manual_seed(0))
    ours, theirs = speech.Tempo(speed), Tempo(speed)
    for latent in latents:
        found, wanted = ours.add(latent.numpy()), theirs.add(latent)
        assert found.shape == tuple(wanted.shape)
        assert np.abs(found - wanted.numpy()).max(initial=0.0) < 1e-6
    assert np.abs(ours.rest() - theirs.rest().numpy()).max(initial=0.0) < 1e-6


@pytest.mark.parametrize("lengths", [(10,), (100, 100), (500,), (119, 2, 200, 1), (240, 0)])
def test_the_fade_is_torchs(lengths: tuple[int, ...]) -> None:
    from xtts.speech import Fade

    ours, theirs, random = speech.Fade(), Fade(), np.random.default_rng(0)
    for length in lengths:
        chunk = random.standard_normal(length).astype(np.float32)
        assert np.allclose(ours.push(chunk), theirs.push(torch.from_numpy(chunk)), atol=1e-6)
    assert np.allclose(ours.end(), theirs.end(), atol=1e-6)


def test_text_that_cannot_be_spoken_is_refused(
    onnx_model: OnnxModel, onnx_voice: OnnxLatents
) -> None:
    with pytest.raises(TextError):
        speech.speak(onnx_model, onnx_voice, "…", "en")
    with pytest.raises(TextError):
        speech.speak(onnx_model, onnx_voice, TEXT, "xx")


ALONE = """
import json, sys
import numpy as np
from pathlib import Path
from xtts.onnx import model, speech
folder, texts = Path(sys.argv[1]), json.loads(sys.argv[2])
loaded = model.load(folder, model.low_memory(1))
random = np.random.default_rng(0)
voice = speech.OnnxLatents(
    random.standard_normal((1, 32, 64)).astype(np.float32),
    random.standard_normal((1, 512, 1)).astype(np.float32),
)
def resident():
    fields = open("/proc/self/statm").read().split()
    return int(fields[1]) * 4096
sizes = []
for number, text in enumerate(texts):
    manner = speech.Manner(seed=number, max_codes=10 + 7 * number % 60)
    assert len(speech.speak(loaded, voice, text, "en", manner))
    sizes.append(resident())
print(json.dumps([sizes, [name for name in ("torch", "TTS") if name in sys.modules]]))
"""


def alone(folder: Path, texts: list[str]) -> tuple[list[int], list[str]]:
    command = [sys.executable, "-c", ALONE, str(folder), json.dumps(texts)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    sizes, left = json.loads(done.stdout)
    return sizes, left


def test_nothing_of_torch_is_in_the_process(onnx_folder: Path) -> None:
    sizes, left = alone(onnx_folder, [TEXT])
    assert left == []
    assert sizes[0] < 250e6  # torch alone would be 560


@pytest.mark.slow
def test_memory_is_flat_over_200_sentences_of_mixed_length(onnx_folder: Path) -> None:
    texts = [" ".join(["one two three four."] * (1 + number * 7 % 23)) for number in range(200)]
    sizes, _ = alone(onnx_folder, texts)
    assert max(sizes[150:]) < 1.05 * max(sizes[:50])
