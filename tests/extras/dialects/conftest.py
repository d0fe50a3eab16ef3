"""One service per module, with a fake child and two uploaded voices."""

from collections.abc import Iterator

import pytest

from tests.api.conftest import Running, running, settings_in
from tests.api.sounds import file_of, speech, upload


@pytest.fixture(scope="module")
def dialect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Ready, with the voices Anna and Élodie in addition to the served one."""
    with running(settings_in(tmp_path_factory.mktemp("dialect"))) as found:
        for name in ("Anna", "Élodie"):
            assert upload(found, file_of(speech()), name=name).status_code == 201
        yield found


@pytest.fixture(scope="module")
def anna(dialect: Running) -> str:
    """The id of Anna's voice."""
    voices = dialect.client.get("/v1/voices").json()["voices"]
    return str(next(voice["id"] for voice in voices if voice["name"] == "Anna"))
