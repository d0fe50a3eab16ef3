"""A served voice with `speakers/`: clients of other servers reach each person and style."""

from collections.abc import Callable, Iterator

import pytest

from tests.api.conftest import Running, running, settings_in
from tests.api.heard import samples
from tests.api.named_speakers import LIMITS, NAMES, TEXT, own_sounds, voice_in
from tests.extras.dialects import test_clients as clients
from tests.extras.dialects.test_clients import Talk

CLIENTS: dict[str, Callable[[Talk], bytes]] = {
    "SillyTavern, XTTS": clients.sillytavern_xtts,
    "SillyTavern, XTTS, streaming": clients.sillytavern_xtts_streaming,
    "SillyTavern, AllTalk": clients.sillytavern_alltalk,
    "SillyTavern, AllTalk, streaming": clients.sillytavern_alltalk_streaming,
    "xtts-api-server": clients.xtts_api_server_curl,
}


@pytest.fixture(scope="module")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("named")
    settings = settings_in(folder, voice=voice_in(folder))
    with running(settings, limits=LIMITS, threads=1) as found:
        yield found


@pytest.fixture(scope="module")
def own(speaking: Running) -> dict[str, set[bytes]]:
    assert clients.TEXT == TEXT
    return own_sounds(speaking)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_hears_the_speaker_and_the_style_it_asked_for(speaking, own, client, name):
    """It finds the voice in its list by name."""
    assert samples(CLIENTS[client](Talk(speaking.client, name, name))) in own[name]
