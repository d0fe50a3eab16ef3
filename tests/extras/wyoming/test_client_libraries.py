"""Wyoming's client library, in a separate environment, with the embedded voice."""

import pytest

from tests.api.test_client_libraries import LIMITS, ClientLibrary, hears_all_of_it
from tests.extras.wyoming.conftest import both

pytestmark = pytest.mark.system
LIBRARY = ClientLibrary(
    "wyoming_client.py",
    ("wyoming==1.10.2",),
    "whole_0.wav streamed_0.wav",
    "`describe`, `synthesize`, and streamed text, as Home Assistant asks",
)


def test_the_library_hears_all_of_it(tmp_path):
    with both(tmp_path / "service", limits=LIMITS, threads=1) as ports:
        hears_all_of_it(LIBRARY, ports.http, ports.port, tmp_path)
