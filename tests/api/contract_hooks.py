"""Hooks of schemathesis, in its own process: existing runs and voices, and valid recordings.

Random names and ids lead to a 404, and random bytes are not a recording: without the hooks a third
of the operations would only ever refuse. Every second case gets existing values; the others stay as
drawn. Every call is logged, so the test sees which operations succeeded.
"""

import json
import os
import random
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import schemathesis
from hypothesis import strategies as st
from schemathesis.core.parameters import ParameterLocation

from tests.api.sounds import file_of, made, speech
from xtts.encoding import MEDIA_TYPES

# The log of calls: lines of operation, status and media type.
NOTES = Path(os.environ["CONTRACT_NOTES"])
EXISTING: dict[str, list[Any]] = {
    "run_id": ["current"],
    "epoch": [1, 2],
    "which": ["output", "reference"],
    "number": [0, 1],
    "candidate": ["base", "epoch_1", "epoch_2"],
    "model": ["sotaque", "tts-1", "tts-1-hd-1106"],
}
# Values of open fields in the schema that the fake voice accepts.
SPOKEN: dict[str, list[Any]] = {
    "language": ["en", "pt"],
    "lang_code": ["a", "p"],
    "language_id": ["en", "pt"],
    "voice": ["default"],
    "speaker_wav": ["default"],
    "speaker_id": ["default"],
    "character_voice_gen": ["default"],
    "text": ["Hello there."],
    "input": ["Hello there."],
    "text_input": ["Hello there."],
    "response_format": list(MEDIA_TYPES),
    "output_format": ["mp3_44100_128", "pcm_16000", "wav_24000"],
}
FILES_OF_THE_SERVER = ("speaker_wav", "style_wav")
RANGES = ("bytes=0-9", "bytes=-5", "bytes=100-", "bytes=0-1,4-5", "bytes=999999999-", "bytes=x")
RECORDINGS = {
    "audio/wav": file_of(speech(1.2)),
    "audio/flac": file_of(speech(1.2), format="FLAC"),
    "audio/ogg": file_of(speech(1.2), format="OGG"),
    "audio/mpeg": file_of(speech(1.2), format="MP3"),
    "audio/mp4": made("m4a", speech(1.2, 48_000)),
    "audio/aac": made("aac", speech(1.2, 48_000)),
    "audio/webm": made("webm", speech(1.2, 48_000)),
}
# Datasets for cutting.
TAPE = "tape"
NUM_BYTES = 64
_datasets: list[dict[str, str]] = []
# Datasets for reading aloud.
_read: list[str] = []
_OPEN = ("queued", "running")
_PROMPTS = "First. Second. Third. Fourth. Fifth."
# Books for reading.
_books: list[str] = []
_BOOK = b"Chapter 1\n\nThe ship left the port.\n"
_turns = Counter[str]()
_voices: list[str] = []
_trainings: list[str] = []
_sounds: list[str] = []


def _hurt(data: bytes, seed: int) -> bytes:
    """A recording as received over a bad line: truncated, or with some bytes changed."""
    drawn = random.Random(seed)
    if seed % 2:
        return data[: drawn.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(drawn.randrange(1, 20)):
        changed[drawn.randrange(len(changed))] = drawn.randrange(256)
    return bytes(changed)


for _media_type, _data in RECORDINGS.items():
    schemathesis.openapi.media_type(
        _media_type,
        st.one_of(
            st.just(_data),
            st.integers(0, 9_999).map(lambda seed, data=_data: _hurt(data, seed)),
            st.binary(max_size=100),
        ),
    )


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Puts existing values into every second valid part of a request.

    schemathesis judges the request again afterwards, so parts it considers invalid stay unchanged.
    """
    label = case.operation.label
    turn = _turns[label]
    _turns[label] += 1
    _send_as_files(case, turn)
    if turn % 2 or case.meta is None or case.meta.phase.name.value == "stateful":
        return
    drawn = random.Random(turn)
    if "{name}" in label and turn % 100 == 0:
        _speak(case.operation.base_url)
    _name_what_exists(case, label, turn, drawn)
    if not case.meta.is_negative_at(ParameterLocation.QUERY) and case.query:
        case.query = _spoken(case.query, label, drawn, case.operation.base_url)
    if label == "PUT /v1/datasets/{dataset}/text" and turn % 4 == 0:
        case.query, case.body = {"kind": "txt"}, b"Hello there."
    is_form = case.media_type == "multipart/form-data"
    is_valid = not case.meta.is_negative_at(ParameterLocation.BODY)
    if is_valid and isinstance(case.body, dict) and not is_form:
        case.body = _spoken(case.body, label, drawn, case.operation.base_url)
        if label == "POST /v1/datasets/{dataset}/recordings" and turn % 4 == 0:
            case.body = {"name": f"take-{turn}.wav", "bytes": NUM_BYTES}
        if label.startswith("POST /v1/trainings"):
            case.body = _wanted_training(case.operation.base_url, label)
    if label.endswith((".wav", ".csv", "/files/{file}")) and turn % 4 == 0:
        case.headers = {**(case.headers or {}), "Range": drawn.choice(RANGES)}


def _name_what_exists(case: Any, label: str, turn: int, drawn: random.Random) -> None:
    """Puts existing names into the path and creates them if necessary."""
    if "{dataset}" in label:
        _meet_a_dataset(case, turn, drawn)
    elif "{book}" in label:
        _meet_a_book(case, label, turn)
    elif not case.meta.is_negative_at(ParameterLocation.PATH) and case.path_parameters:
        case.path_parameters = {
            name: _existing(name, value, drawn) for name, value in case.path_parameters.items()
        }
    if "/text-to-speech/" in label and not case.meta.is_negative_at(ParameterLocation.PATH):
        case.path_parameters = {"voice_id": "default"}
    if label == "POST /v1/books" and not case.meta.is_negative_at(ParameterLocation.QUERY):
        case.query, case.body = {**(case.query or {}), "name": "Book.txt"}, _BOOK


def _wanted_training(address: str, label: str) -> dict[str, Any]:
    """A training on an existing dataset; full queues are not a fault."""
    if not _datasets:
        _cut_a_dataset(address)
    body = {"dataset": _datasets[-1]["dataset"], "settings": {}}
    return body if label.endswith("/check") else {**body, "run": "ana"}


def _send_as_files(case: Any, turn: int) -> None:
    """Sends a recording as a file, or as the second of two.

    schemathesis does not treat a recording for a field of several files as a list, and would send
    it as text.
    """
    body = case.body
    if isinstance(body, dict) and isinstance(recording := body.get("file"), bytes):
        # A method that does not exist may send no more than a request without files.
        several = turn % 3 == 0 and case.method == case.operation.method.upper()
        first = [RECORDINGS["audio/wav"]] if several else []
        case.body = {**body, "file": [*first, recording]}


def _speak(address: str) -> None:
    """Creates a sound for AllTalk's clients; the service deletes it after ten minutes."""
    spoken = httpx.post(f"{address.rstrip('/')}/api/tts-generate", data={"text_input": "Hello."})
    _sounds.append(spoken.json()["output_file_path"])


def _meet_a_dataset(case: Any, turn: int, drawn: random.Random) -> None:
    label, address = case.operation.label, case.operation.base_url
    if "/prompts" in label:
        _read_aloud(case, turn, drawn)
        return
    # Random recordings cannot be cut, so /cut gets a new dataset.
    if not _datasets or turn % 100 == 0 or (label.endswith("/cut") and turn % 20 == 0):
        _cut_a_dataset(address)
    if case.meta.is_negative_at(ParameterLocation.PATH):
        return
    values = _of_a_dataset(label, drawn)
    case.path_parameters = {**case.path_parameters, **values}


def _meet_a_book(case: Any, label: str, turn: int) -> None:
    if not _books or turn % 100 == 0:
        _books.append(_read_a_book(case.operation.base_url))
    if case.meta.is_negative_at(ParameterLocation.PATH):
        return
    values = {"book": _books[-1], "file": "01 One.mp3", "take": _take(case.operation.base_url)}
    case.path_parameters = {
        **case.path_parameters,
        **{name: values[name] for name in values if f"{{{name}}}" in label},
    }


def _take(address: str) -> str:
    """The key of the newest book's first sentence."""
    told = httpx.get(f"{address.rstrip('/')}/v1/books/{_books[-1]}").raise_for_status().json()
    return str(told["plan"]["samples"][0]["key"])


def _read_a_book(address: str) -> str:
    with httpx.Client(base_url=address, timeout=60) as client:
        answer = client.post("/v1/books", params={"name": "Book.txt"}, content=_BOOK)
        if answer.status_code == 409:  # a thousand examples have reached the limit
            for book in client.get("/v1/books").json()["books"]:
                client.delete(f"/v1/books/{book['id']}").raise_for_status()
            answer = client.post("/v1/books", params={"name": "Book.txt"}, content=_BOOK)
        made = str(answer.raise_for_status().json()["id"])
        # Earlier uploads are planned first.
        for book in client.get("/v1/books").json()["books"]:
            if book["id"] != made:
                client.delete(f"/v1/books/{book['id']}/reading").raise_for_status()
        for asked in (None, {"formats": ["mp3"]}):
            if asked is not None:
                client.post(f"/v1/books/{made}/reading", json=asked).raise_for_status()
            while client.get(f"/v1/books/{made}").json()["reading"]["state"] in _OPEN:
                time.sleep(0.1)
    return made


def _read_aloud(case: Any, turn: int, drawn: random.Random) -> None:
    """Uses a sentence of a dataset, and gives a DELETE something to delete.

    Only a dataset without takes accepts sentences.
    """
    label, address = case.operation.label, case.operation.base_url
    with httpx.Client(base_url=address, timeout=60) as client:
        if not _read or turn % 50 == 0 or label == "PUT /v1/datasets/{dataset}/prompts":
            _read[:] = [_made_dataset(client)]
            body = {"text": _PROMPTS}
            client.put(f"/v1/datasets/{_read[0]}/prompts", json=body).raise_for_status()
        if case.meta.is_negative_at(ParameterLocation.PATH):
            return
        values: dict[str, Any] = {"dataset": _read[0], "number": drawn.randint(1, 5)}
        if label.startswith("DELETE"):
            client.post(f"/v1/datasets/{_read[0]}/prompts/{values['number']}/skip")
        elif label.endswith("/skip"):
            client.delete(f"/v1/datasets/{_read[0]}/prompts/{values['number']}/take")
    case.path_parameters = {
        **case.path_parameters,
        **{name: values[name] for name in values if f"{{{name}}}" in label},
    }


def _cut_a_dataset(address: str) -> None:
    with httpx.Client(base_url=address, timeout=60) as client:
        made = _made_dataset(client)
        place = f"/v1/datasets/{made}"
        client.post(
            f"{place}/recordings", params={"name": f"{TAPE}.wav"}, content=bytes(NUM_BYTES)
        ).raise_for_status()
        client.post(f"{place}/cut").raise_for_status()
        while client.get(place).json()["cut"]["state"] in ("queued", "running"):
            time.sleep(0.1)
        clips = client.get(f"{place}/clips").json()["clips"]
    _datasets.append({"dataset": made, "clip": clips[0]["name"]})


def _made_dataset(client: httpx.Client) -> str:
    """A new dataset. At the limit, after a thousand examples, the old ones are deleted first."""
    body = {"name": "Tape", "language": "en"}
    answer = client.post("/v1/datasets", json=body)
    if answer.status_code == 409:
        for dataset in client.get("/v1/datasets").json()["datasets"]:
            client.delete(f"/v1/datasets/{dataset['id']}").raise_for_status()
        _datasets.clear()
        _read.clear()
        answer = client.post("/v1/datasets", json=body)
    return str(answer.raise_for_status().json()["id"])


def _of_a_dataset(label: str, drawn: random.Random) -> dict[str, str]:
    """Existing values for the parameters of the operation's path."""
    dataset = _datasets[-1] if label.endswith("/cut") else drawn.choice(_datasets[-3:])
    values = {**dataset, "recording": TAPE}
    return {name: value for name, value in values.items() if f"{{{name}}}" in label}


def _existing(name: str, value: Any, drawn: random.Random) -> Any:
    values = {"voice_id": _voices[-5:], "name": _sounds[-5:], "training": _trainings[-5:], **EXISTING}.get(
        name
    )
    return drawn.choice(values) if values else value


def _spoken(fields: dict[str, Any], label: str, drawn: random.Random, address: str) -> dict[str, Any]:
    """The fields with values that the voice accepts; files stay as drawn."""
    values = {
        name: drawn.choice(SPOKEN[name]) if name in SPOKEN and value is not None else value
        for name, value in fields.items()
    }
    if label.endswith("/api/tts"):
        values = {name: value for name, value in values.items() if name not in FILES_OF_THE_SERVER}
        values["text"] = "Hello there."
    if "speaker_embedding" in fields:
        values.update(_handle(address))
    if label.endswith("/speech"):  # each format occurs, also if the field is left out
        values["response_format"] = drawn.choice(SPOKEN["response_format"])
    return values


@cache
def _handle(address: str) -> dict[str, Any]:
    """The served voice in the form that Coqui's streaming server gives to clients."""
    told = httpx.get(f"{address.rstrip('/')}/studio_speakers").raise_for_status().json()
    return dict(told["default"])


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Logs the call, and remembers the objects it created or deleted."""
    label, status = case.operation.label, response.status_code
    media_type = response.headers.get("content-type", [""])[0].partition(";")[0]
    with NOTES.open("a", encoding="utf-8") as file:
        file.write(json.dumps([label, status, media_type]) + "\n")
    if label == "POST /v1/voices" and status == 201:
        _voices.append(response.json()["id"])
    elif label == "POST /v1/trainings" and status == 201:
        _trainings.append(response.json()["id"])
    elif label == "DELETE /v1/datasets/{dataset}" and status == 204:
        gone = case.path_parameters["dataset"]
        _datasets[:] = [dataset for dataset in _datasets if dataset["dataset"] != gone]
    elif label == "DELETE /v1/books/{book}" and status == 204:
        gone = case.path_parameters["book"]
        _books[:] = [book for book in _books if book != gone]
    elif label == "DELETE /v1/voices/{voice_id}" and status == 204:
        gone = case.path_parameters["voice_id"]
        _voices[:] = [voice for voice in _voices if voice != gone]
