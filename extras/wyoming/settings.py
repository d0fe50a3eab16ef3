"""The settings of Wyoming."""

from typing import Annotated

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass as settings_class

from api.settings import ApiSettings, is_loopback
from machine.settings.types import CONFIG, Means, Switch


@settings_class(frozen=True, kw_only=True, config=CONFIG)
class WyomingSettings(ApiSettings):
    """Its port, and whether it is announced."""

    wyoming_port: Annotated[
        Annotated[int, Field(ge=1, le=65535)] | None, Means("a port from 1 to 65535, or off", none="off")
    ] = None
    """The port of the Wyoming protocol, for Home Assistant, on API_HOST; Home Assistant expects
    10200. Wyoming has no keys: everyone who reaches this port can use the service."""
    wyoming_announce: Switch = False
    """Announces WYOMING_PORT on the local network (mDNS), so that Home Assistant finds it."""

    @model_validator(mode="after")
    def _wyoming_has_no_keys(self) -> "WyomingSettings":
        """API_KEY protects API_PORT only."""
        if self.wyoming_port is None:
            if self.wyoming_announce:
                raise ValueError("WYOMING_ANNOUNCE is on and WYOMING_PORT is off. Set both.")
            return self
        if self.wyoming_port == self.api_port:
            raise ValueError(f"WYOMING_PORT and API_PORT are both {self.api_port}. Set one to another port.")
        here = is_loopback(self.api_host)
        if not here and not self.api_allow_no_key:
            raise ValueError(
                f"API_HOST is {self.api_host!r}, which other machines can reach, and Wyoming has "
                "no keys: everyone who reaches WYOMING_PORT can use the service. Set "
                "API_ALLOW_NO_KEY=on if something else controls access, or WYOMING_PORT=off."
            )
        if here and self.wyoming_announce:
            raise ValueError(
                f"WYOMING_ANNOUNCE is on, but no other machine can reach API_HOST="
                f"{self.api_host!r}. Set API_HOST=0.0.0.0 or WYOMING_ANNOUNCE=off."
            )
        return self


SETTINGS = (WyomingSettings,)
