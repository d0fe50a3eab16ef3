"""A language that was added to the served voice, in the lists of other servers."""

from tests.api.conftest import running, settings_in


def test_it_is_listed(tmp_path):
    (tmp_path / "greek").mkdir()
    with running(settings_in(tmp_path, voice=str(tmp_path / "greek"))) as service:
        # By its code, since names are known of XTTS-v2's languages only.
        named = {"English": "en", "Portuguese": "pt", "el": "el"}
        assert service.client.get("/languages").json() == {"languages": named}
