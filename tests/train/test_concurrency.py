"""Results keep the order of the items, with a fixed lookahead."""

from collections.abc import Iterator

from train.concurrency import in_threads, lookahead


def test_so_many_are_begun_behind_the_one_that_is_handed_out():
    begun = list[int]()

    def items() -> Iterator[int]:
        for number in range(6):
            begun.append(number)
            yield number

    found = lookahead(items(), 2)
    assert next(found) == 0 and begun == [0, 1, 2]
    assert [*found] == [1, 2, 3, 4, 5]
    assert [*lookahead(iter("abc"), 0)] == [*lookahead(iter("abc"), 9)] == ["a", "b", "c"]


def test_threads_give_results_in_the_order_of_the_items():
    assert [*in_threads(str, range(7), 3)] == ["0", "1", "2", "3", "4", "5", "6"]
    assert [*in_threads(str, [], 3)] == []
