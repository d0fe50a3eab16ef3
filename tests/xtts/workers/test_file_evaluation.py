"""What the worker measures: the same for the same weights, limited, and kept to its budget."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from tests.datasets import a_sound
from train.checkpointing.checkpoints import Checkpoints
from xtts.model.gpt import PREFIX
from xtts.model.loading import read_tensors
from xtts.voices.base_models import DEMO
from xtts.voices.run_folder import RunFolder
from xtts.workers.file_evaluation import (
    EvaluateRequest,
    ListenRequest,
    SentenceTask,
    SpeakingRate,
    TrialRequest,
)
from xtts.workers.file_synthesis import FileSpeaker

TEXTS = ("hello", "one two three", "a day in may", "good night", "so it is", "no", "yes", "we go",
         "the end")  # fmt: skip


@pytest.fixture(scope="module")
def speaker(base_folder: Path) -> FileSpeaker:
    return FileSpeaker(base_folder, "cpu", precision="fp32")


@pytest.fixture(scope="module")
def request_of_base(tmp_path_factory: pytest.TempPathFactory) -> EvaluateRequest:
    folder = tmp_path_factory.mktemp("evaluation")
    soundfile.write(folder / "person.wav", a_sound(1.5, 22_050), 22_050)
    tasks = tuple(
        SentenceTask(text, "en", number, sounded=number < 2, out=folder / f"{number}.wav")
        for number, text in enumerate(TEXTS)
    )
    return EvaluateRequest(tasks, folder / "person.wav", None, 1.0, SpeakingRate(0.5, 1.0))


def checkpoint(folder: Path, base: Path, shift: float = 0.0) -> Path:
    state = {
        name: tensor + shift
        for name, tensor in read_tensors(base / "model.pth").items()
        if name.startswith(PREFIX)
    }
    run = RunFolder(folder)
    Checkpoints(run, None).save_epoch(1, 1, state, None, {}, {"base": {}, "fingerprint": {}})
    return run.checkpoint_path(1)


def test_relabelled_base_weights_are_the_base_to_the_bit(
    speaker: FileSpeaker, request_of_base: EvaluateRequest, tmp_path: Path, base_folder: Path
) -> None:
    base = speaker.evaluate(request_of_base)
    same = checkpoint(tmp_path / "same", base_folder)
    assert speaker.evaluate(replace(request_of_base, weights=same)).sentences == base.sentences
    other = checkpoint(tmp_path / "other", base_folder, shift=0.02)
    tuned = replace(request_of_base, weights=other)
    assert speaker.evaluate(tuned).sentences != base.sentences
    assert speaker.evaluate(replace(tuned, share=0.0)).sentences == base.sentences
    half = speaker.evaluate(replace(tuned, share=0.5)).sentences
    assert half not in (base.sentences, speaker.evaluate(tuned).sentences)


def test_another_speaker_embedding_changes_the_sound_and_no_code(
    speaker: FileSpeaker, request_of_base: EvaluateRequest
) -> None:
    own = speaker.evaluate(request_of_base).sentences
    numbers = tuple(0.1 * (-1) ** place for place in range(512))
    other = speaker.evaluate(replace(request_of_base, speaker=numbers)).sentences
    assert [one.codes for one in own] == [one.codes for one in other]
    assert own[0].embedding and own[0].embedding != other[0].embedding


def test_the_base_reads_as_the_run_that_it_is_compared_with(
    speaker: FileSpeaker, request_of_base: EvaluateRequest, tmp_path: Path, base_folder: Path
) -> None:
    """A run from before there was a normaliser of ours keeps Coqui's; its base has to as well."""
    old = checkpoint(tmp_path / "old", base_folder, shift=0.02)  # its provenance names none
    asked = replace(
        request_of_base, sentences=(SentenceTask("It is 1/2 past 3 on the 4th.", "en", 1),)
    )
    own = speaker.evaluate(asked).sentences[0]
    base = speaker.evaluate(replace(asked, weights=old, share=0.0)).sentences[0]
    tuned = speaker.evaluate(replace(asked, weights=old)).sentences[0]
    assert base.text_tokens == tuned.text_tokens != own.text_tokens
    assert base.words or not base.finished


def test_a_sentence_without_an_end_is_ended_and_told(
    speaker: FileSpeaker, request_of_base: EvaluateRequest
) -> None:
    found = speaker.evaluate(request_of_base).sentences
    for one in found:
        assert one.codes <= 2.5 * (1 + 0.5 * one.text_tokens) + 21
        assert one.seconds == pytest.approx(one.codes * 1024 / 22_050, abs=1e-3)
        assert one.finished or not one.words
    assert [bool(one.embedding) for one in found] == [True, True] + [False] * 7
    assert soundfile.info(request_of_base.sentences[0].out).samplerate == 24_000
    assert not Path(str(request_of_base.sentences[2].out)).exists()


def test_a_recogniser_listens_to_what_has_a_sound_and_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
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
    speaker = FileSpeaker(DEMO, "cpu", precision="fp32")
    texts = {"hello": True, "one two three": True, "good night": False}
    asked = EvaluateRequest(
        tuple(SentenceTask(text, "en", 1, sounded=sounded) for text, sounded in texts.items()),
        DEMO / "reference.wav", None, 1.0, SpeakingRate(2.0, 3.0), recogniser="a folder",
    )  # fmt: skip
    found = speaker.evaluate(asked).sentences
    speaker.evaluate(asked)
    assert names == [("a folder", "en")]
    assert [one.finished for one in found] == [True, True, True]
    assert [one.heard for one in found] == ["one two", "one two", None]
    assert [one.word_errors for one in found] == [2.0, round(1 / 3, 5), None]
    assert lengths[:2] == pytest.approx([16_000 * one.seconds for one in found[:2]], rel=0.03)


def test_a_budget_ends_between_groups_and_changes_no_sentence(
    speaker: FileSpeaker, request_of_base: EvaluateRequest
) -> None:
    everything = speaker.evaluate(request_of_base).sentences
    short = speaker.evaluate(replace(request_of_base, budget_seconds=0.001)).sentences
    assert short == everything[:8]


def test_a_trial_says_what_each_part_costs_and_changes_nothing(
    speaker: FileSpeaker, request_of_base: EvaluateRequest
) -> None:
    before, spoken = torch.get_rng_state(), speaker.evaluate(request_of_base).sentences
    found = speaker.trial(TrialRequest("one two three", "en", request_of_base.reference))
    for part, seconds in asdict(found).items():
        assert 0 < seconds < 10, part
    assert torch.equal(before, torch.get_rng_state())
    assert speaker.evaluate(request_of_base).sentences == spoken


def test_speaking_draws_from_no_global_random_state(
    speaker: FileSpeaker, request_of_base: EvaluateRequest
) -> None:
    before = torch.get_rng_state()
    speaker.evaluate(request_of_base)
    assert torch.equal(before, torch.get_rng_state())


def test_recordings_and_the_bases_own_voices_are_heard(
    base_folder: Path, request_of_base: EvaluateRequest, tmp_path: Path
) -> None:
    base = tmp_path / "base"
    base.mkdir()
    for path in base_folder.iterdir():
        (base / path.name).symlink_to(path)
    voices = {name: {"speaker_embedding": torch.ones(1, 512, 1)} for name in ("Ana", "Ben")}
    torch.save(voices, base / "speakers_xtts.pth")
    found = FileSpeaker(base, "cpu").listen(ListenRequest((request_of_base.reference,)))
    (person,) = found.recordings
    assert person.seconds == pytest.approx(1.5, abs=0.01) and len(person.embedding) == 512
    assert person.pitch_hz is not None and 60 < person.pitch_hz < 500
    assert len(found.base_voices) == 2 and set(found.base_voices[0]) == {1.0}
