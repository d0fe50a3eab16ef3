"""Speaking files and measuring them: refusals are cheap, the same weights give the same result."""

import shutil
import threading
import tracemalloc
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import soundfile
import torch
from torchaudio.transforms import Resample

from machine.errors import SotaqueError
from tests.datasets import a_sound
from tests.marked import comment
from tests.models import ending_base
from train.checkpointing.checkpoints import Checkpoints
from xtts.audio import speaker_mel
from xtts.inference import voice
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.marks import Mark
from xtts.model import loading, vocoder
from xtts.model.config import ModelConfig
from xtts.model.gpt import PREFIX
from xtts.model.loading import read_tensors
from xtts.text.tokenizer import Tokenizer
from xtts.voices import learned_decoder
from xtts.voices.base_models import DEMO
from xtts.voices.run_folder import RunFolder
from xtts.workers import tasks
from xtts.workers.decoder_learning import to_published
from xtts.workers.requests import (
    SLOTS,
    EvaluateRequest,
    ListenRequest,
    SentenceTask,
    SpeakingRate,
    SpeakRequest,
    SpokenFacts,
    TunedVoice,
)
from xtts.workers.tasks import BackgroundHearing, FileSpeaker
from xtts.workers.tuned_model import TunedModel


@pytest.mark.parametrize("mel_device", ["cpu", "meta"])
def test_the_speakers_mel_is_taken_where_it_is_told(monkeypatch, base_folder, mel_device):
    """Here "meta" replaces the GPU, as a device that is not the CPU. Only the mel moves there."""
    sound = 0.1 * torch.randn(40_000, generator=torch.Generator().manual_seed(0))
    expected = voice.voice_from_reference(loading.load_model(base_folder), sound)
    seen: list[str] = []

    def spy(waveform: torch.Tensor) -> torch.Tensor:
        seen.append(waveform.device.type)
        on_cpu = waveform.cpu() if waveform.device.type == "cpu" else resampled
        return speaker_mel(on_cpu)

    resampled = voice.resample(sound, voice.CODE_RATE, voice.SPEAKER_RATE)[None]
    monkeypatch.setattr(vocoder, "speaker_mel", spy)
    loaded = FileSpeaker(base_folder, ComputeConfig("cpu", mel_device, "fp32")).model
    assert loaded.speaker_encoder.mel_device == torch.device(mel_device)
    whose = voice.voice_from_reference(loaded, sound)
    assert seen == [mel_device]
    assert torch.equal(whose.speaker, expected.speaker) and whose.speaker.device.type == "cpu"
    assert torch.equal(whose.latents, expected.latents)


HELLO = SynthesisRequest("hello", "en")
GOOD = 0.3 * np.sin(np.arange(44_100) / 20)
RECORDINGS = {
    "0.1 s": (GOOD[:2205], 22_050, "wav", "0.10 s long"),
    "silence": (np.zeros(44_100), 22_050, "wav", "is silent"),
    "an hour of silence": (np.zeros(3600 * 8_000, np.int16), 8_000, "flac", "is silent"),
    "NaN": (np.append(GOOD, np.nan).astype(np.float32), 22_050, "wav", "non-finite"),
    "no sound at all": (np.zeros(0), 22_050, "wav", "no samples"),
}
UNSPEAKABLE = {
    "spaces": ("  \t\n ", "en", "nothing to speak"),
    "emoji": ("🙂🎉", "en", "nothing to speak"),
    "controls": ("\x00\x07\u202e\u200b", "en", "nothing to speak"),
    "a book": ("a word " * 14_286, "en", "100,002 characters"),
    "Klingon": ("nuqneH", "tlh", "not one of this model's"),
}


@pytest.fixture(scope="module")
def opened(base_folder: Path) -> FileSpeaker:
    return FileSpeaker(base_folder, ComputeConfig(), keep_weights=False)


@pytest.fixture
def idle(opened: FileSpeaker, monkeypatch: pytest.MonkeyPatch) -> FileSpeaker:
    """A speaker that from now on must not read weights or compute."""
    speaker = opened
    call = torch.nn.Module.__call__

    def computed(*_arguments: object) -> NoReturn:
        pytest.fail("something was computed before the input was looked at")

    def only_resampled(module: torch.nn.Module, *arguments: object) -> object:
        """Reading a recording resamples it, which is part of the check."""
        return call(module, *arguments) if isinstance(module, Resample) else computed()

    monkeypatch.setattr(torch.nn.Module, "__call__", only_resampled)
    monkeypatch.setattr(speaker, "_load_gpt", computed)
    return speaker


def written(path: Path, samples: np.ndarray, rate: int) -> Path:
    soundfile.write(path, samples, rate, subtype="FLOAT" if samples.dtype == np.float32 else None)
    return path


@pytest.mark.parametrize("name", UNSPEAKABLE)
def test_a_text_that_cannot_be_spoken_costs_nothing(idle, tmp_path, name):
    text, language, told = UNSPEAKABLE[name]
    reference = written(tmp_path / "good.wav", GOOD, 22_050)
    asked = SpeakRequest(SynthesisRequest(text, language), TunedVoice(reference), tmp_path / "out.wav")
    with pytest.raises(SotaqueError, match=told):
        idle.ask(asked)
    assert not asked.out.exists()


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_that_is_no_voice_costs_nothing(idle, tmp_path, name):
    samples, rate, form, told = RECORDINGS[name]
    reference = written(tmp_path / f"bad.{form}", samples, rate)
    if form == "flac":
        assert reference.stat().st_size < 250_000
    asked = SpeakRequest(HELLO, TunedVoice(reference), tmp_path / "out.wav")
    tracemalloc.start()
    with pytest.raises(SotaqueError, match=told):
        idle.ask(asked)
    assert tracemalloc.get_traced_memory()[1] < 30e6  # an hour would be 115 MB in float32
    tracemalloc.stop()
    assert not asked.out.exists()


@pytest.mark.slow
def test_the_speaker_of_a_recording_is_taken_once(base_folder, tmp_path, monkeypatch):
    """Once for a recording, whatever the weights; another recording replaces it. The speech is the
    same to the bit."""
    good = written(tmp_path / "one.wav", GOOD, 22_050)
    other = written(tmp_path / "other.wav", GOOD[::-1].copy(), 22_050)
    heard: list[int] = []
    real = voice.speaker_embedding

    def spy(*given: Any) -> torch.Tensor:
        heard.append(1)
        return real(*given)

    monkeypatch.setattr(voice, "speaker_embedding", spy)
    speaker = FileSpeaker(base_folder, ComputeConfig(), keep_weights=False)
    out, counts = [], []
    for number, reference in enumerate((good, good, other, good)):
        path = tmp_path / f"{number}.wav"
        speaker.ask(SpeakRequest(HELLO, TunedVoice(reference), path))
        out.append(path.read_bytes())
        counts.append(len(heard))
        heard.clear()
    assert counts == [2, 1, 2, 2]  # plus once for the speech, for its similarity
    assert out[0] == out[1] == out[3]


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.999])
def test_a_damaged_base_is_told_when_it_is_loaded(base_folder, tmp_path, keep):
    folder = shutil.copytree(base_folder, tmp_path / "base")
    weights = folder / "model.pth"
    weights.write_bytes(weights.read_bytes()[: int(keep * weights.stat().st_size)])
    with pytest.raises(SotaqueError, match="cannot be read as model weights"):
        FileSpeaker(folder, ComputeConfig())


def test_a_damaged_checkpoint_is_told_and_the_next_one_is_spoken(base_folder, tmp_path):
    reference = written(tmp_path / "good.wav", GOOD, 22_050)
    damaged = tmp_path / "checkpoint_epoch_1.pt"
    damaged.write_bytes((base_folder / "model.pth").read_bytes()[:5000])
    speaker = FileSpeaker(base_folder, ComputeConfig(), keep_weights=False)
    asked = SpeakRequest(HELLO, TunedVoice(reference, damaged), tmp_path / "out.wav")
    with pytest.raises(SotaqueError, match="checkpoint_epoch_1"):
        speaker.ask(asked)
    assert speaker.ask(replace(asked, voice=TunedVoice(reference))).audio_seconds > 0


def test_a_sample_knows_when_its_words_are_spoken(tmp_path):
    speaker = FileSpeaker(DEMO, ComputeConfig())
    text = SynthesisRequest("He paid $5.", "en")
    asked = SpeakRequest(text, TunedVoice(DEMO / "reference.wav"), tmp_path / "out.wav")
    spoken = speaker.ask(asked)
    assert spoken.words is not None
    assert comment(asked.out) == Mark("demo").text
    assert [word for word, _, _ in spoken.words] == ["He", "paid", "$5"]
    edges = [edge for _, *word in spoken.words for edge in word]
    assert edges == sorted(edges) and edges[-1] <= spoken.audio_seconds
    speaker.compute = replace(speaker.compute, guard=False)
    assert speaker.ask(asked).words is None


# Measuring

TEXTS = ("hello", "one two three", "a day in may", "good night", "so it is", "no", "yes", "we go", "the end")


@pytest.fixture(scope="module")
def speaker(base_folder: Path) -> FileSpeaker:
    return FileSpeaker(base_folder, ComputeConfig(precision="fp32"))


@pytest.fixture(scope="module")
def request_of_base(tmp_path_factory: pytest.TempPathFactory) -> EvaluateRequest:
    folder = tmp_path_factory.mktemp("evaluation")
    soundfile.write(folder / "person.wav", a_sound(1.5, 22_050), 22_050)
    sentences = tuple(
        SentenceTask(SynthesisRequest(text, "en", number), sounded=number < 2, out=folder / f"{number}.wav")
        for number, text in enumerate(TEXTS)
    )
    return EvaluateRequest(sentences, TunedVoice(folder / "person.wav"), SpeakingRate(0.5, 1.0))


def task(text: str, seed: int = 0) -> SentenceTask:
    return SentenceTask(SynthesisRequest(text, "en", seed))


def by(asked: EvaluateRequest, **changes: Any) -> EvaluateRequest:
    """The same sentences with other weights, or with another decoder."""
    return replace(asked, voice=replace(asked.voice, **changes))


def checkpoint(folder: Path, base: Path, shift: float = 0.0) -> Path:
    state = {
        name: tensor + shift
        for name, tensor in read_tensors(base / "model.pth").items()
        if name.startswith(PREFIX)
    }
    run = RunFolder(folder)
    Checkpoints(run, None).save_epoch(1, 1, state, None, {})
    return run.checkpoint_path(1)


def test_relabelled_base_weights_are_the_base_to_the_bit(speaker, request_of_base, tmp_path, base_folder):
    base = speaker.ask(request_of_base)
    same = checkpoint(tmp_path / "same", base_folder)
    assert speaker.ask(by(request_of_base, weights=same)).sentences == base.sentences
    other = checkpoint(tmp_path / "other", base_folder, shift=0.02)
    tuned = by(request_of_base, weights=other)
    assert speaker.ask(tuned).sentences != base.sentences
    assert speaker.ask(by(tuned, share=0.0)).sentences == base.sentences
    half = speaker.ask(by(tuned, share=0.5)).sentences
    assert half not in (base.sentences, speaker.ask(tuned).sentences)


def test_words_are_measured_by_another_base_where_one_is_named(request_of_base, tmp_path):
    """A smaller model is not a good judge of its words."""
    how = ComputeConfig(precision="fp32")
    by_itself, same, other = (
        TunedModel(ending_base(tmp_path / name, seed=seed), how)
        for name, seed in (("own", 0), ("same", 0), ("other", 9))
    )
    usual = tasks.evaluate(by_itself, request_of_base).sentences
    measured = partial(tasks.evaluate, by_itself, request_of_base)
    assert measured(words_by=(same, request_of_base.voice)).sentences == usual
    sentences = measured(words_by=(other, request_of_base.voice)).sentences
    assert [replace(sentence, words=[]) for sentence in sentences] == [
        replace(facts, words=[]) for facts in usual
    ]
    ended = [
        (facts.words, before.words) for facts, before in zip(sentences, usual, strict=True) if before.words
    ]
    assert ended and all(facts != before for facts, before in ended)


def test_another_decoder_changes_the_sound_and_no_code(speaker, request_of_base, tmp_path):
    sentences = speaker.ask(request_of_base).sentences
    decoder = tmp_path / "best_decoder.safetensors"
    published = loading.read_tensors(speaker.base / "model.pth")
    tensors = to_published(speaker.model.vocoder, published)
    learned_decoder.write_tensors(decoder, {name: 1.2 * facts for name, facts in tensors.items()})
    other = speaker.ask(by(request_of_base, decoder=decoder)).sentences
    assert [sentence.codes for sentence in sentences] == [facts.codes for facts in other]
    assert sentences[0].embedding and sentences[0].embedding != other[0].embedding


def test_the_base_reads_as_the_run_that_it_is_compared_with(speaker, request_of_base, tmp_path, base_folder):
    """A run from before our normaliser keeps Coqui's, so its base must use it, too."""
    old = checkpoint(tmp_path / "old", base_folder, shift=0.02)  # naming no normaliser
    asked = replace(request_of_base, sentences=(task("It is 1/2 past 3 on the 4th.", 1),))
    sentence = speaker.ask(asked).sentences[0]
    base = speaker.ask(by(asked, weights=old, share=0.0)).sentences[0]
    tuned = speaker.ask(by(asked, weights=old)).sentences[0]
    assert base.text_tokens == tuned.text_tokens != sentence.text_tokens
    assert base.words or not base.finished


def test_a_sentence_without_an_end_is_ended_and_told(speaker, request_of_base):
    sentences = speaker.ask(request_of_base).sentences
    for sentence in sentences:
        assert sentence.codes <= 2.5 * (1 + 0.5 * sentence.text_tokens) + 21
        assert sentence.seconds == pytest.approx(sentence.codes * 1024 / 22_050, abs=1e-3)
        assert sentence.finished or not sentence.words
    assert [bool(sentence.embedding) for sentence in sentences] == [True, True] + [False] * 7
    out = request_of_base.sentences[0].out
    assert soundfile.info(out).samplerate == 24_000 and "AI-generated" in comment(out)
    assert not Path(str(request_of_base.sentences[2].out)).exists()


def test_a_recogniser_listens_to_what_has_a_sound_and_ended(monkeypatch, tmp_path):
    """With the embedded voice: random weights may never end."""
    lengths, names = list[int](), list[tuple[str, str]]()

    class Deaf:
        at_once = 1

        def hear(self, samples: np.ndarray) -> str:
            lengths.append(len(samples))
            return "one two"

    def opened(name: str, language: str, threads: int) -> Deaf:
        names.append((name, language))
        return Deaf()

    monkeypatch.setattr("xtts.evaluation.recogniser.open_recogniser", opened)
    speaker = FileSpeaker(DEMO, ComputeConfig(precision="fp32"))
    texts = {"hello": True, "one two three": True, "good night": False}
    asked = EvaluateRequest(
        tuple(replace(task(text, 1), sounded=sounded) for text, sounded in texts.items()),
        TunedVoice(DEMO / "reference.wav"),
        SpeakingRate(2.0, 3.0),
        "a folder",
    )
    sentences = speaker.ask(asked).sentences
    speaker.ask(asked)
    assert names == [("a folder", "en")]
    assert [sentence.finished for sentence in sentences] == [True, True, True]
    assert [sentence.heard for sentence in sentences] == ["one two", "one two", None]
    assert [sentence.word_errors for sentence in sentences] == [2.0, round(1 / 3, 5), None]
    # The sound also has the code of STOP.
    assert lengths[:2] == pytest.approx([16_000 * sentence.seconds for sentence in sentences[:2]], abs=800)
    reference = DEMO / "reference.wav"
    heard = ListenRequest(
        (reference,) * 3, texts=("one two", "one four"), language="en", recogniser="a folder"
    )
    recordings = speaker.ask(heard).recordings
    assert [recording.word_errors for recording in recordings] == [0.0, 0.5, None]
    assert names == [("a folder", "en")]


def test_a_sentence_is_the_same_in_a_group_and_alone(speaker, request_of_base):
    everything = speaker.ask(request_of_base).sentences
    assert len(everything) == 9 > SLOTS
    last = replace(request_of_base, sentences=request_of_base.sentences[-1:])
    assert speaker.ask(last).sentences == everything[-1:]


def test_recordings_and_the_bases_own_voices_are_heard(base_folder, request_of_base, tmp_path):
    base = tmp_path / "base"
    base.mkdir()
    for path in base_folder.iterdir():
        (base / path.name).symlink_to(path)
    voices = {name: {"speaker_embedding": torch.ones(1, 512, 1)} for name in ("Ana", "Ben")}
    torch.save(voices, base / "speakers_xtts.pth")
    heard = FileSpeaker(base, ComputeConfig()).ask(ListenRequest((request_of_base.voice.reference,)))
    (person,) = heard.recordings
    assert person.seconds == pytest.approx(1.5, abs=0.01) and len(person.embedding) == 512
    assert person.pitch_hz is not None and 60 < person.pitch_hz < 500
    assert len(heard.base_voices) == 2 and set(heard.base_voices[0]) == {1.0}


# A recogniser that runs during speech

SAID = SpokenFacts(codes=20, text_tokens=8, finished=True, seconds=1.0)
SOUND = torch.zeros(24_000)


class Slow:
    """Recognises "one two" in every sentence, once it may."""

    at_once = 2

    def __init__(self) -> None:
        self.together = threading.Barrier(2)
        self.may = threading.Event()

    def hear(self, samples: np.ndarray) -> str:
        assert len(samples) == 16_000
        self.together.wait(20)
        assert self.may.wait(20)
        return "one two"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(ModelConfig.read(DEMO), DEMO)


def test_speaking_goes_on_while_two_sentences_are_heard(tokenizer):
    slow, tasks = Slow(), [task(text) for text in ("One two.", "Three.", "One.", "Two.")]
    endless = SpokenFacts(codes=90, text_tokens=8, finished=False, seconds=9.0)
    facts = [SAID, SAID, SAID, endless]
    with BackgroundHearing(slow, tokenizer) as hearing:
        for number, sound in enumerate((SOUND, None, SOUND, SOUND)):
            hearing.begin(number, sound, facts[number])
        slow.may.set()
        told = hearing.add_transcripts(tasks, facts)
    assert [spoken.heard for spoken in told] == ["one two", None, "one two", None]
    assert [spoken.word_errors for spoken in told] == [0.0, None, 1.0, None]


def test_what_a_recogniser_raises_is_raised(tokenizer):
    class Broken:
        at_once = 1

        def hear(self, samples: np.ndarray) -> str:
            raise MemoryError(len(samples))

    with pytest.raises(MemoryError), BackgroundHearing(Broken(), tokenizer) as hearing:
        hearing.begin(0, SOUND, SAID)
        hearing.add_transcripts([task("One.")], [SAID])


# Naturalness


class Listening:
    """Rates every sound by its length."""

    def mos(self, samples: torch.Tensor) -> float:
        return 1.0 + len(samples) / 16_000


def test_naturalness_is_judged_where_it_is_asked_for_and_there_is_a_sound(monkeypatch):
    """With the embedded voice: random weights may never end."""
    opened = list[str]()
    monkeypatch.setattr(
        "xtts.evaluation.naturalness.NaturalnessJudge", lambda device: opened.append(device) or Listening()
    )
    speaker = FileSpeaker(DEMO, ComputeConfig(precision="fp32"))
    sentences = tuple(
        replace(task("one two three", 1), sounded=sounded, natural=natural)
        for sounded, natural in ((True, True), (True, False), (False, True))
    )
    reference = DEMO / "reference.wav"
    asked = EvaluateRequest(sentences, TunedVoice(reference), SpeakingRate(2.0, 3.0))
    off = tuple(replace(sentence, natural=False) for sentence in sentences)
    without = speaker.ask(replace(asked, sentences=off)).sentences
    assert opened == []
    judged = speaker.ask(asked).sentences
    assert judged[0].naturalness == pytest.approx(1 + judged[0].seconds, abs=0.1)
    assert [facts.naturalness for facts in judged[1:]] == [None, None]
    assert [replace(facts, naturalness=None) for facts in judged] == without
    heard = speaker.ask(ListenRequest((reference, reference), natural=1)).recordings
    assert heard[0].naturalness == pytest.approx(1 + heard[0].seconds, abs=0.1)
    assert heard[1].naturalness is None
    assert opened == ["cpu"]


def test_a_sentence_that_is_not_measured_is_only_spoken(tmp_path):
    """With the embedded voice: random weights may never end."""
    speaker = FileSpeaker(DEMO, ComputeConfig(precision="fp32"))
    measured = replace(task("one two three", 1), out=tmp_path / "measured.wav")
    other = replace(measured, measured=False, out=tmp_path / "other.wav")
    request = EvaluateRequest((measured, other), TunedVoice(DEMO / "reference.wav"), SpeakingRate(2.0, 3.0))
    whole, spoken = speaker.ask(request).sentences
    assert (spoken.codes, spoken.finished) == (whole.codes, whole.finished)
    assert (len(whole.words), spoken.words) == (3, [])
    assert (spoken.embedding, spoken.pitch_hz) == ([], None)
    assert (tmp_path / "other.wav").read_bytes() == (tmp_path / "measured.wav").read_bytes()
