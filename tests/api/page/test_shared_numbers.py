"""What the page's scripts and forms state a second time equals what the Python modules state."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from api.events import _COMMENT_SECONDS
from api.parts import PAGE, page_folders
from api.schemas import MAX_CHARACTERS, MAX_NAME
from api.voices.store import MAX_RECORDINGS
from train.evaluation import judges
from train.metrics.logs import Phase
from xtts.arguments import SPEED, TEMPERATURE
from xtts.encoding import MEDIA_TYPES, RATE
from xtts.text.languages import ENGLISH_NAMES

JUDGES = [
    judges.WORDS,
    judges.WORD_ERRORS,
    judges.VOICE,
    judges.NATURALNESS,
    judges.RATE_DRIFT,
    judges.PITCH_DRIFT,
    judges.PITCH_SPREAD,
]


def constant(script: str, name: str) -> str:
    """The value of `const NAME = …;` in a script of the page, as it is written."""
    text = (PAGE / script).read_text(encoding="utf-8")
    (value,) = re.findall(rf"^(?:export )?const {name} = (.*?);$", text, re.MULTILINE | re.DOTALL)
    return str(value)


def keys(script: str, name: str) -> list[str]:
    """The keys of an object with one key for each `key: value`."""
    return re.findall(r"(\w+): ", re.sub(r'"[^"]*"|`[^`]*`', "", constant(script, name)))


def scripts() -> list[Path]:
    return [path for folder in (PAGE, *page_folders().values()) for path in folder.glob("*.js")]


def test_the_page_plays_and_records_at_the_rate_of_the_service():
    """At another one, streamed speech would play lower and slower. The rate is stated once."""
    assert int(constant("sound.js", "RATE")) == RATE
    rates = [path.name for path in scripts() if re.search(r"\b24_?000\b", path.read_text("utf-8"))]
    assert set(rates) <= {"sound.js", "reading.js"}


@pytest.mark.parametrize(
    ("script", "name", "value"),
    [("speak.js", "MAX_CHARACTERS", MAX_CHARACTERS), ("voices.js", "MAX_RECORDINGS", MAX_RECORDINGS)],
)
def test_a_limit_of_the_page_is_that_of_the_service(script, name, value):
    assert int(constant(script, name)) == value


def test_the_page_hears_the_service_more_often_than_it_gives_it_up():
    """The service sends a comment every 15 s, and the page reconnects after silence."""
    assert int(constant("events.js", "SILENCE_MILLISECONDS")) >= 2_000 * _COMMENT_SECONDS


def test_the_page_offers_every_language_of_xtts_v2():
    offered = [code.removesuffix("-cn") for code in json.loads(constant("wording.js", "LANGUAGES"))]
    assert offered == sorted(ENGLISH_NAMES)


def test_the_page_knows_every_judge_and_every_phase():
    assert sorted(keys("judges.js", "NAMES")) == sorted(JUDGES)
    assert keys("wording.js", "PHASES") == [phase for phase in get_args(Phase) if phase != "training"]


def test_the_page_names_only_formats_that_the_service_speaks():
    assert set(keys("speak.js", "NAMES")) <= set(MEDIA_TYPES)


def test_the_forms_take_what_the_service_takes():
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    for name, limit in (("speed", SPEED), ("temperature", TEMPERATURE)):
        (field,) = re.findall(rf'<input[^>]*name="{name}"[^>]*>', page)
        limits = [float(re.findall(rf'{edge}="([^"]*)"', field)[0]) for edge in ("min", "max")]
        assert limits == [limit.min, limit.max]
    for longest in re.findall(r'name="name"[^>]*maxlength="(\d+)"', page):
        assert int(longest) <= MAX_NAME
