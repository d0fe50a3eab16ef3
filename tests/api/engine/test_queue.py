"""The queue: bounded, in time, and an input that kills is found. No clock but the test's."""

import random

from hypothesis import given
from hypothesis import strategies as st

from api.engine.queue import QueuedRequest, Rejection, RequestQueue


def job(name: str, *, at: float = 0.0, deadline: float = 30.0, digest: str = "") -> QueuedRequest:
    return QueuedRequest(name, digest or name, at, deadline)


def test_they_speak_in_the_order_in_which_they_came_and_no_more_than_slots() -> None:
    waiting = RequestQueue(slots=2, most=5)
    for name in "abc":
        waiting.enter(job(name))
    begun = [waiting.next(1.0), waiting.next(1.0), waiting.next(1.0)]
    assert [one and one.name for one in begun] == ["a", "b", None]
    assert waiting.said("a", 3.0) and (found := waiting.next(3.0)) and found.name == "c"


def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    waiting = RequestQueue(slots=1, most=2, mean_seconds=3.0)
    waiting.enter(job("a"))
    waiting.next(0.0)
    for name in "bc":
        waiting.enter(job(name))
    assert waiting.refused("d", 0.0, 30.0) == Rejection("queue_full", 9)


def test_who_cannot_be_in_time_is_refused_at_once() -> None:
    waiting = RequestQueue(slots=1, most=20, mean_seconds=3.0)
    for name in "abc":
        waiting.enter(job(name))
    assert waiting.refused("d", 0.0, 8.9) == Rejection("too_late", 9)
    assert waiting.refused("d", 0.0, 9.1) is None


def test_a_machine_that_slows_down_is_seen_before_anybody_has_finished() -> None:
    """Whoever is taken in meanwhile would be dropped when his time is up."""
    waiting = RequestQueue(slots=2, most=20, mean_seconds=1.0)
    for name in "abcd":
        waiting.enter(job(name))
    waiting.next(0.0)
    waiting.next(0.0)
    assert waiting.refused("e", 1.0, 10.0) is None
    assert waiting.refused("e", 6.0, 15.0) == Rejection("too_late", 12)
    waiting.said("a", 6.0)
    waiting.next(6.0)  # two are at it, 6 s and 0 s
    assert waiting.refused("e", 6.0, 15.0) is None


def test_expired_jobs_are_dropped_before_they_begin() -> None:
    waiting = RequestQueue(slots=1, most=5)
    waiting.enter(job("a", deadline=5.0))
    waiting.enter(job("b", deadline=9.0))
    assert [one.name for one in waiting.expired(5.0)] == ["a"]
    assert (found := waiting.next(5.0)) and found.name == "b"


def test_the_next_piece_waits_behind_those_who_came_meanwhile() -> None:
    """Nobody waits for a whole text; whoever has begun is not dropped for his first deadline."""
    waiting = RequestQueue(slots=1, most=5, mean_seconds=1.0)
    for name in ("long", "short", "other"):
        waiting.enter(job(name, deadline=5.0))
    order = []
    for now in (0.0, 1.0, 2.0, 3.0, 4.0):
        found = waiting.next(now)
        assert found is not None
        order.append(found.name)
        if found.name == "long":
            waiting.pause("long", now + 0.9)
        else:
            waiting.said(found.name, now + 0.9)
    assert order == ["long", "short", "other", "long", "long"]
    assert waiting.expired(9.0) == [] and [one.name for one in waiting.queue] == ["long"]


def test_the_wait_is_counted_in_pieces() -> None:
    waiting = RequestQueue(slots=1, most=5, mean_seconds=2.0)
    waiting.enter(job("long"))
    waiting.next(0.0)
    for now in range(2, 40, 2):
        waiting.pause("long", float(now))
        waiting.next(float(now))
    assert waiting.expected_wait(38.0) == 2.0


def test_who_was_between_two_pieces_is_out_and_no_suspect_when_the_child_dies() -> None:
    waiting = RequestQueue(slots=1, most=5)
    for name in ("long", "killer", "fresh"):
        waiting.enter(job(name))
    waiting.next(0.0)
    waiting.pause("long", 1.0)
    waiting.next(1.0)
    assert [one.name for one in waiting.died()] == ["killer", "long"]
    assert waiting.deaths == {"killer": 1}
    assert [one.name for one in waiting.queue] == ["fresh"]


def test_two_deaths_are_refused_and_one_is_forgiven_by_speaking() -> None:
    waiting = RequestQueue(slots=2, most=5)
    for number in (1, 2):
        waiting.enter(job(f"k{number}", digest="killer"))
        waiting.next(0.0)
        if number == 1:
            waiting.enter(job("bystander", digest="innocent"))
            waiting.next(0.0)
        assert len(waiting.died()) == (2 if number == 1 else 1)
    assert waiting.refused("killer", 0.0, 9.0) == Rejection("deadly_input")
    assert waiting.refused("innocent", 0.0, 9.0) is None
    waiting.enter(job("again", digest="innocent"))
    waiting.next(0.0)
    waiting.said("again", 1.0)
    assert waiting.deaths == {"killer": 2}


def test_one_death_counts_once_however_many_said_the_same() -> None:
    """Two people who ask for the same sentence would be refused it for ever."""
    waiting = RequestQueue(slots=3, most=5)
    for name in ("first", "second", "third"):
        waiting.enter(job(name, digest="same"))
        waiting.next(0.0)
    assert len(waiting.died()) == 3
    assert waiting.deaths == {"same": 1}
    assert waiting.refused("same", 0.0, 9.0) is None


def test_a_suspect_speaks_alone_so_that_the_next_death_names_one() -> None:
    waiting = RequestQueue(slots=3, most=5)
    for name in "ab":
        waiting.enter(job(name, digest=name))
        waiting.next(0.0)
    waiting.died()
    for name in ("a2", "x", "b2"):
        waiting.enter(job(name, digest=name[0]))
    assert waiting.next(0.0).name == "a2"
    assert waiting.next(0.0) is None
    waiting.said("a2", 1.0)
    assert waiting.next(1.0).name == "x"
    assert waiting.next(1.0) is None  # b2 waits until nobody else speaks
    waiting.said("x", 2.0)
    assert waiting.next(2.0).name == "b2"


def test_the_services_own_word_comes_first_and_counts_for_nothing() -> None:
    waiting = RequestQueue(slots=1, most=5)
    waiting.enter(job("a"))
    waiting.enter(QueuedRequest("own", "", 0.0, 9.0, micro=True))
    assert waiting.next(0.0).name == "own"
    mean = waiting.mean_seconds
    waiting.said("own", 100.0)
    assert waiting.mean_seconds == mean
    waiting.enter(QueuedRequest("own", "", 0.0, 9.0, micro=True))
    waiting.leave("a")
    waiting.next(0.0)
    waiting.died()
    assert waiting.deaths == {}


@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 2**32))
def test_nobody_is_lost_whatever_happens(slots: int, most: int, seed: int) -> None:
    """Everybody who comes in goes out exactly once."""
    draw = random.Random(seed)
    waiting, inside, now = RequestQueue(slots, most), set[str](), 0.0
    for number in range(120):
        now += draw.random()
        kind = draw.choice(["come", "come", "next", "pause", "said", "leave", "expire", "die"])
        if kind == "come" and waiting.refused(str(number % 7), now, now + 5) is None:
            waiting.enter(job(f"j{number}", at=now, deadline=now + 5, digest=str(number % 7)))
            inside.add(f"j{number}")
        elif kind == "next":
            waiting.next(now)
        elif kind == "pause" and waiting.speaking:
            waiting.pause(draw.choice(sorted(waiting.speaking)), now)
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
