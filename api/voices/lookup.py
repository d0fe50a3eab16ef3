"""Which voice a client means: by id, by one of OpenAI's names, or by its own name. Pure."""

from collections import Counter
from collections.abc import Sequence

from api.errors import APIError
from api.validation_messages import shown
from api.voices.store import UploadedVoice

SERVED = "default"
# Names of OpenAI's voices: programs send one without asking. All of them are the served voice.
OPENAI_VOICES = (
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage",
    "shimmer", "verse",
)  # fmt: skip


def is_served(asked: str) -> bool:
    """Whether this means the served voice whatever else there is: `default`, or OpenAI's names."""
    return asked == SERVED or asked in OPENAI_VOICES


def means_served(name: str) -> bool:
    """Whether this means the served voice, however it is written."""
    return is_served(_plain(name))


def check_new_name(name: str) -> None:
    """Raises APIError (422) for a name that always means the served voice: programs send OpenAI's
    without asking, so a voice of that name could never be asked for by it."""
    if means_served(name):
        text = (
            f"{shown(name)} always means the served voice, as {', '.join((SERVED, *OPENAI_VOICES))}"
            " do. Choose another name."
        )
        raise APIError(422, "reserved_name", text, param="name")


def find_by_name(
    asked: str, served_name: str, uploaded: Sequence[UploadedVoice], param: str = "voice"
) -> UploadedVoice | None:
    """The voice of that name, in any case; None: the served one. A name may end in `.wav`, as
    clients write it that know voices as files. Raises APIError, which names `param`: 404 where
    there is none, 409 where there are several, 400 for a mixture of several."""
    for name in dict.fromkeys((_plain(asked), _plain(asked.removesuffix(".wav")))):
        found = [voice for voice in uploaded if _plain(voice.name) == name]
        if len(found) > 1:
            ids = ", ".join(voice.id for voice in found)
            text = f"{len(found)} voices are called {shown(asked)}; ask for one by its id: {ids}."
            raise APIError(409, "ambiguous_voice", text, param=param)
        if found:
            return found[0]
        if is_served(name) or name == _plain(served_name):
            return None
    if "+" in asked or "(" in asked:
        text = (
            f"{param} is {shown(asked)}, a mixture of voices. XTTS speaks with one voice: ask for "
            "one of /v1/voices."
        )
        raise APIError(400, "unsupported", text, param=param)
    text = "There is no voice of that id or name; /v1/voices lists them."
    raise APIError(404, "no_voice", text, param=param)


def labels(served_name: str, uploaded: Sequence[UploadedVoice]) -> dict[str, str]:
    """For lists of names only: label -> id, the served voice first. A label is a voice's name where
    that finds it again, else its id."""
    known = Counter(_plain(voice.name) for voice in uploaded)
    found = {SERVED if _plain(served_name) in known else served_name: SERVED}
    for voice in uploaded:
        name = _plain(voice.name)
        plain = known[name] == 1 and not is_served(name) and not name.endswith(".wav")
        found[voice.name if plain else voice.id] = voice.id
    return found


def _plain(name: str) -> str:
    return " ".join(name.casefold().split())
