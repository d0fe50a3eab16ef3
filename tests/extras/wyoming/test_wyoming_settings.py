"""The settings of Wyoming: valid values, and the message for invalid ones."""

import pytest

from api import settings
from extras.wyoming.settings import WyomingSettings
from machine.settings.loading import SettingsError


def loaded(*given: str) -> WyomingSettings:
    found, _ = settings.load((), dict(pair.split("=") for pair in given), None)
    assert isinstance(found, WyomingSettings)
    return found


def test_wyoming_is_off_where_nothing_is_said_and_on_without_keys_where_that_is_allowed():
    assert loaded().wyoming_port is None and loaded("WYOMING_PORT=off").wyoming_port is None
    assert loaded("WYOMING_PORT=10200").wyoming_port == 10200
    found = loaded(
        "WYOMING_PORT=10200", "API_HOST=0.0.0.0", "API_KEY=x", "API_ALLOW_NO_KEY=on", "WYOMING_ANNOUNCE=on"
    )
    assert (found.wyoming_port, found.wyoming_announce) == (10200, True)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("WYOMING_PORT=10200", "API_HOST=0.0.0.0", "API_KEY=secret"), "Wyoming has no keys"),
        (("WYOMING_PORT=10200", "API_HOST=192.168.1.2", "API_KEY=secret"), "API_ALLOW_NO_KEY=on"),
        (("WYOMING_PORT=8005",), "both 8005"),
        (("WYOMING_PORT=0",), "WYOMING_PORT"),
        (("WYOMING_ANNOUNCE=on",), "WYOMING_PORT is off"),
        (("WYOMING_PORT=10200", "WYOMING_ANNOUNCE=on"), "no other machine can reach"),
    ],
)
def test_a_port_of_wyoming_that_is_refused(given, told):
    with pytest.raises(SettingsError, match=told):
        loaded(*given)
