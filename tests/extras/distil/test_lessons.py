"""The teacher's lessons: each spoken once, despite kills; none truncated, none a built-in
sentence."""

import itertools
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from extras.distil import lessons
from extras.distil.lessons import (
    Lesson,
    LessonSource,
    Narrator,
    Teacher,
    draw_lessons,
    endless_texts,
    speak_lessons,
)
from tests.datasets import make_dataset
from tests.models import ending_base
from tests.xtts.workers.test_tasks import checkpoint
from train.run_context import build_context
from train.settings import TrainSettings
from xtts.inference.compute_config import ComputeConfig
from xtts.voices.run_folder import RunError
from xtts.workers.tuned_model import TunedModel


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """A teacher that ends its sentences after a second or two, and clips of its narrator."""
    folder = tmp_path_factory.mktemp("lessons")
    base = ending_base(folder / "base")
    settings = TrainSettings(
        dataset_dir=make_dataset(folder / "data", clips=12),
        base_model=str(base),
        device="cpu",
        cache_dir=folder / "cache",
        output_dir=folder / "run",
    )
    data = build_context(settings).data
    tuned = TunedModel(base, ComputeConfig(precision="fp32"))
    teacher = Teacher(tuned, checkpoint(folder / "run", base), is_base=True, sha256="a")
    narrators = [
        Narrator("", data.clips[1].path, data.train, data.train),
        Narrator("ben", data.clips[0].path, data.train[:3], data.train[:3]),
    ]
    return LessonSource(teacher, narrators, data.clips, [], (), seed=0)


def said(scene, folder: Path, minutes: float = 0.6, **changes):
    return speak_lessons(replace(scene, **changes), minutes, folder)


def kept(folder: Path) -> Path:
    (path,) = folder.glob("speech-*.jsonl")
    return path


def test_each_text_is_said_once_before_halves_of_two_are():
    sentences = ["one two three four", "five six", "seven"]
    some = list(itertools.islice(endless_texts(sentences, "en", random.Random(0)), 80))
    assert sorted(some[:3]) == sorted(sentences)
    # A single word has no halves.
    halves = {"one two ", "five ", "seven "}, {"three four", "six", "seven"}
    assert set(some[3:]) == {first + second for first, second in itertools.product(*halves)}
    mixed = ["你好世界", "早上好", "我用 iPhone"]
    chinese = list(itertools.islice(endless_texts(mixed, "zh-cn", random.Random(0)), 60))
    assert {"你好好", "早上iPhone"} <= set(chinese[3:])


def test_as_much_is_said_as_is_asked_for_by_every_narrator(scene, tmp_path):
    found = said(scene, tmp_path)
    codes = sum(len(lesson.codes) for lesson in found)
    assert 0.3 * 0.6 < codes / lessons.CODES_PER_MINUTE < 1.5 * 0.6
    assert {lesson.narrator for lesson in found} == {0, 1}
    assert all(lesson.by_teacher for lesson in found)
    assert {lesson.narrator for lesson in found if lesson.is_held_out} == {0, 1}
    assert sum(lesson.is_held_out for lesson in found) < len(found) / 2
    rates = sorted(len(lesson.codes) / len(lesson.ids) for lesson in found)
    assert rates[-1] / rates[0] <= 4  # neither truncated nor babbling


@pytest.mark.slow
def test_a_torn_line_is_said_again_and_the_rest_is_kept(scene, tmp_path, monkeypatch):
    monkeypatch.setattr(lessons, "_TEXTS_PER_WRITE", 4)
    whole = said(scene, tmp_path)
    path = kept(tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:6]) + lines[6][:20])
    counted, say = list[int](), lessons._speak

    def counting(teacher, narrators, portion):
        counted.append(len(portion))
        return say(teacher, narrators, portion)

    monkeypatch.setattr(lessons, "_speak", counting)
    again = said(scene, tmp_path)
    # Five lessons were kept, and the new ones equal the lost ones. Portions begin elsewhere now, so
    # the last one ends elsewhere, too.
    new_lines = path.read_text().splitlines(keepends=True)
    assert all(new == line for new, line in zip(new_lines, lines, strict=False))
    assert len(new_lines) - 1 == 5 + sum(counted) and abs(len(new_lines) - len(lines)) < 4
    for lesson, other in zip(whole, again, strict=False):
        assert torch.equal(lesson.codes, other.codes) and torch.equal(lesson.ids, other.ids)
    counted.clear()
    said(scene, tmp_path)
    assert counted == []


@pytest.mark.parametrize("changes", [{"user_texts": ["one two three."]}, {"seed": 1}])
def test_other_texts_or_another_seed_are_another_file(scene, tmp_path, changes):
    said(scene, tmp_path, 0.1)
    path = kept(tmp_path)
    before = path.read_bytes()
    said(scene, tmp_path, 0.1, **changes)
    assert len(list(tmp_path.glob("speech-*.jsonl"))) == 2 and path.read_bytes() == before


def asked(scene, count: int, **changes):
    """The first requests for the first narrator."""
    requests = lessons._endless_requests(replace(scene, **changes), 0)
    return list(itertools.islice(requests, count))


def test_no_two_pieces_of_a_run_have_one_seed(scene):
    """Of any narrator, any text and any piece; nor has a piece the seed of a request."""
    alike = replace(scene, narrators=scene.narrators[:1] * 101)
    narrators = [lessons._endless_requests(alike, number) for number in (0, 1, 100)]
    requests = [request for each in narrators for request in itertools.islice(each, 300)]
    seeds = [lessons.seed_of(request.seed, piece) for request in requests for piece in range(3)]
    seeds += [request.seed for request in requests]
    assert len(set(seeds)) == len(seeds)
    assert asked(scene, 3)[2].seed == requests[2].seed == lessons.seed_of(0, 0, 2)


def test_what_judges_is_not_said_where_there_is_anything_else(scene):
    clips = scene.clips
    judging = {clip.text for clip in clips[2:]}
    some = asked(scene, 30, judging_texts=judging)
    assert not {request.text for request in some} & judging
    every = {clip.text for clip in clips}
    assert {request.text for request in asked(scene, len(every), judging_texts=every)} & every


def test_each_language_of_the_clips_is_said_in_itself(scene):
    learned = scene.narrators[0].training_indices
    clips = list(scene.clips)
    for index in learned[:4]:
        clips[index] = replace(clips[index], language="pt", text=f"bom dia {index}")
    some = asked(scene, 300, clips=clips)
    spoken_in = {
        request.language: {other.text for other in some if other.language == request.language}
        for request in some
    }
    assert spoken_in.keys() == {"en", "pt"}
    assert all("bom" in text for text in spoken_in["pt"])
    assert not any("bom" in text for text in spoken_in["en"])
    share = sum(request.language == "pt" for request in some) / len(some)
    assert share == pytest.approx(4 / len(learned), abs=0.1)
    # The user's texts are in the most frequent language of the clips.
    some = asked(scene, 300, clips=clips, user_texts=["one two", "three four"])
    assert all(("bom" in request.text) == (request.language == "pt") for request in some)
    assert {"one two", "three four"} <= {request.text for request in some}
    # A narrator without clips in that language says their transcripts.
    other = replace(scene.narrators[0], training_indices=learned[:4])
    some = asked(scene, 9, clips=clips, narrators=[other], user_texts=["one two"])
    assert {request.language for request in some} == {"pt"}


def test_a_text_that_nobody_can_say_is_passed_over(scene, tmp_path):
    """For example the ends of « Non ! » and « Oui ! » together."""
    found = said(scene, tmp_path, 0.2, user_texts=["non !", "oui !", "one two three."])
    assert found and all(len(lesson.ids) for lesson in found)


def test_clips_are_drawn_up_to_the_minutes(scene):
    given = [
        Lesson(torch.tensor(clip.tokens), torch.arange(200), 1, by_teacher=False, is_held_out=False)
        for clip in scene.clips
    ]
    assert len(draw_lessons(given, 600 / lessons.CODES_PER_MINUTE, seed=0)) == 3
    every = draw_lessons(given, 100.0, seed=0)
    assert sorted(map(id, every)) == sorted(map(id, given))


def test_a_teacher_that_ends_nothing_is_told_and_not_listened_to_for_ever(scene, tmp_path, monkeypatch):
    monkeypatch.setattr(lessons, "_TEXTS_PER_WRITE", 4)
    monkeypatch.setattr(
        lessons, "_speak", lambda _, __, portion: [{"narrator": 0, "pieces": []} for _ in portion]
    )
    with pytest.raises(RunError, match="none of 4 texts"):
        said(scene, tmp_path)
