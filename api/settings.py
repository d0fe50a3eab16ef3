"""Every setting of the service: name, default, bounds, description.

The string under a field is at once the comment in `.env.example`, the text of `--help` and the row
in `docs/settings.md`.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, SecretStr, model_validator
from pydantic.dataclasses import dataclass as settings_class

from machine.settings import loading as shared
from machine.settings.loading import SettingsReport
from machine.settings.types import CONFIG, Means, Names, PathOrWord, Port, Switch, Text
from xtts.voices.served_voice import ServedVoiceSettings

# As browsers write them (RFC 6454): without a path. `*` and `null` (any page without an origin)
# are refused.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s*?#@]+")
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


def _parse_origins(names: tuple[str, ...]) -> tuple[str, ...]:
    """The origins in lower case, as browsers send them. Raises ValueError."""
    origins = tuple(name.lower().rstrip("/") for name in names)
    if invalid := [name for name in origins if not _ORIGIN.fullmatch(name)]:
        raise ValueError(f"{invalid[0]} is not an origin")
    return origins


def _parse_hosts(names: tuple[str, ...]) -> tuple[str, ...]:
    """The host names in lower case, without the dot that ends a full name. Raises ValueError."""
    hosts = tuple(name.lower().rstrip(".") for name in names)
    if invalid := [name for name in hosts if not _HOST.fullmatch(name)]:
        raise ValueError(f"{invalid[0]} is not a host name")
    return hosts


@settings_class(frozen=True, kw_only=True, config=CONFIG)
class ApiSettings(ServedVoiceSettings):
    """The settings of the service."""

    api_host: Annotated[Text, Means("an address or host name to listen on")] = "127.0.0.1"
    """The address that the API listens on. 0.0.0.0 opens it to other machines, and needs an
    API_KEY. A container ignores it: docs/containers.md says how to open its port."""
    api_port: Port = 8005
    """The port that the API listens on, or the published port of its container."""
    api_key: Annotated[SecretStr | None, Means("any text; empty = no key", secret=True)] = None
    """The key that a caller sends as `Authorization: Bearer …`."""
    api_allow_no_key: Switch = False
    """Allows an API_HOST that other machines can reach without an API_KEY."""
    api_allowed_origins: Annotated[
        Names,
        AfterValidator(_parse_origins),
        Means("web origins such as https://chat.example:3000, separated by commas; no `*`"),
    ] = ()
    """Origins of the web pages that may call the API, as browsers send them. Empty allows only the
    service's own page."""
    api_allowed_hosts: Annotated[
        Names, AfterValidator(_parse_hosts), Means("host names such as nas.lan, separated by commas")
    ] = ()
    """Host names that the service answers to without an API_KEY, in addition to IP addresses and
    local names."""
    api_strict: Switch = False
    """Refuses unknown models, and fields of /v1/audio/speech that have no effect."""
    backend: Annotated[Literal["torch", "onnx"], Means("torch or onnx", words=True)] = "torch"
    """The library that computes speech. onnx exports a voice once, or takes a folder of
    `train export --onnx`."""
    low_memory: Switch = False
    """Uses less memory and more time: one or two parallel requests, and 8-bit weights on a CPU."""
    pronunciations: Annotated[PathOrWord | None, Means("a file; empty = none")] = None
    """A file of pronunciations, for every voice (docs/text.md)."""
    api_allow_training: Annotated[Literal["auto", "on", "off"], Means("auto, on or off", words=True)] = "auto"
    """Whether callers may start training and delete runs. auto allows it if API_HOST is an address
    of this machine only and API_KEY is empty; never in a container. off shows the command
    instead."""

    @property
    def url(self) -> str:
        """The address of the service for a browser on this machine."""
        host = self.api_host
        if is_loopback(host) or host in ("0.0.0.0", "::"):
            host = "localhost"
        return f"http://{f'[{host}]' if ':' in host else host}:{self.api_port}"

    @property
    def training_allowed(self) -> bool:
        """API_ALLOW_TRAINING, with `auto` resolved."""
        if self.api_allow_training == "auto":
            return self.api_key is None and is_loopback(self.api_host)
        return self.api_allow_training == "on"

    @model_validator(mode="after")
    def _key_beyond_this_machine(self) -> "ApiSettings":
        """Without a key, anyone who finds an open port can speak and clone voices."""
        if self.api_key is None and not self.api_allow_no_key and not is_loopback(self.api_host):
            raise ValueError(
                f"API_HOST is {self.api_host!r}, which other machines can reach, and API_KEY is "
                "empty. Set API_KEY, or API_ALLOW_NO_KEY=on if something else controls access."
            )
        return self

    @model_validator(mode="after")
    def _key_can_be_sent(self) -> "ApiSettings":
        """Clients encode non-ASCII characters in different ways, and browsers refuse them."""
        key = self.api_key.get_secret_value() if self.api_key else ""
        position = next((n for n, character in enumerate(key, 1) if not " " <= character <= "~"), None)
        if position is not None:
            raise ValueError(
                f"API_KEY has a character that not every client can send, at position {position} of "
                f"{len(key)}. Use printable ASCII only, such as the output of "
                "`openssl rand -hex 32`."
            )
        return self


def load(
    argv: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    dotenv_path: Path | None = Path(".env"),
) -> tuple[ApiSettings, SettingsReport]:
    """Returns the settings of the service and the source of each. Raises SettingsError."""
    return shared.load(ApiSettings, argv, environ, dotenv_path)


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
