"""What all speech requests have in common, in one table: OpenAI's, and those of the extras.

A new kind of request is a row of `WAYS` in `tests/extras/EXTRA/ways.py`.
"""

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from api.schemas import MAX_CHARACTERS
from tests.api.conftest import QUICK, running, settings_in
from tests.api.heard import asked
from tests.api.sounds import file_of, speech, upload
from tests.api.ways import OPENAI, Asked, Doors, Way
from tests.installed import tables

# macOS decomposes accents in file names.
COMPOSED, APART = "\u00c9lodie", "E\u0301lodie"
TABLES = tables("ways")
WAYS = [OPENAI, *(way for table in TABLES for way in table.WAYS)]


def each(ways: list[Way]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("way", ways, ids=lambda way: way.name)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """A ready service with one uploaded voice and the served one, which speaks en and pt."""
    limits = replace(QUICK, queue=32, deadline_seconds=60.0)
    listeners = [item for table in TABLES for item in getattr(table, "LISTENERS", {}).items()]
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setenv("FAKE_STEP", "0")  # 4,096 characters are 4,096 steps
        ports, others = dict[str, int](), []
        for setting, listener in listeners:
            listening = stack.enter_context(socket.socket(proto=socket.IPPROTO_TCP))
            listening.bind(("127.0.0.1", 0))
            ports[setting] = listening.getsockname()[1]
            others.append((listener, [listening]))
        settings = settings_in(tmp_path_factory.mktemp("common"), **ports)
        with running(settings, limits=limits, listeners=others) as http:
            assert upload(http, file_of(speech()), name=COMPOSED).status_code == 201
            yield Doors(http, ports)


def spoken(doors: Doors, way: Way, request: Asked) -> tuple[str, str, float, bool]:
    """Text, language and speed as the engine gets them, and whether a recording is used."""
    with asked() as orders:
        assert way.ask(doors, request) == (200, "")
    ((ask, recording),) = orders
    return ask.text, ask.language, ask.speed, recording is not None


@each([way for way in WAYS if way.fastest])
def test_speed_reaches_the_engine_and_has_bounds(doors, way):
    for speed in (1.5, 0.25, way.fastest):
        assert spoken(doors, way, Asked(speed=speed))[2] == speed
    for wrong in (0.2, way.fastest + 0.1):
        assert way.ask(doors, Asked(speed=wrong)) == (422, "invalid_request")
    assert spoken(doors, way, Asked())[2] == 1.0


@each(WAYS)
def test_the_language_reaches_the_engine_in_every_spelling(doors, way):
    for language in ("pt", "pt-BR", "PT_br", "Portuguese"):
        assert spoken(doors, way, Asked(language=language))[1] == "pt", language
    assert way.ask(doors, Asked(language="de"))[1] == "language_unsupported"


@each([way for way in WAYS if way.by_name])
def test_a_voice_is_found_by_its_name_however_it_is_composed(doors, way):
    for name in (COMPOSED, APART, APART.upper(), f"  {COMPOSED} "):
        assert spoken(doors, way, Asked(voice=name))[3], name
    identity = doors.http.client.get("/v1/voices").json()["voices"][-1]["id"]
    assert spoken(doors, way, Asked(voice=identity))[3]
    assert not spoken(doors, way, Asked())[3]


@each(WAYS)
def test_a_voice_that_is_not_there_is_none(doors, way):
    for name in ("Nobody", "0123456789ab"):
        assert way.ask(doors, Asked(voice=name)) in ((404, "no_voice"), (0, "no_voice"))


@each(WAYS)
def test_a_text_is_neither_too_long_nor_empty(doors, way):
    """With characters of four bytes, or twelve bytes when escaped in JSON."""
    longest = way.longest * MAX_CHARACTERS
    with asked() as orders:
        assert way.ask(doors, Asked(text=longest))[1] == ""
        assert way.ask(doors, Asked(text=f"{longest}x"))[1] == "invalid_request"
        assert way.ask(doors, Asked(text=""))[1] == way.empty
    assert [ask.text for ask, _ in orders] == [longest]
