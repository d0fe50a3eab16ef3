"""The settings that the service would refuse, as `doctor` checks them."""

import pytest

from extras.doctor.serving_preflight import refusals


@pytest.mark.parametrize("named", [True, False])
def test_a_wrong_setting_is_refused_and_a_right_one_is_not(tmp_path, monkeypatch, named):
    """In the `.env` that is named, or else the one in the working folder."""
    monkeypatch.chdir(tmp_path)
    dotenv = tmp_path / (".env.other" if named else ".env")
    given = (dotenv,) if named else ()
    dotenv.write_text("API_PORT=none\n")
    (told,) = refusals(*given)
    assert "API_PORT" in told and "none" in told
    dotenv.write_text("API_PORT=8006\n")
    assert refusals(*given) == []
