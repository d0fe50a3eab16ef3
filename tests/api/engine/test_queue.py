"""Admission and turns: bounded, fair, without late requests, and a deadly input is found.

The service's books and the turns of the speaking process run together, as messages connect them.
The clock is the test's.
"""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.engine.child import VoiceTarget
from api.engine.engine import SELF_TEST
from api.engine.queue import RETRY_SECONDS, RecentKeys, RequestQueue, SpeechStream
from xtts.workers.server_main import Turns


def job(name: str, *, at: float = 0.0, deadline: float = 30.0, **more: Any) -> SpeechStream:
    digest = more.pop("digest", name)
    made = SpeechStream(SELF_TEST, name=name, arrived=at, deadline=deadline, **more)
    made.__dict__["digest"] = digest  # as if its text had it
    return made


class Waiting(RequestQueue):
    """The service's requests, and the turns that the speaking process gives them."""

    def __init__(self, slots: int, max_waiting: int) -> None:
        super().__init__(slots, max_waiting)
        self.turns = self._started()

    def _started(self) -> Turns:
        """The queue of a new process, which gets the requests that wait."""
        turns = Turns(self.slots)
        turns.served = "v"
        for job in self.queue:
            turns.enter(self._message(job))
        return turns

    def _message(self, job: SpeechStream) -> dict[str, object]:
        suspect = job.digest if self.is_suspect(job) else ""
        return {"id": job.name, "caller": job.caller, "micro": job.is_self_test, "suspect": suspect}

    def enter(self, job: SpeechStream) -> None:
        super().enter(job)
        self.turns.enter(self._message(job))

    def next(self) -> SpeechStream | None:
        """The request whose turn begins now, if any."""
        message = self.turns.next()
        job = message and self.begin(str(message["id"]))
        assert (message is None) == (job is None) and set(self.turns.speaking) == set(self.speaking)
        return job or None

    def pause(self, name: str, *, held: bool = False) -> None:
        super().pause(name)
        if held:
            self.turns.hold(name)
        self.turns.pause(name)

    def remove_expired(self, now: float) -> list[SpeechStream]:
        late = super().remove_expired(now)
        for job in late:
            assert self.turns.drop(job.name)
        return late

    def leave(self, name: str) -> SpeechStream | None:
        self.turns.leave(name)
        return super().leave(name)

    def finish(self, name: str) -> SpeechStream | None:
        self.turns.leave(name, is_spoken=True)
        return super().finish(name)

    def remove_active(self) -> list[SpeechStream]:
        active = super().remove_active()
        self.turns = self._started()
        return active


def queue_of(*names: str, slots: int = 1, max_waiting: int = 5) -> Waiting:
    """A queue with one waiting request for each name."""
    waiting = Waiting(slots, max_waiting)
    for name in names:
        waiting.enter(job(name))
    return waiting


def begins(waiting: Waiting) -> str | None:
    """The name of the request whose turn it is."""
    turn = waiting.next()
    return turn and turn.name


def code_of(waiting: RequestQueue, digest: str = "", caller: str = "") -> str:
    """The code with which a new request is refused, or ""."""
    refusal = waiting.refusal(digest, caller)
    return refusal.code if refusal else ""


def test_they_speak_in_the_order_in_which_they_came_and_no_more_than_slots():
    waiting = queue_of(*"abc", slots=2)
    assert [begins(waiting) for _ in range(3)] == ["a", "b", None]
    assert waiting.finish("a") and begins(waiting) == "c"


def test_who_cannot_have_a_place_is_told_when_to_come_back():
    waiting = queue_of("a", max_waiting=2)
    waiting.next()
    for name in "bc":
        assert code_of(waiting) == ""
        waiting.enter(job(name))
    refusal = waiting.refusal("d", "")
    assert refusal and (refusal.status, refusal.code) == (503, "queue_full")
    assert refusal.retry_after == RETRY_SECONDS and "2 requests already wait" in str(refusal)


def test_expired_jobs_are_dropped_before_they_begin():
    waiting = queue_of()
    waiting.enter(job("a", deadline=5.0))
    waiting.enter(job("b", deadline=9.0))
    assert [late.name for late in waiting.remove_expired(5.0)] == ["a"]
    assert begins(waiting) == "b"


def test_the_next_piece_waits_behind_those_who_came_meanwhile():
    """No caller waits for a whole text; a started request is not dropped at its first deadline."""
    waiting = queue_of("long", "short", "other")
    order = []
    for _ in range(5):
        order.append(begins(waiting))
        if order[-1] == "long":
            waiting.pause("long")
        else:
            waiting.finish(str(order[-1]))
    assert order == ["long", "short", "other", "long", "long"]
    assert waiting.remove_expired(31.0) == [] and [left.name for left in waiting.queue] == ["long"]


def test_the_long_texts_of_one_caller_take_turns_piece_by_piece():
    """32 at once all advance, none before the others (docs/develop/api.md, Turns)."""
    waiting = Waiting(slots=4, max_waiting=32)
    names = [f"{number}" for number in range(32)]
    for name in names:
        waiting.enter(job(name, caller="one"))
    turns = dict.fromkeys(names, 0)
    for _ in range(200):
        while (name := begins(waiting)) is not None:
            turns[name] += 1
        assert max(turns.values()) - min(turns.values()) <= 1
        waiting.pause(next(iter(waiting.speaking)))


def test_who_was_between_two_pieces_is_out_and_no_suspect_when_the_child_dies():
    waiting = queue_of("long", "killer", "fresh")
    waiting.next()
    waiting.pause("long")
    waiting.next()
    assert [left.name for left in waiting.remove_active()] == ["killer", "long"]
    assert waiting.deaths == {"killer": 1}
    assert [left.name for left in waiting.queue] == ["fresh"]


def test_two_deaths_are_refused_and_one_is_forgiven_by_speaking():
    """One death counts once, however many identical requests were speaking. Otherwise two people
    who request the same sentence would block it permanently."""
    waiting = queue_of(slots=3)
    for spoken in (("killer", "killer", "innocent"), ("killer",)):
        assert code_of(waiting, "killer") == ""
        for number, digest in enumerate(spoken):
            waiting.enter(job(f"{digest}{number}", digest=digest))
            waiting.next()
        assert len(waiting.remove_active()) == len(spoken)
    assert code_of(waiting, "killer") == "deadly_input"
    assert code_of(waiting, "innocent") == ""
    waiting.enter(job("again", digest="innocent"))
    waiting.next()
    waiting.finish("again")
    assert waiting.deaths == {"killer": 2}


def test_a_suspect_speaks_alone_so_that_the_next_death_names_one():
    waiting = queue_of(*"ab", slots=3)
    waiting.next()
    waiting.next()
    waiting.remove_active()
    for name in ("a2", "x", "b2"):
        waiting.enter(job(name, digest=name[0]))
    for name in ("a2", "x", "b2"):  # each waits until it can speak alone
        assert [begins(waiting), begins(waiting)] == [name, None]
        waiting.finish(name)


def test_the_services_own_word_comes_first_and_counts_for_nothing():
    waiting = queue_of("a")
    stream = SpeechStream(SELF_TEST, name="own", is_self_test=True)
    waiting.enter(stream)
    assert begins(waiting) == "own"
    waiting.finish("own")
    waiting.enter(SpeechStream(SELF_TEST, name="own", is_self_test=True))
    waiting.leave("a")
    waiting.next()
    waiting.remove_active()
    assert waiting.deaths == {}


def test_a_free_slot_goes_to_the_caller_who_has_the_fewest():
    waiting = queue_of(slots=4, max_waiting=40)
    for number in range(36):
        waiting.enter(job(f"greedy{number}", caller="greedy"))
    for _ in range(4):
        waiting.next()
    for name in ("other0", "other1", "other2", "last"):
        waiting.enter(job(name, caller=name.rstrip("012")))
    begun = []
    for number in range(4):
        waiting.pause(f"greedy{number}")
        begun.append(begins(waiting))
    assert begun == ["other0", "last", "greedy4", "other1"]


def test_a_newcomer_finds_a_place_in_a_full_queue_and_the_one_who_filled_it_does_not():
    waiting = queue_of(max_waiting=6)
    for caller, count in (("greedy", 7), ("other", 3)):
        for number in range(count):
            assert code_of(waiting, caller=caller) == ""
            waiting.enter(job(f"{caller}{number}", caller=caller))
            waiting.next()
        assert code_of(waiting, caller=caller) == "queue_full"
    assert code_of(waiting, caller="third") == ""


def test_a_request_whose_caller_does_not_read_gets_no_turn_and_keeps_nobody_waiting():
    waiting = queue_of(max_waiting=6)
    stalled = job("stalled", caller="a")
    waiting.enter(stalled)
    waiting.next()
    waiting.pause("stalled", held=True)
    assert waiting.next() is None
    waiting.enter(job("other", caller="b"))
    assert begins(waiting) == "other" and waiting.finish("other")
    waiting.turns.resume("stalled")
    assert waiting.next() is stalled


@given(st.integers(1, 4), st.integers(1, 12), st.integers(0, 2**32))
def test_a_newcomer_is_next_and_is_never_refused_for_a_full_queue(slots, max_waiting, seed):
    """In any sequence of arrivals, turns and departures. The queue stays bounded too."""
    draw = random.Random(seed)
    waiting, callers, now = Waiting(slots, max_waiting), 4, 0.0
    for number in range(150):
        now += draw.random()
        caller = f"c{draw.randrange(callers) if draw.random() < 0.3 else 0}"
        if not code_of(waiting, caller=caller):
            waiting.enter(job(f"j{number}", at=now, deadline=1e9, caller=caller))
        waiting.next()
        if waiting.speaking and draw.random() < 0.6:
            name = draw.choice(sorted(waiting.speaking))
            if draw.random() < 0.8:
                waiting.pause(name, held=draw.random() < 0.2)
            else:
                waiting.finish(name)
    harmonic = sum(1 / n for n in range(1, callers + 1))
    assert len(waiting.queue) + len(waiting.speaking) <= (slots + max_waiting) * harmonic + callers
    assert code_of(waiting, caller="newcomer") == ""
    waiting.enter(job("new", at=now, caller="newcomer"))
    while len(waiting.speaking) < slots and not any(name_of == "new" for name_of in waiting.speaking):
        assert waiting.next()
    if "new" not in waiting.speaking:
        waiting.finish(next(iter(waiting.speaking)))
        assert begins(waiting) == "new"


@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 2**32))
def test_nobody_is_lost_whatever_happens(slots, max_waiting, seed):
    """Each request that enters leaves exactly once."""
    draw = random.Random(seed)
    waiting, inside, now = Waiting(slots, max_waiting), set[str](), 0.0
    for number in range(120):
        now += draw.random()
        kind = draw.choice(["come", "come", "next", "pause", "said", "leave", "expire", "die"])
        if kind == "come" and not code_of(waiting, str(number % 7)):
            waiting.enter(job(f"j{number}", at=now, deadline=now + 5, digest=str(number % 7)))
            inside.add(f"j{number}")
        elif kind == "next":
            waiting.next()
        elif kind == "pause" and waiting.speaking:
            waiting.pause(draw.choice(sorted(waiting.speaking)))
            assert waiting.next() is not None or waiting.speaking or waiting.queue
        elif kind in ("said", "leave") and inside:
            name = draw.choice(sorted(inside))
            if kind == "said" and name not in waiting.speaking:
                continue
            gone = waiting.finish(name) if kind == "said" else waiting.leave(name)
            assert gone and gone.name == name
            inside.remove(name)
        elif kind == "expire":
            inside -= {left.name for left in waiting.remove_expired(now)}
        elif kind == "die":
            inside -= {left.name for left in waiting.remove_active()}
        assert len(waiting.speaking) <= slots and len(waiting.queue) <= max_waiting + slots
        assert inside == {left.name for left in waiting.queue} | set(waiting.speaking)


@pytest.mark.parametrize(("slots", "others"), [(1, 2), (4, 5), (4, 9)])
def test_a_long_text_goes_on_beside_callers_who_come_and_go(slots, others):
    """Each of them has one short text at a time, and sends another after it."""
    waiting, turns = Waiting(slots=slots, max_waiting=32), 0
    waiting.enter(job("long", caller="long"))
    for number in range(others):
        waiting.enter(job(f"{number}", caller=f"{number}"))
    for _ in range(400):
        while waiting.next() is not None:
            pass
        for active in list(waiting.speaking.values()):
            if active.name == "long":
                turns += 1
                waiting.pause("long")
            else:
                waiting.finish(active.name)
                waiting.enter(job(active.name, caller=active.caller))
    assert turns >= 0.9 * 400 * min(1, slots / (others + 1))


def test_of_callers_and_inputs_that_are_too_many_the_one_set_longest_ago_is_forgotten():
    recent = RecentKeys[str, int](3)
    for name in "abcad":
        recent[name] = 1
    assert list(recent) == ["c", "a", "d"]


def test_an_input_that_kills_is_one_text_with_one_voice_recording_and_cast():
    """A damaged recording must not refuse its text for every other voice."""
    first = SpeechStream(SELF_TEST, recording="a" * 64, target=VoiceTarget("epoch 1", {}))
    others = [
        replace(first, recording="b" * 64),
        replace(first, recording=None),
        replace(first, target=VoiceTarget("epoch 2", {})),
        replace(first, target=None),
        replace(first, cast={"anna": None}),
        replace(first, cast={"anna": "b" * 64}),
        replace(first, request=replace(SELF_TEST, text="No.")),
        replace(first, request=replace(SELF_TEST, language="pt")),
    ]
    assert len({stream.digest for stream in (first, *others)}) == 1 + len(others)
    same = replace(SELF_TEST, text="  yes", seed=7, speed=1.5)
    assert replace(first, request=same, caller="other").digest == first.digest


def test_a_request_waits_until_a_voice_is_served_and_then_has_that_voice():
    turns = Turns(1)
    turns.enter({"id": "a", "key": None})
    turns.enter({"id": "b", "key": "preview"})
    turns.leave(str((turns.next() or {})["id"]))  # another voice need not wait
    assert turns.next() is None
    turns.served = "v1"
    assert turns.next() == {"id": "a", "key": "v1"}


def test_a_request_that_has_begun_is_not_dropped_but_cancelled():
    """Its memory is in the server, which frees it."""
    turns = Turns(1)
    turns.served = "v"
    turns.enter({"id": "a", "key": None})
    turns.next()
    turns.pause("a")
    assert not turns.drop("a") and turns.next() == {"do": "go_on", "id": "a"}


def test_a_suspect_that_was_spoken_is_innocent_for_those_who_wait_with_the_same_input():
    turns = Turns(2)
    turns.served = "v"
    for name in "abc":
        turns.enter({"id": name, "key": None, "suspect": "digest"})
    assert turns.next() and turns.next() is None
    turns.leave("a", is_spoken=True)
    assert turns.next() and turns.next() and len(turns.speaking) == 2
