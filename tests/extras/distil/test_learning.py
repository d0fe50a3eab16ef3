"""A student approaches its teacher, in the same way whether or not it is interrupted."""

import contextlib
import math
from pathlib import Path

import pytest
import torch

from demo_voice.new_gpt import new_gpt
from extras.distil import learning
from extras.distil.learning import TaughtLessons, agreement, learn, with_targets
from extras.distil.lessons import Lesson
from extras.distil.student import new_student
from tests.extras.distil.test_student import SHAPE
from train.optim.optimizer import NonFiniteError
from xtts.inference.torch_backend import TorchUtterance, decode
from xtts.model.config import SamplingParams
from xtts.model.gpt import GPT

VOICES = torch.randn(2, 32, SHAPE.width, generator=torch.Generator().manual_seed(4))


def lessons(count: int = 12) -> list[Lesson]:
    draw = torch.Generator().manual_seed(2)
    return [
        Lesson(
            torch.randint(1, 30, (3 + number % 4,), generator=draw),
            torch.randint(0, 16, (5 + number % 7,), generator=draw),
            narrator=number % 2,
            by_teacher=number % 3 > 0,
            is_held_out=number % 4 == 0,
        )
        for number in range(count)
    ]


@pytest.fixture
def teacher() -> GPT:
    """Weights large enough to give distinct likelihoods."""
    gpt = new_gpt(SHAPE, seed=3).requires_grad_(False)
    for parameter in gpt.parameters():
        parameter.mul_(2.0)
    return gpt


@pytest.fixture
def taught(teacher: GPT) -> TaughtLessons:
    return with_targets(teacher, lessons(), VOICES)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "BATCH_POSITIONS", 200)
    monkeypatch.setattr(learning, "WARMUP_STEPS", 2)


def taught_student(teacher: GPT, taught: TaughtLessons, path: Path, epochs: int, key: str = "k") -> GPT:
    student = new_student(teacher, (0, 2))
    learn(student, taught, epochs=epochs, seed=0, path=path, key=key, autocast=contextlib.nullcontext())
    return student


def test_the_teachers_latents_are_those_that_it_speaks_with(teacher):
    """So the student learns the vocoder's input: the latent at the position of each code."""
    said = TorchUtterance(teacher, SamplingParams(), torch.Generator().manual_seed(0), 9)
    ids = torch.tensor([3, 4, 5, 6])
    with torch.inference_mode():
        decode(teacher, VOICES[1:], [(ids, said)])
    codes = torch.tensor(list(said.codes))
    assert len(codes) > 3
    heard = with_targets(teacher, [Lesson(ids, codes, 1, True, False)], VOICES)
    spoken = torch.stack(list(said.latents))[: len(codes)]
    torch.testing.assert_close(heard.latents[0][: len(spoken)], spoken, atol=1e-4, rtol=1e-4)
    assert len(heard.latents[0]) == len(codes) + 1


def test_who_is_the_teacher_agrees_with_it(teacher, taught):
    same = agreement(teacher, taught)
    assert same is not None
    assert same.divergence == pytest.approx(0, abs=1e-5)
    assert same.same_code == 1 and same.latent_error == pytest.approx(0, abs=1e-8)


def test_without_a_held_out_lesson_nothing_is_said(teacher):
    learned = [lesson for lesson in lessons() if not lesson.is_held_out]
    assert agreement(teacher, with_targets(teacher, learned, VOICES)) is None


def test_a_student_comes_nearer_on_what_it_learned(teacher, taught, tmp_path):
    """Judged on the lessons learned: random codes of a few lessons say nothing about others."""
    every = [
        Lesson(lesson.ids, lesson.codes, lesson.narrator, lesson.by_teacher, True)
        for lesson in taught.lessons
    ]
    judged = TaughtLessons(every, taught.latents, taught.voices, taught.head, taught.variance)
    before = agreement(new_student(teacher, (0, 2)), judged)
    after = agreement(taught_student(teacher, taught, tmp_path / "a.pt", 25), judged)
    assert before is not None and after is not None
    assert after.divergence < 0.7 * before.divergence
    assert after.latent_error < 0.7 * before.latent_error


def test_conditioning_and_text_head_stay_the_teachers(teacher, taught, tmp_path):
    begun = new_student(teacher, (0, 2)).state_dict()
    ended = taught_student(teacher, taught, tmp_path / "a.pt", 1).state_dict()
    changed = {name.split(".")[0] for name in begun if not torch.equal(begun[name], ended[name])}
    learned = "text_embedding mel_embedding text_pos_embedding mel_pos_embedding gpt final_norm mel_head"
    assert changed == set(learned.split())


class Killed(Exception):
    """Raised in place of a signal."""


def test_an_interrupted_one_ends_with_the_same_bits(teacher, taught, tmp_path, monkeypatch):
    straight = taught_student(teacher, taught, tmp_path / "straight.pt", 4).state_dict()
    saved, save = list[int](), learning._save

    def killed(*arguments: object) -> None:
        save(*arguments)  # type: ignore[arg-type]
        saved.append(1)
        if len(saved) == 2:
            raise Killed

    monkeypatch.setattr(learning, "_save", killed)
    with pytest.raises(Killed):
        taught_student(teacher, taught, tmp_path / "cut.pt", 4)
    again = taught_student(teacher, taught, tmp_path / "cut.pt", 4).state_dict()
    assert len(saved) == 4
    assert all(torch.equal(straight[name], again[name]) for name in straight)


def test_with_fewer_epochs_than_it_has_learned_it_is_not_taught_further(teacher, taught, tmp_path, caplog):
    caplog.set_level("INFO")
    path = tmp_path / "student.pt"
    first = taught_student(teacher, taught, path, 2).state_dict()
    fewer = taught_student(teacher, taught, path, 1).state_dict()
    assert all(torch.equal(first[name], fewer[name]) for name in first)
    assert "trained for 2 of 1 epochs and is finished" in caplog.text


def test_gradients_that_are_not_finite_change_nothing(teacher, taught, monkeypatch):
    student = new_student(teacher, (0, 2))
    before = {name: tensor.clone() for name, tensor in student.state_dict().items()}
    student.mel_head.weight.register_hook(lambda gradient: gradient * float("inf"))
    optimizer = learning.optimizer_of(student, 1e-3)
    found = learning.take_step(student, optimizer, taught, [1, 2], contextlib.nullcontext())
    assert not math.isfinite(found)
    assert all(torch.equal(before[name], tensor) for name, tensor in student.state_dict().items())


def test_of_other_lessons_it_begins_anew_and_a_damaged_file_is_said(teacher, taught, tmp_path, caplog):
    path = tmp_path / "student.pt"
    first = taught_student(teacher, taught, path, 1).state_dict()
    other = taught_student(teacher, taught, path, 1, key="other").state_dict()
    assert all(torch.equal(first[name], other[name]) for name in first)
    assert torch.load(path, weights_only=True)["key"] == "other"
    path.write_bytes(b"nothing")
    taught_student(teacher, taught, path, 1)
    assert "student.pt cannot be read" in caplog.text


def test_a_loss_that_is_not_finite_is_an_error(teacher, taught, tmp_path):
    for latents in taught.latents:
        latents.fill_(float("nan"))
    with pytest.raises(NonFiniteError, match="step 1"):
        taught_student(teacher, taught, tmp_path / "a.pt", 1)
    assert not (tmp_path / "a.pt").exists()


def test_only_what_the_teacher_said_is_learned_by_its_codes(teacher):
    """The teacher of a blend says a clip with other codes than the person's."""
    spoken, clip = (
        [Lesson(lesson.ids, lesson.codes, lesson.narrator, kind, False) for lesson in lessons(3)]
        for kind in (True, False)
    )
    both = [with_targets(teacher, some, VOICES) for some in (spoken, clip)]
    losses = [float(learning._loss(teacher, teaching, [0, 1, 2])) for teaching in both]
    surprise = learning._code_terms(teacher, both[0], [0, 1, 2]).cross_entropy
    assert losses[1] == pytest.approx(0, abs=1e-5)
    assert losses[0] == pytest.approx(learning.CROSS_ENTROPY_WEIGHT * float(surprise.mean()), rel=1e-4)
