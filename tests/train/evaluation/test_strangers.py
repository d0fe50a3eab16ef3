"""The zero of the voice's scale: real people, none of whom is the person."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from train.dataset.dataset import Clip
from train.evaluation import judges
from train.evaluation.plan import OTHER_VOICES, EvaluationPlan, describe_person, listen_request
from train.evaluation.strangers import stranger_embeddings
from train.sampling.reference import SampleReference
from xtts import audio
from xtts.evaluation.speaker_judge import RATE, SpeakerJudge, weights_file
from xtts.workers.requests import HeardRecordings, RecordingFacts

CLIPS = sorted(Path("train/data/demo/wavs").glob("*.flac"))[:7]


def test_ten_people_are_far_apart_and_none_is_a_stranger_to_themselves():
    people = stranger_embeddings(np.zeros(256))
    assert len(people) == 10
    for number, one in enumerate(people):
        unit = one / np.linalg.norm(one)
        others = stranger_embeddings(unit)
        assert len(others) == 9 and not any(other is one for other in others)
        near = max(float(unit @ other) for other in people[:number] + people[number + 1 :])
        assert 0.4 < near < 0.8


def plan_of(count: int, **more: object) -> EvaluationPlan:
    clip = Clip("c", Path("c.wav"), "hello", "anna", "en", 2.0, "s", (1, 2))
    reference = SampleReference(clip.path, "", "en", "anna")
    plan = EvaluationPlan([], reference, [clip], [clip], [clip] * count, {}, "", None)
    return replace(plan, **more)


@pytest.fixture(scope="module")
def heard() -> dict[Path, list[float]]:
    judge = SpeakerJudge(weights_file())
    paths = (*CLIPS, *sorted(OTHER_VOICES.glob("*.flac")))
    return {path: judge.embedding(audio.read(path, RATE)).tolist() for path in paths}


def test_the_scale_is_between_the_person_and_strangers(heard):
    own = [RecordingFacts(2.0, heard[path], 200.0, 2.0) for path in CLIPS[:5]]
    # Synthetic voices in the place of the base's are not looked at.
    measured = HeardRecordings(own, [[1.0] * 256])
    person = describe_person(plan_of(5, why_no_speaker_judge=None), measured)
    assert person.pitch_spread == 2.0
    for path in CLIPS[5:]:
        assert 0.75 < person.voice_scale.similarity(heard[path]) < 1.3
    readers = [
        person.voice_scale.similarity((row / np.linalg.norm(row)).tolist())
        for row in stranger_embeddings(own_of(own))
    ]
    assert abs(float(np.mean(readers))) < 0.3 and max(readers) < 0.6
    for name in ("rms-3", "slt-1", "kal16-5"):
        assert person.voice_scale.similarity(heard[OTHER_VOICES / f"{name}.flac"]) < 0.5


def own_of(recordings: list[RecordingFacts]) -> np.ndarray:
    return np.mean([recording.embedding for recording in recordings], axis=0)


def test_the_base_judges_with_its_own_others_where_the_package_is_missing():
    """Its recordings of other people are listened to only then, and the description says why."""
    plan = plan_of(2, why_no_speaker_judge="resemblyzer is not installed")
    others = sorted(OTHER_VOICES.glob("*.flac"))
    request = listen_request(plan)
    assert request.recordings[2:] == tuple(others) and not request.speaker_judge
    judged = listen_request(plan_of(2, why_no_speaker_judge=None))
    assert len(judged.recordings) == len(judged.texts) == 2 and judged.speaker_judge
    own = [RecordingFacts(2.0, [1.0, 0.0], None)] * 2
    robots = [RecordingFacts(2.0, [0.0, 2.0], None)]
    assert describe_person(plan, HeardRecordings(own + robots, [])).voice_scale.cosine_at_zero == 0
    assert (
        describe_person(plan, HeardRecordings(own + robots, [[0.6, 0.8]])).voice_scale.cosine_at_zero == 0.6
    )
    person = describe_person(plan, HeardRecordings(own, [[0.6, 0.8]]))
    assert person.word_errors is None
    clips = [replace(clip, word_errors=errors) for clip, errors in zip(own, (0.1, 0.3), strict=True)]
    assert describe_person(plan, HeardRecordings(clips, [[0.6, 0.8]])).word_errors == 0.2
    told = judges.describe_judges(person, "", None, None, plan.why_no_speaker_judge)["voice"].meaning
    assert "the base's own speaker encoder (resemblyzer is not installed)" in told


def test_another_encoder_judges_every_candidate_again(tmp_path):
    path = tmp_path / "reference.wav"
    path.write_bytes(b"sound")
    plan = plan_of(1)
    plan = replace(plan, reference=replace(plan.reference, path=path))
    assert plan.sentence_set != replace(plan, why_no_speaker_judge=None).sentence_set
