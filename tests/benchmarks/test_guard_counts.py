"""The texts, the judge and the sums of the guard's counts, without a voice."""

import numpy as np

from benchmarks import guard_counts, guard_texts
from benchmarks.guard_counts import JudgedUtterance
from xtts.inference.alignment.guard import Ending, EndingVerdict


def test_the_sets_share_no_text_and_have_every_kind():
    choosing, reporting = (guard_texts.texts(name, 150) for name in guard_texts.SETS)
    assert not {text.lower().strip('."!?') for text in choosing} & {
        text.lower().strip('."!?') for text in reporting
    }
    assert reporting == guard_texts.texts("reporting", 150)
    assert guard_texts.texts("reporting", 40) == reporting[:40]
    lengths = [len(text.split()) for text in reporting]
    assert min(lengths) == 1 and 25 < max(lengths) <= 50
    assert any(character.isdigit() for text in reporting for character in text)
    assert len({text[-1] for text in reporting}) > 6


def utterance(sound):
    return JudgedUtterance([], None, sound, EndingVerdict(Ending.GOOD))


def test_a_cut_in_silence_takes_no_speech_and_the_click_at_the_end_is_none():
    sound = np.random.default_rng(0).standard_normal(24_000).astype(np.float32)
    sound[12_000:] *= 1e-4
    sound[-500:] *= 1e3
    assert not guard_counts.speech_behind(utterance(sound), 11)
    assert guard_counts.speech_behind(utterance(sound), 8)


def spoken(text, *alarms, ending="good", attempts=1, heard="a b"):
    return {
        "part": "spoken", "text": text, "alarms": list(alarms), "heard": heard,
        "heard_guarded": "a b", "spelled": "a b",
        "pieces": [{"ending": ending, "attempts": attempts, "cut_off": False, "codes": 9}],
    }  # fmt: skip


def test_the_sums():
    lines = [
        spoken("one"),
        spoken("two", {"false": True, "reason": "0.8 s of sound", "piece": "x"}, attempts=2),
        spoken("three", {"false": False, "reason": "cut", "piece": "x"}, ending="cut", heard="a"),
        spoken("of another count", {"false": True, "reason": "cut", "piece": "x"}),
        {"part": "faults", "text": "one", "harmless": 2, "made": [
            {"fault": "loop", "ending": "repeated", "piece": "x"},
            {"fault": "stop at 90 %", "ending": "good", "piece": "x"},
        ]},
    ]  # fmt: skip
    found = guard_counts.summary(lines, {"one", "two", "three"})
    assert (found["texts"], found["alarms on first attempts"], found["of which false"]) == (3, 2, 1)
    assert (found["faulty and told"], found["good pieces in the end"]) == (1, 2)
    assert found["shares"] == {
        "false alarms a piece": 1 / 3,
        "faults found": 0.5,
        "word errors in changed texts, with guard": 0.0,
        "word errors in changed texts, without guard": 0.25,
    }
    assert found["loop"] == "1 of 1" and found["unfinished and not told"] == 1
    assert found["missed"] == ["stop at 90 %: x"] and found["stops that cut silence only"] == 2
