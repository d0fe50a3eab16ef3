"""Learning a decoder that sounds more like a person's clips."""

import itertools
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import soundfile
import torch

from tests.train.test_run import assert_equal, content
from xtts import audio
from xtts.inference import speech
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.inference.torch_backend import TorchBackend
from xtts.inference.voice import Voice
from xtts.model import discriminators, loading, vocoder
from xtts.model.discriminators import Discriminators, write_discriminators
from xtts.model.loading import Model
from xtts.voices import learned_decoder
from xtts.voices.base_models import DEMO
from xtts.workers import decoder_clips, decoder_learner, decoder_learning
from xtts.workers.decoder_clips import ROW_CODES
from xtts.workers.decoder_learner import DecoderLearner
from xtts.workers.decoder_learning import DecoderLearningError
from xtts.workers.requests import (
    DecoderLearned,
    LearnDecoderRequest,
    SpeakRequest,
    TranscribedClip,
    TunedVoice,
)
from xtts.workers.tasks import FileSpeaker

DATA = Path("train/data/demo")
REFERENCE = DATA / "wavs" / "demo-90.flac"


FEW = 6  # one is held out


def clips(count: int) -> tuple[TranscribedClip, ...]:
    lines = (DATA / "metadata.csv").read_text().splitlines()[:count]
    named = [line.split("|")[:2] for line in lines]
    return tuple(TranscribedClip(next((DATA / "wavs").glob(f"{name}.*")), text, "en") for name, text in named)


def request(out: Path, count: int = FEW, **changes: object) -> LearnDecoderRequest:
    asked = {"clips": clips(count), "voice": TunedVoice(REFERENCE), "out": out, "steps": 3} | changes
    return LearnDecoderRequest(**asked)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded voice with small discriminators, which take less time."""
    folder = Path(shutil.copytree(DEMO, tmp_path_factory.mktemp("base") / "demo"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        write_discriminators(folder, Discriminators(2))
    return folder


@pytest.fixture(scope="module")
def speaker(base: Path) -> FileSpeaker:
    return FileSpeaker(base, ComputeConfig(precision="fp32"))


@pytest.fixture(scope="module", autouse=True)
def _one_short_row() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder_learner, "ROWS_PER_STEP", 1)
        patch.setattr(decoder_clips, "ROW_CODES", 12)
        yield


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("learned") / "best_decoder.safetensors"


@pytest.fixture(scope="module")
def learned(speaker: FileSpeaker, decoder: Path) -> DecoderLearned:
    return speaker.ask(request(decoder, state_out=decoder.with_suffix(".pt")))


def test_the_steps_are_those_of_the_request(learned):
    assert (learned.clips, learned.steps, learned.new_steps) == (FEW - 1, 3, 3)
    assert 0 < 3 * learned.step_seconds < learned.seconds
    assert learned.distance_after != learned.distance_before


def test_the_rate_is_that_which_the_base_recommends(learned, decoder):
    """Adam moves no weight by much more than the rate in a step."""
    published = loading.read_tensors(DEMO / "model.pth")
    moved = torch.load(decoder.with_suffix(".pt"), weights_only=True)["vocoder"]
    name = "waveform_decoder.filters.last.bias"
    farthest = (moved[name] - published[f"hifigan_decoder.{name}"].float()).abs().max()
    assert 2.5 * 4e-4 < farthest < 4 * 4e-4


@pytest.mark.slow
def test_clips_that_it_did_not_learn_from_come_closer_and_are_heard(speaker, tmp_path, monkeypatch):
    """The base never heard this person, whose pitch and timbre are shifted."""
    monkeypatch.setattr(decoder_learner, "ROWS_PER_STEP", 4)
    monkeypatch.setattr(decoder_clips, "ROW_CODES", ROW_CODES)
    shifted = []
    for number, clip in enumerate(clips(14)):
        path = tmp_path / f"{number}.wav"
        # Read at another rate: 15 % lower, slower and darker.
        soundfile.write(path, audio.read(clip.recording, audio.CODE_RATE).numpy(), 18_750)
        shifted.append(replace(clip, recording=path))
    out = tmp_path / "decoder.safetensors"
    voice = TunedVoice(shifted[0].recording)
    learned = speaker.ask(request(out, clips=tuple(shifted), voice=voice, steps=40))
    assert learned.distance_after < 0.97 * learned.distance_before
    sentence = SynthesisRequest("Good morning.", "en")
    speaker.ask(SpeakRequest(sentence, replace(voice, decoder=out), tmp_path / "spoken.wav"))
    sound = audio.read(tmp_path / "spoken.wav", audio.VOCODER_RATE)
    assert sound.isfinite().all() and 0.01 < float(sound.square().mean().sqrt()) < 0.5


def test_it_continues_from_a_state_to_the_bit(speaker, learned, decoder, tmp_path):
    """As epochs do; and the latents of the same weights are computed once."""
    state, between = decoder.with_suffix(".pt"), tmp_path / "state.pt"
    out, again = tmp_path / "continued.safetensors", tmp_path / "straight.safetensors"
    first = speaker.ask(request(tmp_path / "one.safetensors", steps=1, state_out=between))
    assert (first.steps, first.new_steps) == (1, 1)
    result = speaker.ask(request(out, state=between, state_out=tmp_path / "after.pt"))
    assert (result.steps, result.new_steps) == (3, 2)
    assert out.read_bytes() == decoder.read_bytes()
    assert_equal(content(tmp_path / "after.pt"), content(state))
    # No step is left: the decoder is written for the weights of this request.
    result = speaker.ask(request(again, state=state))
    assert (result.steps, result.new_steps) == (3, 0) and again.read_bytes() == out.read_bytes()
    speaker.ask(request(tmp_path / "half.safetensors", state=state, strength=0.5))
    name = "hifigan_decoder.waveform_decoder.filters.last.bias"
    half, whole = (
        learned_decoder.read_tensors(path)[name] for path in (tmp_path / "half.safetensors", again)
    )
    torch.testing.assert_close(half, (loading.read_tensors(DEMO / "model.pth")[name].float() + whole) / 2)
    result = speaker.ask(request(again, state=state, min_steps=1))
    assert (result.steps, result.new_steps) == (4, 1) and again.read_bytes() != out.read_bytes()


def test_without_discriminators_of_the_base_they_begin_alone(base, speaker, tmp_path, monkeypatch):
    without = tmp_path / "without"
    shutil.copytree(DEMO, without, ignore=shutil.ignore_patterns(discriminators.FILE))
    monkeypatch.setattr(speaker, "base", without)
    monkeypatch.setattr(decoder_learner, "WARM_UP_STEPS", 1)
    monkeypatch.setattr(decoder_learner, "DISCRIMINATOR_CHANNELS", 2)
    told: list[float] = []
    out, state = tmp_path / "decoder.safetensors", tmp_path / "state.pt"
    speaker.ask(request(out, steps=1, state_out=state), told.append)
    assert told[-2:] == [0.5, 1.0]
    assert torch.load(state, weights_only=True)["alone"] == 1


@pytest.mark.slow
def test_the_same_clips_and_seed_give_the_same_and_no_random_state_moves(speaker, learned, decoder, tmp_path):
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
    facts = {}
    for precision in ("fp32", "int8"):
        model = loading.load_model(DEMO, precision=precision)
        before = _said(model, who)
        learned = model.new_vocoder(learned_decoder.read_tensors(decoder))
        facts[precision] = _said(model, replace(who, vocoder=learned))
        assert torch.equal(_said(model, who), before)  # the voice without the decoder
        assert facts[precision].shape == before.shape
        assert not torch.allclose(facts[precision], before, atol=1e-3)


def _said(model: Model, who: Voice) -> torch.Tensor:
    return speech.synthesize(TorchBackend(model), who, SynthesisRequest("Good morning.", "en"))


@pytest.mark.usefixtures("learned")
def test_its_tensors_are_named_as_published(decoder):
    base = loading.read_tensors(DEMO / "model.pth")
    tensors = learned_decoder.read_tensors(decoder)
    names = {name for name in base if name.startswith("hifigan_decoder.waveform_decoder.")}
    assert tensors.keys() == names
    assert all(tensors[name].shape == base[name].shape for name in names)


def test_what_was_not_learned_is_the_bases(tmp_path):
    """Weight norm is folded for learning and unfolded for storing: the weights are the same."""
    model, base = loading.load_model(DEMO), loading.read_tensors(DEMO / "model.pth")
    published = decoder_learning.to_published(model.vocoder, base)
    again = vocoder.load_vocoder(published, model.config)
    for weight, reloaded in zip(model.vocoder.parameters(), again.parameters(), strict=True):
        assert torch.allclose(weight, reloaded, rtol=1e-6, atol=1e-8)


def test_it_tells_how_far_it_is_and_stops_when_told_so(speaker, tmp_path):
    """The progress callback stops it, as `train.sampling.sampler.InProcessSpeaker` does."""
    told: list[float] = []

    def progress(done: float) -> None:
        told.append(done)
        if done >= 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        speaker.ask(request(tmp_path / "none.safetensors", steps=4), progress)
    assert told == [*FEW * [0.0], 0.25, 0.5] and not (tmp_path / "none.safetensors").exists()


def test_a_time_limit_ends_it_and_without_time_it_takes_no_step(
    speaker, learned, decoder, tmp_path, monkeypatch
):
    """Each look at the clock is a second later: the start, the first step, each step."""
    clock = SimpleNamespace(perf_counter=itertools.count().__next__)
    monkeypatch.setattr(decoder_learning, "time", clock)
    out = tmp_path / "short.safetensors"
    result = speaker.ask(request(out, steps=None, budget_seconds=0.0))
    assert (result.steps, result.new_steps) == (0, 0)
    assert result.distance_after == result.distance_before
    state = decoder.with_suffix(".pt")
    result = speaker.ask(request(out, steps=None, budget_seconds=4.0, state=state))
    assert (result.steps, result.new_steps) == (3 + 2, 2)


def test_training_ends_early_when_held_out_clips_stop_to_come_closer(speaker, tmp_path, monkeypatch):
    def no_closer(learner: DecoderLearner, *_: object) -> None:
        learner.checks_since_best = 9 if learner.step == 2 else 0

    monkeypatch.setattr(DecoderLearner, "check_progress", no_closer)
    out, state = tmp_path / "decoder.safetensors", tmp_path / "state.pt"
    learned = speaker.ask(request(out, steps=9, state_out=state))
    assert learned.steps == 2
    learned = speaker.ask(request(out, steps=9, state=state, min_steps=3))
    assert (learned.steps, learned.new_steps) == (2, 0)  # no later epoch continues, either
    learned = speaker.ask(request(out, steps=4, state=state, budget_seconds=600.0))
    assert learned.new_steps == 2  # a time limit continues


def test_more_clips_hold_out_no_more_than_eight():
    for count, held_out in ((8, 1), (9, 2), (64, 8), (300, 8)):
        judge, learn = decoder_learning.split_held_out(list(range(count)))  # type: ignore[arg-type]
        assert len(judge) == held_out and sorted(judge + learn) == list(range(count))


def test_forced_latents_are_those_of_speaking(speaker):
    """The GPT's latents for given codes equal those of decoding the codes one by one."""
    from xtts.inference.torch_backend import TorchUtterance, decode
    from xtts.inference.voice import read_reference, voice_from_reference

    model = loading.load_model(DEMO)
    whose = voice_from_reference(model, read_reference(model.config, REFERENCE))
    ids = model.tokenizer.split("Good morning.", "en")[0].ids
    utterance = TorchUtterance(model.gpt, model.config.decoding, torch.Generator())
    decode(model.gpt, whose.latents, [(torch.tensor(ids), utterance)])
    with torch.no_grad():
        codes = torch.as_tensor(utterance.codes)
        forced_latent = decoder_clips.forced_latents(model, whose, ids, codes)[0]
    assert torch.allclose(forced_latent, torch.stack(utterance.latents)[: len(codes)], atol=1e-4)


def test_too_few_clips_are_told(speaker, tmp_path):
    with pytest.raises(DecoderLearningError, match=r"at least 3 clips .* 2 of 2"):
        speaker.ask(request(tmp_path / "none.safetensors", 2))


def test_three_clips_are_enough(speaker, tmp_path):
    learned = speaker.ask(request(tmp_path / "few.safetensors", 3, steps=1))
    assert (learned.clips, learned.steps) == (2, 1)
