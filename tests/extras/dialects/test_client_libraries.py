"""Pipecat, a client of Coqui's streaming server, in a separate environment."""

import pytest

from tests.api.conftest import running, settings_in
from tests.api.test_client_libraries import LIMITS, ClientLibrary, hears_all_of_it

pytestmark = pytest.mark.system
LIBRARY = ClientLibrary(
    "pipecat_services.py",
    ("pipecat-ai==1.14.0",),
    "openai.pcm xtts.pcm",
    "`OpenAITTSService` and `XTTSService`, in a pipeline",
)


def test_the_library_hears_all_of_it(tmp_path):
    settings = settings_in(tmp_path / "service")
    with running(settings, limits=LIMITS, threads=1) as service:
        hears_all_of_it(LIBRARY, service, 0, tmp_path)
