"""What the worker measures: the same for the same weights, and limited."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from tests.datasets import a_sound
from tests.models import ending_base
from train.checkpointing.checkpoints import Checkpoints
from xtts.inference.compute_config import ComputeConfig
from xtts.inference.synthesis_request import SynthesisRequest
from xtts.model import loading, vocoder
from xtts.model.config import ModelConfig
from xtts.model.gpt import PREFIX
from xtts.model.loading import read_tensors
from xtts.text.tokenizer import Tokenizer
from xtts.voices import learned_decoder
from xtts.voices.base_models import DEMO
from xtts.voices.run_folder import RunFolder
from xtts.workers import file_evaluation
from xtts.workers.file_evaluation import BackgroundHearing, Listener
from xtts.workers.file_synthesis import FileSpeaker
from xtts.workers.requests import (
    SLOTS,
    EvaluateRequest,
    ListenRequest,
    SentenceTask,
    SpeakingRate,
    SpokenFacts,
)
from xtts.workers.tuned_model import TunedModel

TEXTS = ("hello", "one two three", "a day in may", "good night", "so it is", "no", "yes", "we go",
         "the end")  # fmt: skip


@pytest.fixture(scope="module")
def speaker(base_folder: Path) -> FileSpeaker:
    return FileSpeaker(base_folder, ComputeConfig(precision="fp32"))


@pytest.fixture(scope="module")
def request_of_base(tmp_path_factory: pytest.TempPathFactory) -> EvaluateRequest:
    folder = tmp_path_factory.mktemp("evaluation")
    soundfile.write(folder / "person.wav", a_sound(1.5, 22_050), 22_050)
    tasks = tuple(
        SentenceTask(
            SynthesisRequest(text, "en", number), sounded=number < 2, out=folder / f"{number}.wav"
        )
        for number, text in enumerate(TEXTS)
    )
    return EvaluateRequest(tasks, folder / "person.wav", None, 1.0, SpeakingRate(0.5, 1.0))


def task(text: str, seed: int = 0) -> SentenceTask:
    return SentenceTask(SynthesisRequest(text, "en", seed))


def checkpoint(folder: Path, base: Path, shift: float = 0.0) -> Path:
    state = {
        name: tensor + shift
        for name, tensor in read_tensors(base / "model.pth").items()
        if name.startswith(PREFIX)
    }
    run = RunFolder(folder)
    Checkpoints(run, None).save_epoch(1, 1, state, None, {})
    return run.checkpoint_path(1)


def test_relabelled_base_weights_are_the_base_to_the_bit(
    speaker, request_of_base, tmp_path, base_folder
):
    base = speaker.ask(request_of_base)
    same = checkpoint(tmp_path / "same", base_folder)
    assert speaker.ask(replace(request_of_base, weights=same)).sentences == base.sentences
    other = checkpoint(tmp_path / "other", base_folder, shift=0.02)
    tuned = replace(request_of_base, weights=other)
    assert speaker.ask(tuned).sentences != base.sentences
    assert speaker.ask(replace(tuned, share=0.0)).sentences == base.sentences
    half = speaker.ask(replace(tuned, share=0.5)).sentences
    assert half not in (base.sentences, speaker.ask(tuned).sentences)


def test_words_are_measured_by_another_base_where_one_is_named(request_of_base, tmp_path):
    """A smaller model is no judge of its own words."""
    how = ComputeConfig(precision="fp32")
    own, same, other = (
        TunedModel(ending_base(tmp_path / name, seed=seed), how)
        for name, seed in (("own", 0), ("same", 0), ("other", 9))
    )
    usual = file_evaluation.evaluate(own, request_of_base).sentences
    measured = partial(file_evaluation.evaluate, own, request_of_base)
    assert measured(words_by=Listener(same, None, None)).sentences == usual
    found = measured(words_by=Listener(other, None, None)).sentences
    assert [replace(one, words=[]) for one in found] == [replace(one, words=[]) for one in usual]
    ended = [(one.words, two.words) for one, two in zip(found, usual, strict=True) if two.words]
    assert ended and all(one != two for one, two in ended)


def test_another_decoder_changes_the_sound_and_no_code(speaker, request_of_base, tmp_path):
    own = speaker.ask(request_of_base).sentences
    decoder = tmp_path / "best_decoder.safetensors"
    published = loading.read_tensors(speaker.base / "model.pth")
    tensors = vocoder.published_names(speaker.model.vocoder, published)
    learned_decoder.write_tensors(decoder, {name: 1.2 * one for name, one in tensors.items()})
    other = speaker.ask(replace(request_of_base, decoder=decoder)).sentences
    assert [one.codes for one in own] == [one.codes for one in other]
    assert own[0].embedding and own[0].embedding != other[0].embedding


def test_the_base_reads_as_the_run_that_it_is_compared_with(
    speaker, request_of_base, tmp_path, base_folder
):
    """A run from before there was a normaliser of ours keeps Coqui's; its base has to as well."""
    old = checkpoint(tmp_path / "old", base_folder, shift=0.02)  # its provenance names none
    asked = replace(request_of_base, sentences=(task("It is 1/2 past 3 on the 4th.", 1),))
    own = speaker.ask(asked).sentences[0]
    base = speaker.ask(replace(asked, weights=old, share=0.0)).sentences[0]
    tuned = speaker.ask(replace(asked, weights=old)).sentences[0]
    assert base.text_tokens == tuned.text_tokens != own.text_tokens
    assert base.words or not base.finished


def test_a_sentence_without_an_end_is_ended_and_told(speaker, request_of_base):
    found = speaker.ask(request_of_base).sentences
    for one in found:
        assert one.codes <= 2.5 * (1 + 0.5 * one.text_tokens) + 21
        assert one.seconds == pytest.approx(one.codes * 1024 / 22_050, abs=1e-3)
        assert one.finished or not one.words
    assert [bool(one.embedding) for one in found] == [True, True] + [False] * 7
    assert soundfile.info(request_of_base.sentences[0].out).samplerate == 24_000
    assert not Path(str(request_of_base.sentences[2].out)).exists()


def test_a_recogniser_listens_to_what_has_a_sound_and_ended(monkeypatch, tmp_path):
    """By the embedded voice: random weights may never end."""
    lengths, names = list[int](), list[tuple[str, str]]()

    class Deaf:
        def hear(self, waveforms: Sequence[np.ndarray]) -> list[str]:
            lengths.extend(map(len, waveforms))
            return ["one two"] * len(waveforms)

    def opened(name: str, language: str, threads: int) -> Deaf:
        names.append((name, language))
        return Deaf()

    monkeypatch.setattr("xtts.evaluation.recogniser.opened", opened)
    speaker = FileSpeaker(DEMO, ComputeConfig(precision="fp32"))
    texts = {"hello": True, "one two three": True, "good night": False}
    asked = EvaluateRequest(
        tuple(replace(task(text, 1), sounded=sounded) for text, sounded in texts.items()),
        DEMO / "reference.wav", None, 1.0, SpeakingRate(2.0, 3.0), recogniser="a folder",
    )  # fmt: skip
    found = speaker.ask(asked).sentences
    speaker.ask(asked)
    assert names == [("a folder", "en")]
    assert [one.finished for one in found] == [True, True, True]
    assert [one.heard for one in found] == ["one two", "one two", None]
    assert [one.word_errors for one in found] == [2.0, round(1 / 3, 5), None]
    assert lengths[:2] == pytest.approx([16_000 * one.seconds for one in found[:2]], rel=0.03)


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
    found = FileSpeaker(base, ComputeConfig()).ask(ListenRequest((request_of_base.reference,)))
    (person,) = found.recordings
    assert person.seconds == pytest.approx(1.5, abs=0.01) and len(person.embedding) == 512
    assert person.pitch_hz is not None and 60 < person.pitch_hz < 500
    assert len(found.base_voices) == 2 and set(found.base_voices[0]) == {1.0}


# A recogniser behind whoever speaks

SAID = SpokenFacts(codes=20, text_tokens=8, finished=True, seconds=1.0)
SOUND = torch.zeros(24_000)


class Slow:
    """Hears "one two" in every sentence, once it may."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.groups: list[int] = []

    def hear(self, waveforms: Sequence[np.ndarray]) -> list[str]:
        assert self.may.wait(20)
        assert all(len(wave) == 16_000 for wave in waveforms)
        self.groups.append(len(waveforms))
        return ["one two"] * len(waveforms)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(ModelConfig.read(DEMO), DEMO)


def test_speaking_goes_on_while_a_group_is_heard(tokenizer):
    slow = Slow()
    with BackgroundHearing(slow, tokenizer) as hearing:
        hearing.begin([task("One two."), task("Three.")], [SOUND, None], [SAID, SAID])
        endless = SpokenFacts(codes=90, text_tokens=8, finished=False, seconds=9.0)
        hearing.begin([task("One."), task("Two.")], [SOUND, SOUND], [SAID, endless])
        assert slow.groups == []
        slow.may.set()
        told = hearing.with_heard([SAID, SAID, SAID, endless])
    assert [one.heard for one in told] == ["one two", None, "one two", None]
    assert [one.word_errors for one in told] == [0.0, None, 1.0, None]
    assert slow.groups == [1, 1]


def test_what_a_recogniser_raises_is_raised(tokenizer):
    class Broken:
        def hear(self, waveforms: Sequence[np.ndarray]) -> list[str]:
            raise MemoryError(len(waveforms))

    with pytest.raises(MemoryError), BackgroundHearing(Broken(), tokenizer) as hearing:
        hearing.begin([task("One.")], [SOUND], [SAID])
        hearing.with_heard([SAID])


# Naturalness


class Listening:
    """Finds every sound as natural as it is long."""

    def mos(self, samples: torch.Tensor) -> float:
        return 1.0 + len(samples) / 16_000


def test_naturalness_is_judged_where_it_is_asked_for_and_there_is_a_sound(monkeypatch):
    """By the embedded voice: random weights may never end."""
    opened = list[str]()
    monkeypatch.setattr(
        "xtts.evaluation.naturalness.NaturalnessJudge",
        lambda device: opened.append(device) or Listening(),
    )
    speaker = FileSpeaker(DEMO, ComputeConfig(precision="fp32"))
    tasks = tuple(
        replace(task("one two three", 1), sounded=sounded, natural=natural)
        for sounded, natural in ((True, True), (True, False), (False, True))
    )
    reference = DEMO / "reference.wav"
    asked = EvaluateRequest(tasks, reference, None, 1.0, SpeakingRate(2.0, 3.0))
    off = tuple(replace(one, natural=False) for one in tasks)
    without = speaker.ask(replace(asked, sentences=off)).sentences
    assert opened == []
    found = speaker.ask(asked).sentences
    assert found[0].naturalness == pytest.approx(1 + found[0].seconds, abs=0.1)
    assert [one.naturalness for one in found[1:]] == [None, None]
    assert [replace(one, naturalness=None) for one in found] == without
    heard = speaker.ask(ListenRequest((reference, reference), natural=1)).recordings
    assert heard[0].naturalness == pytest.approx(1 + heard[0].seconds, abs=0.1)
    assert heard[1].naturalness is None
    assert opened == ["cpu"]
