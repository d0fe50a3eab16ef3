"""The running service, for an assistant's tools."""

import argparse
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from api.settings import ApiSettings
from machine.errors import SotaqueError
from machine.settings.loading import load

_MAX_STATUS_SECONDS, _MAX_SPEECH_SECONDS = 2.0, 600.0


class ServiceError(SotaqueError):
    """The service refused a request, or does not answer."""


@dataclass(frozen=True)
class Service:
    """A service by its URL, and its key or ""."""

    url: str
    key: str = ""

    @staticmethod
    def address_of(text: str) -> str:
        """An argument of --service as a URL without a slash at its end."""
        if urlsplit(text).scheme not in ("http", "https") or not urlsplit(text).hostname:
            raise argparse.ArgumentTypeError(f"{text!r} is no URL, such as http://localhost:8005")
        return text.rstrip("/")

    @classmethod
    def of_settings(cls, url: str | None) -> "Service":
        """The service at `url`, or that of API_HOST and API_PORT, with API_KEY."""
        settings, _ = load(ApiSettings)
        key = settings.api_key.get_secret_value() if settings.api_key else ""
        return cls(url or settings.url, key)

    @property
    def answers(self) -> bool:
        """Whether a service of Sotaque listens there."""
        try:
            return "ready" in json.loads(self.get("/status", _MAX_STATUS_SECONDS))
        except (ServiceError, ValueError):
            return False

    def get(self, path: str, limit_seconds: float = _MAX_STATUS_SECONDS) -> bytes:
        """The body of an answer. Raises ServiceError."""
        return self._send(urllib.request.Request(self.url + path), limit_seconds)

    def post(self, path: str, body: dict[str, Any]) -> bytes:
        """The body of the answer to a JSON body. Raises ServiceError."""
        data = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        return self._send(urllib.request.Request(self.url + path, data, headers), _MAX_SPEECH_SECONDS)

    def _send(self, request: urllib.request.Request, limit_seconds: float) -> bytes:
        if self.key:
            request.add_header("Authorization", f"Bearer {self.key}")
        try:
            with urllib.request.urlopen(request, timeout=limit_seconds) as response:
                body: bytes = response.read()
                return body
        except urllib.error.HTTPError as error:
            raise ServiceError(_detail(error)) from error
        except OSError as error:
            raise ServiceError(f"The service at {self.url} does not answer: {error}.") from error


def _detail(error: urllib.error.HTTPError) -> str:
    """The sentence of a refusal."""
    try:
        return str(json.loads(error.read())["detail"])
    except (ValueError, KeyError, TypeError, OSError):
        return f"The service answered {error.code} {error.reason}."
