"""A language added to the served voice, in the studio."""

from tests.api.conftest import running, settings_in
from tests.extras.studio.datasets.calls import Dataset


def test_recordings_may_be_in_it(tmp_path):
    (tmp_path / "greek").mkdir()
    with running(settings_in(tmp_path, voice=str(tmp_path / "greek"))) as service:
        assert Dataset(service, "Άννα", "el").id
