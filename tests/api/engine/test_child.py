"""Answers of the speaking process: valid ones are returned, anything else is an error."""

import asyncio
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.engine.child import answers_of
from machine.process import write_json_line

VALUES = st.one_of(st.integers(), st.text(), st.none())
HEADERS = st.dictionaries(st.text().filter(lambda name: name != "bytes"), VALUES)


def answers(data: bytes) -> list[tuple[dict[str, Any], bytes]]:
    async def read() -> list[tuple[dict[str, Any], bytes]]:
        stdout = asyncio.StreamReader()
        stdout.feed_data(data)
        stdout.feed_eof()
        return [answer async for answer in answers_of(stdout)]

    return asyncio.run(read())


@given(HEADERS, st.binary())
def test_an_answer_comes_out_as_it_went_in(header, sound):
    pipe = io.BytesIO()
    for _ in range(2):
        write_json_line(pipe, header, sound)
    told = {**header, "bytes": len(sound)} if sound else header
    assert answers(pipe.getvalue()) == [(told, sound)] * 2
    assert answers(pipe.getvalue()[:-1]) == [(told, sound)]  # truncated answer


@given(st.binary(max_size=60))
def test_what_is_no_answer_is_an_error_or_an_end(data):
    try:
        read = answers(data)
    except (ValueError, TypeError, AttributeError):
        return
    assert all(isinstance(header, dict) for header, _ in read)


@pytest.mark.parametrize("size", [-1, 1 << 40, "4", None, 1.5])
def test_a_size_that_no_sound_has_is_an_error(size):
    with pytest.raises((ValueError, TypeError)):
        answers(json.dumps({"say": "sound", "bytes": size}).encode() + b"\n1234")
