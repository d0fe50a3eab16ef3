"""A speaker embedding that brings the vocoder nearer to a person's clips."""

from pathlib import Path

import pytest
import torch

from xtts.inference import speech
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import TorchBackend
from xtts.inference.voice import Voice
from xtts.model import loading
from xtts.voices.base_models import DEMO
from xtts.workers import speaker_learning
from xtts.workers.file_synthesis import FileSpeaker
from xtts.workers.requests import LearnSpeakerRequest, SpeakerLearned, TranscribedClip
from xtts.workers.speaker_learning import SpeakerLearningError

DATA = Path("train/data/demo")
REFERENCE = DATA / "wavs" / "demo-90.flac"


def clips(count: int) -> tuple[TranscribedClip, ...]:
    lines = (DATA / "metadata.csv").read_text().splitlines()[:count]
    named = [line.split("|")[:2] for line in lines]
    return tuple(
        TranscribedClip(next((DATA / "wavs").glob(f"{name}.*")), text, "en") for name, text in named
    )


def request(count: int = 10, **changes: object) -> LearnSpeakerRequest:
    asked = {"clips": clips(count), "reference": REFERENCE, "weights": None, "share": 0.0,
             "budget_seconds": 600.0, "steps": 6} | changes  # fmt: skip
    return LearnSpeakerRequest(**asked)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def speaker() -> FileSpeaker:
    return FileSpeaker(DEMO, ComputeConfig(precision="fp32"))


@pytest.fixture(scope="module")
def learned(speaker: FileSpeaker) -> SpeakerLearned:
    return speaker.ask(request())


def test_clips_that_it_did_not_learn_from_come_nearer(learned: SpeakerLearned) -> None:
    assert learned.distance_after < 0.99 * learned.distance_before
    assert (learned.clips, learned.steps, len(learned.embedding)) == (8, 6, 512)


@pytest.mark.slow
def test_the_same_clips_and_seed_give_the_same_and_no_random_state_moves(
    speaker: FileSpeaker, learned: SpeakerLearned
) -> None:
    before = torch.random.get_rng_state()
    assert speaker.ask(request()).embedding == learned.embedding
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_words_stay_what_they_are(learned: SpeakerLearned) -> None:
    """Only the vocoder hears the embedding: as many codes, and so as many samples."""
    model = loading.load_model(DEMO)
    from xtts.inference.voice import read_reference, voice_from_reference

    plain = voice_from_reference(model, read_reference(model.config, REFERENCE))
    other = Voice(plain.latents, torch.tensor(learned.embedding)[None, :, None])
    one, two = (
        speech.synthesize(TorchBackend(model), who, SynthesisRequest("Good morning.", "en"))
        for who in (plain, other)
    )
    assert one.shape == two.shape and not torch.equal(one, two)


def test_no_time_leaves_the_recordings_own(speaker: FileSpeaker) -> None:
    found = speaker.ask(request(budget_seconds=0.0))
    assert found.steps == 0 and found.distance_after == found.distance_before


def test_forced_latents_are_those_of_speaking(speaker: FileSpeaker) -> None:
    """What the GPT says of given codes is what decoding made of them one by one."""
    from xtts.inference.decoding import TorchUtterance, decode
    from xtts.inference.voice import read_reference, voice_from_reference

    model = loading.load_model(DEMO)
    whose = voice_from_reference(model, read_reference(model.config, REFERENCE))
    ids = model.tokenizer.split("Good morning.", "en")[0].ids
    said = TorchUtterance(model.gpt, model.config.decoding, torch.Generator())
    decode(model.gpt, whose.latents, [(torch.tensor(ids), said)])
    with torch.no_grad():
        codes = torch.as_tensor(said.codes)
        found = speaker_learning._forced(model, whose, ids, codes)[0]
    assert torch.allclose(found, torch.stack(said.latents)[: len(codes)], atol=1e-4)


def test_too_few_clips_are_told(speaker: FileSpeaker) -> None:
    with pytest.raises(SpeakerLearningError, match=r"at least 4 clips .* of 3 there are 2"):
        speaker.ask(request(3))
