"""The queue: bounded, in time, and an input that kills is found. No clock but the test's."""

import heapq
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.engine.queue import QueuedRequest, Recent, Rejection, RequestQueue


def job(name: str, *, at: float = 0.0, deadline: float = 30.0, **more: Any) -> QueuedRequest:
    return QueuedRequest(name, more.pop("digest", name), at, deadline, **more)


def queue_of(*names: str, slots: int = 1, most: int = 5, mean: float = 1.0) -> RequestQueue:
    """With a request of each name, none of which speaks."""
    waiting = RequestQueue(slots, most, mean_seconds=mean)
    for name in names:
        waiting.enter(job(name))
    return waiting


def begins(waiting: RequestQueue, now: float = 0.0) -> str | None:
    """Whose turn it is."""
    found = waiting.next(now)
    return found and found.name


def test_they_speak_in_the_order_in_which_they_came_and_no_more_than_slots():
    waiting = queue_of(*"abc", slots=2)
    assert [begins(waiting, 1.0) for _ in range(3)] == ["a", "b", None]
    assert waiting.said("a", 3.0) and begins(waiting, 3.0) == "c"


def test_who_cannot_have_a_place_or_be_in_time_is_told_when_to_come_back():
    waiting = queue_of("a", most=2, mean=3.0)
    waiting.next(0.0)
    for name in "bc":
        waiting.enter(job(name))
    assert waiting.refused("d", "", 0.0, 30.0) == Rejection("queue_full", 4)
    waiting = queue_of(*"abc", most=20, mean=3.0)
    assert waiting.refused("d", "", 0.0, 8.9) == Rejection("too_late", 4)
    assert waiting.refused("d", "other", 0.0, 3.1) is None


def test_a_machine_that_slows_down_is_seen_before_anybody_has_finished():
    """Whoever is taken in meanwhile would be dropped when his time is up."""
    waiting = queue_of(*"abcd", slots=2, most=20)
    waiting.next(0.0)
    waiting.next(0.0)
    assert waiting.refused("e", "", 1.0, 9.0) is None
    assert waiting.refused("e", "x", 6.0, 9.0) is None
    assert waiting.refused("e", "", 6.0, 9.0) == Rejection("too_late", 4)
    waiting.said("a", 6.0)
    waiting.next(6.0)  # two are at it, 6 s and 0 s
    assert waiting.refused("e", "x", 6.0, 9.0) is None


def test_expired_jobs_are_dropped_before_they_begin():
    waiting = queue_of()
    waiting.enter(job("a", deadline=5.0))
    waiting.enter(job("b", deadline=9.0))
    assert [one.name for one in waiting.expired(5.0)] == ["a"]
    assert begins(waiting, 5.0) == "b"


def test_the_next_piece_waits_behind_those_who_came_meanwhile():
    """Nobody waits for a whole text; whoever has begun is not dropped for his first deadline."""
    waiting = queue_of("long", "short", "other")
    order = []
    for now in (0.0, 1.0, 2.0, 3.0, 4.0):
        order.append(begins(waiting, now))
        if order[-1] == "long":
            waiting.pause("long", now + 0.9, 1)
        else:
            waiting.said(str(order[-1]), now + 0.9)
    assert order == ["long", "short", "other", "long", "long"]
    assert waiting.expired(31.0) == [] and [one.name for one in waiting.queue] == ["long"]


def test_the_wait_is_counted_in_pieces():
    waiting = queue_of("long", mean=2.0)
    waiting.next(0.0)
    for now in range(2, 40, 2):
        waiting.pause("long", float(now), 1)
        waiting.next(float(now))
    assert waiting.expected_wait(38.0) == 2.0


def test_who_was_between_two_pieces_is_out_and_no_suspect_when_the_child_dies():
    waiting = queue_of("long", "killer", "fresh")
    waiting.next(0.0)
    waiting.pause("long", 1.0, 1)
    waiting.next(1.0)
    assert [one.name for one in waiting.died()] == ["killer", "long"]
    assert waiting.deaths == {"killer": 1}
    assert [one.name for one in waiting.queue] == ["fresh"]


def test_two_deaths_are_refused_and_one_is_forgiven_by_speaking():
    """One death counts once however many said the same, or two people who ask for the same
    sentence would be refused it for ever."""
    waiting = queue_of(slots=3)
    for spoken in (("killer", "killer", "innocent"), ("killer",)):
        assert waiting.refused("killer", "", 0.0, 9.0) is None
        for number, digest in enumerate(spoken):
            waiting.enter(job(f"{digest}{number}", digest=digest))
            waiting.next(0.0)
        assert len(waiting.died()) == len(spoken)
    assert waiting.refused("killer", "", 0.0, 9.0) == Rejection("deadly_input")
    assert waiting.refused("innocent", "", 0.0, 9.0) is None
    waiting.enter(job("again", digest="innocent"))
    waiting.next(0.0)
    waiting.said("again", 1.0)
    assert waiting.deaths == {"killer": 2}


def test_a_suspect_speaks_alone_so_that_the_next_death_names_one():
    waiting = queue_of(*"ab", slots=3)
    waiting.next(0.0)
    waiting.next(0.0)
    waiting.died()
    for name in ("a2", "x", "b2"):
        waiting.enter(job(name, digest=name[0]))
    for now, name in enumerate(("a2", "x", "b2")):  # each waits until nobody else speaks
        assert [begins(waiting, now), begins(waiting, now)] == [name, None]
        waiting.said(name, now + 1.0)


def test_the_services_own_word_comes_first_and_counts_for_nothing():
    waiting = queue_of("a")
    own = QueuedRequest("own", "", 0.0, 9.0, micro=True)
    waiting.enter(own)
    assert begins(waiting) == "own"
    mean = waiting.mean_seconds
    waiting.said("own", 100.0)
    assert waiting.mean_seconds == mean
    waiting.enter(QueuedRequest("own", "", 0.0, 9.0, micro=True))
    waiting.leave("a")
    waiting.next(0.0)
    waiting.died()
    assert waiting.deaths == {}


def test_a_free_slot_goes_to_the_caller_who_has_the_fewest():
    waiting = queue_of(slots=4, most=40)
    for number in range(36):
        waiting.enter(job(f"greedy{number}", caller="greedy"))
    for _ in range(4):
        waiting.next(0.0)
    for name in ("other0", "other1", "other2", "last"):
        waiting.enter(job(name, caller=name.rstrip("012")))
    begun = []
    for number in range(4):
        waiting.pause(f"greedy{number}", 1.0, 9)
        begun.append(begins(waiting, 1.0))
    assert begun == ["other0", "last", "greedy4", "other1"]


def test_a_newcomer_finds_a_place_in_a_full_queue_and_the_one_who_filled_it_does_not():
    waiting = queue_of(most=6)
    for caller, count in (("greedy", 7), ("other", 3)):
        for number in range(count):
            assert waiting.refused("", caller, 0.0, 30.0) is None
            waiting.enter(job(f"{caller}{number}", caller=caller))
            waiting.next(0.0)
        refused = waiting.refused("", caller, 0.0, 30.0)
        assert refused and refused.code == "queue_full"
    assert waiting.refused("", "third", 0.0, 30.0) is None


def test_a_request_whose_caller_does_not_read_gets_no_turn_and_keeps_nobody_waiting():
    waiting = queue_of(most=6)
    stalled = job("stalled", caller="a")
    waiting.enter(stalled)
    waiting.next(0.0)
    waiting.pause("stalled", 1.0, 5, held=True)
    assert waiting.next(1.0) is None
    assert waiting.expected_wait(1.0, "b") == 0
    stalled.held = False
    assert (found := waiting.next(2.0)) is stalled and found.left == 5


def test_the_length_of_a_piece_is_learned_from_the_first_pauses():
    """A place is free when a whole text is spoken, not one piece of it."""
    waiting = queue_of(most=1)
    for name in "ab":
        waiting.enter(job(name, caller="a", characters=1_000))
        waiting.next(0.0)
    for now in range(1, 61):
        (name,) = waiting.speaking
        waiting.pause(name, float(now), 100 - now // 2)
        waiting.next(float(now))
    found = waiting.refused("", "a", 60.0, 30.0)
    assert found and found.code == "queue_full" and 130 <= found.retry_seconds <= 200


@given(st.integers(1, 4), st.integers(1, 12), st.integers(0, 2**32))
def test_a_newcomer_is_next_and_is_never_refused_for_a_full_queue(slots, most, seed):
    """However the others came, spoke and left; and the queue stays bounded."""
    draw = random.Random(seed)
    waiting, callers, now = RequestQueue(slots, most), 4, 0.0
    for number in range(150):
        now += draw.random()
        caller = f"c{draw.randrange(callers) if draw.random() < 0.3 else 0}"
        if waiting.refused("", caller, now, 1e9) is None:
            waiting.enter(job(f"j{number}", at=now, deadline=1e9, caller=caller, characters=300))
        waiting.next(now)
        if waiting.speaking and draw.random() < 0.6:
            name = draw.choice(sorted(waiting.speaking))
            if draw.random() < 0.8:
                waiting.pause(name, now, 3, held=draw.random() < 0.2)
            else:
                waiting.said(name, now)
    harmonic = sum(1 / n for n in range(1, callers + 1))
    assert len(waiting.queue) + len(waiting.speaking) <= (slots + most) * harmonic + callers
    assert waiting.refused("", "newcomer", now, 1e9) is None
    waiting.enter(job("new", at=now, caller="newcomer"))
    while len(waiting.speaking) < slots and not any(one == "new" for one in waiting.speaking):
        assert waiting.next(now)
    if "new" not in waiting.speaking:
        waiting.said(next(iter(waiting.speaking)), now)
        assert begins(waiting, now) == "new"


@pytest.mark.parametrize(("slots", "most", "callers"), [(4, 32, 1), (4, 16, 4), (1, 8, 2)])
def test_nine_of_ten_who_come_when_they_were_asked_to_are_taken_in(slots, most, callers):
    """Three times more clients than there are places, all of which wait as long as they are asked
    to; a turn takes 0.7 to 1.3 s, a text one to five of them."""
    draw = random.Random(1)
    waiting, now, ends = RequestQueue(slots, most, mean_seconds=1.0), 0.0, dict[str, float]()
    clients = [(0.01 * number, number, False) for number in range(callers * 3 * (slots + most))]
    served = kept = broken = 0
    while clients or ends:
        ending = min(ends.values(), default=math.inf)
        if clients and clients[0][0] <= ending:
            now, number, promised = heapq.heappop(clients)
            caller = f"c{number % callers}"
            refused = waiting.refused("", caller, now, 18.0)
            kept, broken = kept + (promised and not refused), broken + bool(promised and refused)
            if refused:
                heapq.heappush(clients, (now + refused.retry_seconds + 0.01, number, True))
            else:
                characters = 100 * draw.randint(1, 5)
                waiting.enter(job(str(number), at=now, caller=caller, characters=characters))
        else:
            name = min(ends, key=lambda one: ends[one])
            now, one = ends.pop(name), waiting.speaking[name]
            if left := one.characters // 100 - one.turns - 1:
                waiting.pause(name, now, left)
            else:
                waiting.said(name, now)
                served += 1
        while (begun := waiting.next(now)) is not None:
            ends[begun.name] = now + draw.uniform(0.7, 1.3)
    assert served == callers * 3 * (slots + most)
    assert kept >= 9 * broken and kept > 0, (kept, broken)


def test_who_asks_again_too_early_keeps_no_place_empty():
    """Each was given a time; none waits for it, and the service is idle in the end."""
    waiting = queue_of(*"abc", most=2)
    waiting.next(0.0)
    for now in range(1, 30):
        assert waiting.refused("", "", float(now), 60.0)
    for name in "abc":
        waiting.leave(name)
    assert waiting.refused("", "", 30.0, 60.0) is None


def test_an_idle_service_keeps_no_place_for_those_who_are_to_come_back():
    waiting = queue_of(slots=2, most=2, mean=0.2)
    for number in range(4):
        waiting.enter(job(f"{number}", caller="one"))
    assert all(waiting.refused("x", "one", 0.0, 30.0) for _ in range(100))
    waiting.queue.clear()
    assert all(waiting.refused("x", "one", at / 10, 30.0) is None for at in range(100))


def test_who_came_back_in_time_is_expected_no_more_and_the_others_still_are():
    """Or each retry that was answered would make the wait of everybody else longer for minutes."""
    waiting = queue_of(most=2)
    for caller in ("one", "two", "three"):
        waiting.enter(job(caller, caller=caller))
    back = {}
    for caller in ("one", "two"):
        found = waiting.refused("", caller, 0.0, 60.0)
        assert found is not None
        back[caller] = float(found.retry_seconds)
    assert waiting.returns.expected_of_others("new", 0.0) == 2
    for name in ("one", "two", "three"):
        waiting.leave(name)
    now = back["one"] + 0.01
    assert waiting.refused("", "one", now, 60.0) is None
    waiting.enter(job("again", at=now, caller="one"))
    assert waiting.returns.expected("one", 0.0) == 0
    assert waiting.returns.expected("two", 0.0) == 1


@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 2**32))
def test_nobody_is_lost_whatever_happens(slots, most, seed):
    """Everybody who comes in goes out exactly once."""
    draw = random.Random(seed)
    waiting, inside, now = RequestQueue(slots, most), set[str](), 0.0
    for number in range(120):
        now += draw.random()
        kind = draw.choice(["come", "come", "next", "pause", "said", "leave", "expire", "die"])
        if kind == "come" and waiting.refused(str(number % 7), "", now, 5) is None:
            waiting.enter(job(f"j{number}", at=now, deadline=now + 5, digest=str(number % 7)))
            inside.add(f"j{number}")
        elif kind == "next":
            waiting.next(now)
        elif kind == "pause" and waiting.speaking:
            waiting.pause(draw.choice(sorted(waiting.speaking)), now, 1)
            assert waiting.next(now) is not None or waiting.speaking or waiting.queue
        elif kind in ("said", "leave") and inside:
            name = draw.choice(sorted(inside))
            if kind == "said" and name not in waiting.speaking:
                continue
            gone = waiting.said(name, now) if kind == "said" else waiting.leave(name)
            assert gone and gone.name == name
            inside.remove(name)
        elif kind == "expire":
            inside -= {one.name for one in waiting.expired(now)}
        elif kind == "die":
            inside -= {one.name for one in waiting.died()}
        assert len(waiting.speaking) <= slots and len(waiting.queue) <= most + slots
        assert inside == {one.name for one in waiting.queue} | set(waiting.speaking)


@pytest.mark.parametrize(("slots", "others"), [(1, 2), (4, 5), (4, 9)])
def test_a_long_text_goes_on_beside_callers_who_come_and_go(slots, others):
    """Each of them has one short text at a time, and asks again when it is spoken."""
    waiting, turns = RequestQueue(slots=slots, most=32), 0
    waiting.enter(job("long", caller="long"))
    for number in range(others):
        waiting.enter(job(f"{number}", caller=f"{number}"))
    for now in range(400):
        while waiting.next(float(now)) is not None:
            pass
        for one in list(waiting.speaking.values()):
            if one.name == "long":
                turns += 1
                waiting.pause("long", float(now), 100)
            else:
                waiting.said(one.name, float(now))
                waiting.enter(job(one.name, caller=one.caller))
    assert turns >= 0.9 * 400 * min(1, slots / (others + 1))


def test_of_callers_and_inputs_that_are_too_many_the_one_set_longest_ago_is_forgotten():
    known = Recent[str, int](3)
    for name in "abcad":
        known[name] = 1
    assert list(known) == ["c", "a", "d"]
