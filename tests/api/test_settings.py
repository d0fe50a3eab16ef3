"""The valid values of the service's settings, and the sentence for each refusal."""

import pytest

from api import settings
from machine.settings.loading import SettingsError, with_extras


def loaded(*given: str) -> settings.ApiSettings:
    return settings.load((), dict(line.split("=") for line in given), None)[0]


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "::", "nas.lan"])
def test_an_address_that_others_reach_wants_a_key(host):
    with pytest.raises(SettingsError, match="Set API_KEY, or API_ALLOW_NO_KEY=on"):
        loaded(f"API_HOST={host}")
    assert loaded(f"API_HOST={host}", "API_KEY=secret").api_host == host
    assert loaded(f"API_HOST={host}", "API_ALLOW_NO_KEY=on").api_key is None


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST"])
def test_this_machine_alone_needs_none(host):
    assert loaded(f"API_HOST={host}").api_key is None


def test_origins_and_hosts_are_lists_as_browsers_write_them():
    given = {
        "API_ALLOWED_ORIGINS": " HTTP://Localhost:3000/ ,chrome-extension://abc, ",
        "API_ALLOWED_HOSTS": "NAS.lan.,pi-4",
    }
    loaded_settings, report = settings.load([], given, None)
    assert loaded_settings.api_allowed_origins == ("http://localhost:3000", "chrome-extension://abc")
    assert loaded_settings.api_allowed_hosts == ("nas.lan", "pi-4")
    assert ("API_ALLOWED_HOSTS", "nas.lan,pi-4", "environment") in report.rows
    assert loaded("API_ALLOWED_ORIGINS=") == with_extras(settings.ApiSettings)()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ORIGINS", "*"),
        ("ORIGINS", "null"),
        ("ORIGINS", "localhost:3000"),
        ("ORIGINS", "https://*.example"),
        ("ORIGINS", "https://a.example/page"),
        ("ORIGINS", "http://user@a.example"),
        ("HOSTS", "*"),
        ("HOSTS", "http://nas.lan"),
        ("HOSTS", "nas.lan:8005"),
        ("HOSTS", "a..b"),
    ],
)
def test_what_is_no_origin_or_host_name_is_refused_by_name(name, value):
    with pytest.raises(SettingsError, match=f"API_ALLOWED_{name} is .*; allowed: ") as caught:
        loaded(f"API_ALLOWED_{name}={value}")
    assert value in str(caught.value)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://localhost:9000"),
        ("0.0.0.0", "http://localhost:9000"),
        ("::", "http://localhost:9000"),
        ("192.168.1.7", "http://192.168.1.7:9000"),
        ("fd00::7", "http://[fd00::7]:9000"),
        ("nas.lan", "http://nas.lan:9000"),
    ],
)
def test_where_a_browser_finds_it(host, url):
    given = {"API_HOST": host, "API_PORT": "9000", "API_KEY": "k"}
    assert settings.load((), given, None)[0].url == url
