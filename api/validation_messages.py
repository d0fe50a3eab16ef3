"""Turns pydantic's validation errors into sentences for whoever sent the request."""

from collections.abc import Mapping
from typing import Any

_LONGEST_SHOWN = 40
_KINDS = {
    "string": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
}


def sentence(fault: Mapping[str, Any], param: str | None) -> str:
    """fault: one of pydantic's `errors()`; param: the field, None for the body as a whole."""
    kind, found = str(fault["type"]), fault.get("ctx") or {}
    if param is None:
        return _of_body(kind, found)
    if kind in ("missing", "extra_forbidden", "string_unicode"):
        return f"{param} {_PLAIN[kind]}"
    if param == "voice" and kind in ("string_type", "model_attributes_type", "model_type"):
        return f'voice must be a text, or {{"id": "…"}}; it is {shown(fault.get("input"))}.'
    if kind == "string_too_short":
        return f"{param} is empty; at least {found['min_length']} character is needed."
    if kind == "string_too_long":
        length = len(str(fault.get("input", "")))
        return f"{param} has {length:,} characters; at most {found['max_length']:,} are taken."
    value = shown(fault.get("input"))
    if kind == "literal_error":
        return f"{param} is {value}; allowed are {found['expected']}."
    for bound, words in (("ge", "at least"), ("le", "at most")):
        if bound in found:
            return f"{param} is {value}; {words} {found[bound]:,} is allowed."
    if (wanted := _KINDS.get(kind.partition("_")[0])) is not None:
        return f"{param} must be {wanted}, and is {value}."
    said = str(fault["msg"]).rstrip(".")
    return f"{param}: {said}."


def _of_body(kind: str, found: Mapping[str, Any]) -> str:
    if kind == "json_invalid":
        why = str(found.get("error", "")).rstrip(".")
        return f"The body is no JSON: {why[:1].lower()}{why[1:]}."
    if kind == "missing":
        return "The request has no body."
    return 'The body must be a JSON object, such as {"input": "Good morning."}.'


_PLAIN = {
    "missing": "is missing.",
    "extra_forbidden": "is no field of this request. Leave it out.",
    "string_unicode": "is no Unicode text.",
}


def shown(value: Any) -> str:
    """A value as its writer knows it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"
