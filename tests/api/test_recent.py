"""What is kept of callers and inputs, and what is forgotten."""

from api.recent import Recent


def test_what_was_set_longest_ago_is_forgotten() -> None:
    known = Recent[str, int](3)
    for name in "abc":
        known[name] = 1
    known["a"] = 2
    known["d"] = 1
    assert known == {"c": 1, "a": 2, "d": 1}
