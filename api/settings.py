"""Every setting of the service: name, default, bounds, description.

The string under a field is at once the comment in `.env.example`, the text of `--help` and the row
in `docs/settings.md`.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import SecretStr, model_validator
from pydantic.dataclasses import dataclass as settings_class

from machine.settings import loading as shared
from machine.settings.loading import SettingsReport, SharedSettings
from machine.settings.types import (
    CONFIG,
    AutoCount,
    Count,
    Folder,
    Means,
    Place,
    Port,
    Positive,
    Switch,
    Text,
)


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
    api_slots: AutoCount = None
    """How many requests speak at once. auto is 4 on a CPU, 16 on a GPU."""
    api_queue: Count = 32
    """How many more may wait. Further ones are asked to come back later (503)."""
    api_deadline_seconds: Count = 30
    """How long a request may wait for its turn. One that cannot be in time is refused at once."""
    api_requests_per_minute: Annotated[
        Positive | None, Means("a whole number from 1, or off", none="off")
    ] = 600
    """How much one key, or one address, may ask to be spoken (429 beyond that)."""

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
