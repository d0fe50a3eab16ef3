"""A model that speaks in little memory: the same sound, the same voices, less kept."""

from pathlib import Path

import pytest
import torch

from tests.models import tiny_base
from xtts.inference import speech, voice
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import TorchBackend
from xtts.inference.voice import Voice, VoiceError
from xtts.model import loading as model
from xtts.model.gpt import to_coqui
from xtts.model.loading import LISTENING, Model

TEXT = "one two three."


@pytest.fixture
def whose() -> Voice:
    generator = torch.Generator().manual_seed(3)
    speaker = torch.randn(1, 512, 1, generator=generator)
    return Voice(torch.randn(1, 32, 64, generator=generator), speaker / speaker.norm())


@pytest.fixture
def recording() -> torch.Tensor:
    return 0.1 * torch.randn(50_000, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_it_says_the_same_to_the_bit(base_folder: Path, whose: Voice, precision: str) -> None:
    whole = model.load_model(base_folder, precision=precision)
    found = model.load_model(base_folder, precision=precision, low_memory=True)
    one, other = (
        speech.synthesize(TorchBackend(m), whose, SynthesisRequest(TEXT, "en", max_codes=30))
        for m in (whole, found)
    )
    assert torch.equal(one, other)


def test_auto_is_eight_bits(base_folder: Path) -> None:
    assert model.load_model(base_folder, precision="auto", low_memory=True).kind == "int8"


def test_what_only_listens_is_not_there_and_yet_it_listens(
    base_folder: Path, recording: torch.Tensor
) -> None:
    whole, found = (
        model.load_model(base_folder),
        model.load_model(base_folder, low_memory=True),
    )
    absent = [name for name, tensor in found.gpt.state_dict().items() if tensor.is_meta]
    assert absent and all(name.startswith(LISTENING) for name in absent)
    assert all(tensor.is_meta for tensor in found.speaker_encoder.parameters())
    for _ in range(2):  # the file is read again after it was given back
        wanted, heard = (voice.voice_from_reference(m, recording) for m in (whole, found))
        assert torch.equal(heard.latents, wanted.latents)
        assert torch.equal(heard.speaker, wanted.speaker)


def test_another_epoch_is_spoken_and_heard_with(
    base_folder: Path, tmp_path: Path, whose: Voice, recording: torch.Tensor
) -> None:
    other = tiny_base(tmp_path / "other", seed=1)
    learned = to_coqui(model.load_model(other).gpt.state_dict())
    whole, found = (
        model.load_model(base_folder),
        model.load_model(base_folder, low_memory=True),
    )
    for one in (whole, found):
        one.load_gpt(learned)
    said = [
        speech.synthesize(TorchBackend(m), whose, SynthesisRequest(TEXT, "en", max_codes=30))
        for m in (whole, found)
    ]
    assert torch.equal(*said)
    heard = [voice.voice_from_reference(m, recording).latents for m in (whole, found)]
    assert torch.equal(*heard)


def test_who_listens_in_vain_is_let_go_too(base_folder: Path) -> None:
    """A recording that is refused must not leave in memory what was loaded for it."""
    found, rested = model.load_model(base_folder, low_memory=True), []
    listener = found.listener

    class Watched:
        def __call__(self, speaking: Model) -> Model:
            assert listener is not None
            return listener(speaking)

        rest = staticmethod(lambda: rested.append(True))

    found.listener = Watched()
    with pytest.raises(VoiceError), found.voice_encoder():
        raise VoiceError("too short")
    assert rested == [True]
