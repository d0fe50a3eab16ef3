"""Which pages and under which host names the service is asked: other sites stay out.

A browser sends requests for any page that is open in it, with the reader's network behind it: to
this machine, to the home network. Nobody typed those. So a page must be the service's own, or be
named in API_ALLOWED_ORIGINS. Pure.
"""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from api.errors import APIError

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
# What a browser says of the page that asks (https://www.w3.org/TR/fetch-metadata): its own, or
# nobody's, as when a person types the address.
_OWN_SITES = frozenset({"same-origin", "none"})


@dataclass(frozen=True)
class OriginRules:
    """Who may ask. origins: as browsers write them; hosts: names under which it answers without a
    key; speaks: whether a path speaks, so that asking for it costs something."""

    has_key: bool
    origins: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    speaks: Callable[[str], bool] = lambda _path: False


def refuse_origin(headers: Headers, method: str, path: str, rules: OriginRules) -> APIError | None:
    """403 for what a browser sends for a page of another site, and for what comes under a name that
    such a page may have pointed here."""
    host = headers.get("host", "")
    if _foreign(headers, method, path, host, rules):
        text = (
            "A page of another site may not ask for this. API_ALLOWED_ORIGINS in the service's "
            "settings names the pages that may."
        )
        return APIError(403, "foreign_origin", text)
    if not rules.has_key and not _private(host) and _name(host) not in rules.hosts:
        text = (
            "Without a key this is answered only under an address or a local name. To serve it "
            "under a name of your own, set API_KEY, or name the host in API_ALLOWED_HOSTS."
        )
        return APIError(403, "foreign_host", text)
    return None


def _foreign(headers: Headers, method: str, path: str, host: str, rules: OriginRules) -> bool:
    origin = headers.get("origin")
    if method not in _SAFE or "access-control-request-method" in headers:
        return bool(origin) and not _welcome(origin or "", host, rules)
    return method != "OPTIONS" and rules.speaks(path) and _foreign_reader(headers, host, rules)


def _foreign_reader(headers: Headers, host: str, rules: OriginRules) -> bool:
    """Of a GET that speaks: whether a page of another site has it in an <audio> or an <img>. Those
    send no Origin, may send no Referer, and browsers say the site only of addresses that are safe
    from being listened to; what is left is that they call themselves Mozilla."""
    if origin := headers.get("origin"):
        return not _welcome(origin, host, rules)
    site = headers.get("sec-fetch-site")
    if site in _OWN_SITES:
        return False
    if referer := headers.get("referer"):
        found = urlsplit(referer)
        return not _welcome(f"{found.scheme}://{found.netloc}", host, rules)
    if site == "same-site":
        # Pages such as SillyTavern's hide the Referer. A page of the same host is one of those.
        return _name(host) not in {_name(urlsplit(one).netloc) for one in rules.origins}
    browser = headers.get("user-agent", "").lower().startswith("mozilla/")
    return site is not None or (browser and not rules.has_key)


def _welcome(origin: str, host: str, rules: OriginRules) -> bool:
    """Whether this is the service's own page, or one that the settings name."""
    return urlsplit(origin).netloc.lower() == host.lower() or origin.lower() in rules.origins


def _private(host: str) -> bool:
    """Whether no public name leads here: a site that points its name at this machine would."""
    name = _name(host)
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return "." not in name or name.endswith((".localhost", ".local", ".internal"))
    return True


def _name(host: str) -> str:
    """The host's name without its port; what cannot be read as one stays as it is."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".").lower()
    except ValueError:
        return host.lower()
