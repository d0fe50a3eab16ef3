"""The request bodies: their bounds are those of `xtts`, not a copy."""

from api.schemas import SpeechRequest
from xtts.arguments import SEED, SPEED, TEMPERATURE


def test_numbers_have_the_bounds_of_python() -> None:
    fields = SpeechRequest.model_json_schema()["properties"]
    for name, bounds in (("seed", SEED), ("speed", SPEED), ("temperature", TEMPERATURE)):
        (said,) = [one for one in fields[name]["anyOf"] if one["type"] != "null"]
        assert (said["minimum"], said["maximum"]) == (bounds.least, bounds.most)
