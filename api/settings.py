"""Every setting of the service: name, default, bounds, description.

The string under a field is at once the comment in `.env.example`, the text of `--help` and the row
in `docs/settings.md`.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, model_validator
from pydantic.dataclasses import dataclass as settings_class

from machine.settings import loading as shared
from machine.settings.loading import SettingsReport, SharedSettings
from machine.settings.types import (
    CONFIG,
    AutoCount,
    Count,
    Folder,
    Means,
    Names,
    Place,
    Port,
    Positive,
    Switch,
    Text,
)

# As browsers write them (RFC 6454): no path, no `*`; `null` is every page without an origin.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s*?#@]+")
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


def _origins(names: tuple[str, ...]) -> tuple[str, ...]:
    """In lower case, as browsers send them."""
    found = tuple(name.lower().rstrip("/") for name in names)
    if wrong := [name for name in found if not _ORIGIN.fullmatch(name)]:
        raise ValueError(f"{wrong[0]} is no origin")
    return found


def _hosts(names: tuple[str, ...]) -> tuple[str, ...]:
    """In lower case, without the dot that ends a full name."""
    found = tuple(name.lower().rstrip(".") for name in names)
    if wrong := [name for name in found if not _HOST.fullmatch(name)]:
        raise ValueError(f"{wrong[0]} is no host name")
    return found


@settings_class(frozen=True, kw_only=True, config=CONFIG)
class ApiSettings(SharedSettings):
    """What the service is made of."""

    api_host: Annotated[Text, Means("an address or host name to listen on")] = "127.0.0.1"
    """Where the API listens. 0.0.0.0 is every network of the machine."""
    api_port: Port = 8005
    """The API's port."""
    api_key: Annotated[SecretStr | None, Means("any text; empty = no key", secret=True)] = None
    """What a caller sends as `Authorization: Bearer …`."""
    api_allow_no_key: Switch = False
    """Allows an API_HOST beyond this machine without an API_KEY."""
    api_allowed_origins: Annotated[
        Names,
        AfterValidator(_origins),
        Means("web origins such as https://chat.example:3000, separated by commas; no `*`"),
    ] = ()
    """Web pages that may ask this service, exactly as browsers name them. Empty: only its own."""
    api_allowed_hosts: Annotated[
        Names, AfterValidator(_hosts), Means("host names such as nas.lan, separated by commas")
    ] = ()
    """Names under which it answers without an API_KEY, beside addresses and local names."""
    api_strict: Switch = False
    """Refuses fields of /v1/audio/speech that change nothing, and unknown models."""
    wyoming_port: Annotated[
        Annotated[int, Field(ge=1, le=65535)] | None,
        Means("a port from 1 to 65535, or off", none="off"),
    ] = None
    """Where it speaks Wyoming for Home Assistant, whose programs expect 10200; on API_HOST. Wyoming
    knows no keys: whoever reaches this port may speak."""
    wyoming_announce: Switch = False
    """Announces WYOMING_PORT in the local network (mDNS), so that Home Assistant finds it."""
    voice: Annotated[Place | None, Means("latest, best, a bundle or a checkpoint")] = None
    """The voice that speaks. Empty is the best of OUTPUT_DIR where it has an evaluation (the base
    may be), else its latest epoch, else the demo voice."""
    backend: Annotated[Literal["torch", "onnx"], Means("torch or onnx", words=True)] = "torch"
    """What computes. onnx exports a voice once, or takes a folder of `train export --onnx`."""
    low_memory: Switch = False
    """Takes less memory and more time: one or two speak at once, in 8-bit weights on a CPU."""
    pronunciations: Annotated[Place | None, Means("a file; empty = none")] = None
    """A list of how words are said, for every voice (docs/text.md)."""
    voices_dir: Folder = Path("voices")
    """Where uploaded voices and the promoted epoch are kept. Replicas share it."""
    datasets_dir: Folder = Path("datasets")
    """Where uploaded recordings and the datasets cut of them are kept. Replicas share it."""
    datasets_max_gb: Count = 20
    """How many GB datasets may take together, recordings included. 1 GB of the disk stays free."""
    datasets_host_path: Annotated[Place | None, Means("a path; empty = DATASETS_DIR")] = None
    """What DATASETS_DIR is called outside a container, in the line that starts a training."""
    cut_recogniser: Annotated[Place | None, Means("a folder; empty = none")] = None
    """A Whisper model that writes the transcripts of uploaded recordings that have no text; on this
    machine, as `train cut --recogniser` takes it (docs/cutting.md)."""
    api_slots: AutoCount = None
    """How many requests speak at once. auto is 4 on a CPU, on a GPU up to 16, by its memory."""
    api_queue: Count = 32
    """How many more may wait. Further ones are asked to come back later (503), but for callers that
    have less than an equal share of the places."""
    api_deadline_seconds: Count = 30
    """How long a request may wait for its turn. One that cannot be in time is refused at once."""
    api_requests_per_minute: Annotated[
        Positive | None, Means("a whole number from 1, or off", none="off")
    ] = 600
    """How much one address may ask to be spoken (429 beyond that). 250 characters begun of a text
    count as one request."""

    @model_validator(mode="after")
    def _key_beyond_this_machine(self) -> "ApiSettings":
        """An open port without a key speaks for, and clones for, whoever finds it."""
        if self.api_key is None and not self.api_allow_no_key and not _loopback(self.api_host):
            raise ValueError(
                f"API_HOST is {self.api_host!r}, which other machines can reach, and API_KEY is "
                "empty; set API_KEY, or API_ALLOW_NO_KEY=on where something else keeps them out."
            )
        return self

    @model_validator(mode="after")
    def _wyoming_has_no_keys(self) -> "ApiSettings":
        """An API_KEY protects the other port only."""
        if self.wyoming_port is None:
            if self.wyoming_announce:
                raise ValueError("WYOMING_ANNOUNCE is on and WYOMING_PORT is off; set both.")
            return self
        if self.wyoming_port == self.api_port:
            raise ValueError(
                f"WYOMING_PORT and API_PORT are both {self.api_port}; set one to another port."
            )
        here = _loopback(self.api_host)
        if not here and not self.api_allow_no_key:
            raise ValueError(
                f"API_HOST is {self.api_host!r}, which other machines can reach, and Wyoming knows "
                "no keys: whoever reaches WYOMING_PORT may speak. Set API_ALLOW_NO_KEY=on where "
                "something else keeps strangers out, or WYOMING_PORT=off."
            )
        if here and self.wyoming_announce:
            raise ValueError(
                f"API_HOST is {self.api_host!r}, which no other machine can reach; set it to "
                "0.0.0.0 to be found by WYOMING_ANNOUNCE, or that to off."
            )
        return self

    @model_validator(mode="after")
    def _key_can_be_sent(self) -> "ApiSettings":
        """Clients encode what is not ASCII in different ways, and browsers refuse to send it."""
        key = self.api_key.get_secret_value() if self.api_key else ""
        wrong = next((at for at, sign in enumerate(key, 1) if not " " <= sign <= "~"), None)
        if wrong is not None:
            raise ValueError(
                f"API_KEY has a character that not every client can send, at place {wrong} of "
                f"{len(key)}; use letters, digits and signs of ASCII only, such as what "
                "`openssl rand -hex 32` prints."
            )
        return self


def load(
    argv: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    dotenv_path: Path | None = Path(".env"),
) -> tuple[ApiSettings, SettingsReport]:
    """The settings of the service, and where each came from. Raises SettingsError."""
    return shared.load(ApiSettings, argv, environ, dotenv_path)


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
