"""A language added to the served voice, in the language lists of other servers."""

from tests.api.conftest import running, settings_in


def test_it_is_listed(tmp_path):
    (tmp_path / "greek").mkdir()
    with running(settings_in(tmp_path, voice=str(tmp_path / "greek"))) as service:
        # Listed by its code: only the languages of XTTS-v2 have known names.
        named = {"English": "en", "Portuguese": "pt", "el": "el"}
        assert service.client.get("/languages").json() == {"languages": named}
