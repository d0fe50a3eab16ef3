"""Learning a decoder that sounds more like a person's clips."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from xtts.inference import speech
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import TorchBackend
from xtts.inference.voice import Voice
from xtts.model import loading, vocoder
from xtts.model.loading import Model
from xtts.model.shapes import SourceFilterShape
from xtts.voices import learned_decoder
from xtts.voices.base_models import DEMO
from xtts.workers import decoder_learning
from xtts.workers.decoder_learning import DecoderLearningError
from xtts.workers.requests import DecoderLearned, LearnDecoderRequest, TranscribedClip, TunedVoice
from xtts.workers.tasks import FileSpeaker

DATA = Path("train/data/demo")
REFERENCE = DATA / "wavs" / "demo-90.flac"


def clips(count: int) -> tuple[TranscribedClip, ...]:
    lines = (DATA / "metadata.csv").read_text().splitlines()[:count]
    named = [line.split("|")[:2] for line in lines]
    return tuple(
        TranscribedClip(next((DATA / "wavs").glob(f"{name}.*")), text, "en") for name, text in named
    )


def request(out: Path, count: int = 10, **changes: object) -> LearnDecoderRequest:
    asked = {"clips": clips(count), "voice": TunedVoice(REFERENCE), "out": out,
             "budget_seconds": 600.0, "steps": 3} | changes  # fmt: skip
    return LearnDecoderRequest(**asked)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def speaker() -> FileSpeaker:
    return FileSpeaker(DEMO, ComputeConfig(precision="fp32"))


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("learned") / "best_decoder.safetensors"


@pytest.fixture(scope="module")
def learned(speaker: FileSpeaker, decoder: Path) -> DecoderLearned:
    return speaker.ask(request(decoder))


def test_clips_that_it_did_not_learn_from_come_nearer(learned):
    assert learned.distance_after < 0.99 * learned.distance_before
    assert (learned.clips, learned.steps) == (8, 3)
    assert 0 < 3 * learned.step_seconds < learned.seconds


@pytest.mark.slow
def test_the_same_clips_and_seed_give_the_same_and_no_random_state_moves(
    speaker, learned, decoder, tmp_path
):
    before = torch.random.get_rng_state()
    speaker.ask(request(tmp_path / "again.safetensors"))
    assert (tmp_path / "again.safetensors").read_bytes() == decoder.read_bytes()
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.usefixtures("learned")
def test_it_changes_the_sound_and_no_word(decoder):
    """The same number of codes, and so of samples; in float32 and in the fast layout."""
    from xtts.inference.voice import read_reference, voice_from_reference

    plain = loading.load_model(DEMO)
    who = voice_from_reference(plain, read_reference(plain.config, REFERENCE))
    said = {}
    for precision in ("fp32", "int8"):
        model = loading.load_model(DEMO, precision=precision)
        before = _said(model, who)
        learned = model.another_vocoder(learned_decoder.read_tensors(decoder))
        said[precision] = _said(model, replace(who, vocoder=learned))
        assert torch.equal(_said(model, who), before)  # the voice without the decoder
        assert said[precision].shape == before.shape
        assert not torch.allclose(said[precision], before, atol=1e-3)


def _said(model: Model, who: Voice) -> torch.Tensor:
    return speech.synthesize(TorchBackend(model), who, SynthesisRequest("Good morning.", "en"))


@pytest.mark.usefixtures("learned")
def test_its_tensors_are_named_as_published(decoder):
    base = loading.read_tensors(DEMO / "model.pth")
    found = learned_decoder.read_tensors(decoder)
    names = {name for name in base if name.startswith("hifigan_decoder.waveform_decoder.")}
    assert found.keys() == names
    assert all(found[name].shape == base[name].shape for name in names)


def test_what_was_not_learned_is_the_bases(tmp_path):
    """Weight norm is folded for learning and unfolded for storing: the weights are the same."""
    model, base = loading.load_model(DEMO), loading.read_tensors(DEMO / "model.pth")
    kept = decoder_learning.published_names(model.vocoder, base)
    again = vocoder.load_vocoder(kept, model.config)
    for one, other in zip(model.vocoder.parameters(), again.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-6, atol=1e-8)


def test_an_oscillator_learns_the_person_s_pitch_and_its_filters_the_spectra():
    torch.manual_seed(0)
    learning = vocoder.Vocoder(16, 32, SourceFilterShape(16, 1, 16, 1)).eval()
    names = {
        f"{vocoder.WAVEFORM_DECODER}{name}": tensor
        for name, tensor in learning.waveform_decoder.state_dict().items()
    }
    kept = decoder_learning.published_names(learning, names)
    before = {name: tensor.clone() for name, tensor in kept.items()}
    codes = decoder_learning.ROW_CODES
    sound = 0.1 * torch.sin(2 * torch.pi * 250 * torch.arange(codes * 1115) / 24_000)
    pitches = torch.full((codes * decoder_learning.PITCHES_PER_CODE,), math.log2(250))
    pitches[20:30] = 0.0
    rows = [(torch.randn(1, codes, 16), pitches, sound)] * 2
    optimizer = torch.optim.Adam(learning.parameters(), lr=1e-2)
    found = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = decoder_learning._distance(
            learning, torch.randn(1, 32, 1), torch.device("cpu"), rows
        )
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    assert found[-1] < 0.8 * found[0]
    with torch.no_grad():
        height, _ = learning.waveform_decoder.predicted_pitch(learning.latent_steps(rows[0][0]))
    assert float((height - math.log2(250)).abs().mean()) < 0.1
    after = decoder_learning.published_names(learning, names)
    assert before.keys() == after.keys() == names.keys()
    assert [name for name in names if torch.equal(before[name], after[name])] == []


def test_it_tells_how_far_it_is_and_stops_when_told_so(speaker, tmp_path):
    """The progress callback stops it, as `train.sampling.sampler.InProcessSpeaker` does."""
    told: list[float] = []

    def progress(done: float) -> None:
        told.append(done)
        if done >= 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        speaker.ask(request(tmp_path / "none.safetensors", steps=4), progress)
    assert told == [*11 * [0.0], 0.5] and not (tmp_path / "none.safetensors").exists()


def test_many_clips_take_no_more_than_a_quarter_of_the_time(speaker, tmp_path, monkeypatch):
    monkeypatch.setattr(decoder_learning, "FEWEST_PREPARED", 8)
    found = speaker.ask(request(tmp_path / "few.safetensors", 10, budget_seconds=1e-3))
    assert found.clips == 7  # one of the eight prepared clips is for judging


def test_no_time_leaves_the_bases_own(speaker, tmp_path):
    found = speaker.ask(request(tmp_path / "none.safetensors", budget_seconds=0.0))
    assert found.steps == 0 and found.distance_after == found.distance_before


def test_forced_latents_are_those_of_speaking(speaker):
    """The GPT's latents for given codes equal those of decoding the codes one by one."""
    from xtts.inference.torch_backend import TorchUtterance, decode
    from xtts.inference.voice import read_reference, voice_from_reference

    model = loading.load_model(DEMO)
    whose = voice_from_reference(model, read_reference(model.config, REFERENCE))
    ids = model.tokenizer.split("Good morning.", "en")[0].ids
    said = TorchUtterance(model.gpt, model.config.decoding, torch.Generator())
    decode(model.gpt, whose.latents, [(torch.tensor(ids), said)])
    with torch.no_grad():
        codes = torch.as_tensor(said.codes)
        found = decoder_learning._forced(model, whose, ids, codes)[0]
    assert torch.allclose(found, torch.stack(said.latents)[: len(codes)], atol=1e-4)


def test_too_few_clips_are_told(speaker, tmp_path):
    with pytest.raises(DecoderLearningError, match=r"at least 4 clips .* 2 of 3"):
        speaker.ask(request(tmp_path / "none.safetensors", 3))
