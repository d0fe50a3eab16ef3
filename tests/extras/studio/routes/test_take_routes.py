"""/v1/datasets/{id}/prompts for a client: read, check, keep, skip and refusals."""

from typing import Any

import numpy as np
import pytest

from extras.studio.routes.take_routes import advise_on_length
from tests.api.conftest import running, settings_in
from tests.api.heard import refused
from tests.api.sounds import file_of, made, speech
from tests.extras.studio.datasets.calls import Dataset, with_tape


def take_of(seconds: float = 2.0) -> bytes:
    """A sentence between silences."""
    hiss = np.random.default_rng(1).normal(0, 3e-4, int((seconds + 1) * 22_050))
    return file_of((np.pad(speech(seconds), 11_025)[: len(hiss)] + hiss).astype(np.float32))


def reading(service: Any, text: str | None = "One. Two here. Three.", language: str = "pt"):
    dataset = Dataset(service, "Ana", language)
    answer = dataset.ask("PUT", "/prompts", json={"text": text})
    assert answer.status_code == 200, answer.text
    return dataset


def test_sentences_are_read_kept_and_trained_on(service):
    dataset = reading(service)
    sheet = dataset.ask("GET", "/prompts").json()
    assert [row["text"] for row in sheet["prompts"]] == ["One.", "Two here.", "Three."]
    assert sheet["next"] == 1 and not sheet["recogniser"] and sheet["source"] == "own"
    checked = dataset.ask("PUT", "/prompts/1/take", content=take_of()).json()
    assert checked["findings"] == [] and not checked["kept"] and checked["usable"]
    assert dataset.ask("GET", "/prompts").json()["kept"] == 0
    assert dataset.ask("PUT", "/prompts/1/take?keep=1", content=take_of()).json()["kept"]
    # The browser's container works, too.
    webm = made("webm", np.pad(speech(2.5, 48_000), 24_000))
    assert dataset.ask("PUT", "/prompts/3/take?keep=true", content=webm).json()["kept"]
    skipped = dataset.ask("POST", "/prompts/2/skip").json()
    assert skipped["state"] == "skipped"
    sheet = dataset.ask("GET", "/prompts").json()
    assert (sheet["kept"], sheet["skipped"], sheet["next"]) == (2, 1, None)
    heard = service.client.get(sheet["prompts"][0]["sound"])
    assert heard.status_code == 200 and heard.content.startswith(b"RIFF")
    details = dataset.details()
    assert details["read_aloud"] and details["clips"]["kept"] == 2
    assert details["train"]["command"].startswith("DATASET_DIR=")
    assert [row["text"] for row in dataset.clips()] == ["One.", "Three."]
    assert len(dataset.metadata.splitlines()) == 2
    assert dataset.ask("DELETE", "/prompts/1/take").status_code == 204
    assert dataset.ask("DELETE", "/prompts/2/take").status_code == 204
    assert len(dataset.metadata.splitlines()) == 1
    assert dataset.ask("GET", "/prompts").json()["next"] == 1
    (row,) = service.client.get("/v1/datasets").json()["datasets"]
    assert row["read_aloud"]


def test_what_is_kept_is_there_after_the_service_was_killed(tmp_path):
    settings = settings_in(tmp_path)
    with running(settings) as service:
        dataset = reading(service)
        assert dataset.ask("PUT", "/prompts/2/take?keep=1", content=take_of()).json()["kept"]
        metadata = dataset.folder / "clips/metadata.csv"
        kept = metadata.read_text()
    metadata.unlink()  # as a kill before the last write leaves it
    (metadata.parent / "wavs/0001-12345678.wav").write_bytes(b"half")
    with running(settings) as service:
        service.wait_until(metadata.is_file, 30)
        assert metadata.read_text() == kept
        service.wait_until(lambda: len(list(metadata.parent.glob("wavs/*"))) == 1, 30)
        answer = service.client.get("/v1/datasets/ana/prompts").json()
        assert answer["prompts"][1]["state"] == "kept" and answer["next"] == 1


def test_built_in_sentences(service):
    dataset = reading(service, None, "en-gb")
    sheet = dataset.ask("GET", "/prompts").json()
    assert sheet["source"] == "built_in" and len(sheet["prompts"]) >= 60


def test_what_is_refused(service):
    empty = Dataset(service, "Empty", "en")
    assert refused(empty.ask("GET", "/prompts")) == (404, "no_prompts")
    assert refused(empty.ask("PUT", "/prompts/1/take", content=take_of())) == (404, "no_prompts")
    assert refused(empty.ask("PUT", "/prompts", json={"text": "…"})) == (422, "no_text")
    dataset = reading(service)
    for method, path in (
        ("PUT", "/prompts/4/take"),
        ("POST", "/prompts/4/skip"),
        ("DELETE", "/prompts/4/take"),
    ):
        assert refused(dataset.ask(method, path, content=b"x")) == (404, "no_prompt"), path
    assert refused(dataset.ask("DELETE", "/prompts/1/take")) == (404, "no_take")
    assert dataset.ask("PUT", "/prompts/0/take", content=b"").status_code == 422
    assert refused(dataset.ask("PUT", "/prompts/1/take", content=b"no wav")) == (422, "not_a_recording")
    half = take_of()[:30]
    assert refused(dataset.ask("PUT", "/prompts/1/take", content=half)) == (422, "not_a_recording")
    dataset.ask("PUT", "/prompts/1/take?keep=1", content=take_of()).raise_for_status()
    assert refused(dataset.ask("POST", "/prompts/1/skip")) == (409, "has_take")
    assert refused(dataset.ask("PUT", "/prompts", json={"text": "Other."})) == (409, "has_takes")
    assert refused(dataset.upload("tape.wav")) == (409, "read_aloud")
    assert refused(dataset.ask("PUT", "/text", content=b"Words.")) == (409, "read_aloud")
    assert refused(dataset.ask("POST", "/cut")) == (409, "read_aloud")
    taped = with_tape(service, "Tape")
    assert refused(taped.ask("PUT", "/prompts", json={})) == (409, "has_recordings")
    nothing = f"/v1/datasets/{dataset.id}x/prompts"
    assert refused(service.client.get(nothing)) == (404, "no_dataset")


@pytest.mark.parametrize(
    ("sound", "kind"),
    [(np.zeros(44_100, np.float32), "silent"), (speech(15.0), "long")],
    ids=["silent", "long"],
)
def test_what_cannot_be_a_clip_is_told_and_never_kept(service, sound, kind):
    dataset = reading(service)
    told = dataset.ask("PUT", "/prompts/1/take", content=file_of(sound)).json()
    assert kind in [found["kind"] for found in told["findings"]] and not told["usable"]
    answer = dataset.ask("PUT", "/prompts/1/take?keep=1", content=file_of(sound))
    assert refused(answer) == (422, "unusable_take")
    assert answer.json()["detail"] in [found["sentence"] for found in told["findings"]]
    assert dataset.ask("GET", "/prompts").json()["kept"] == 0


def test_what_more_minutes_would_bring():
    assert advise_on_length(0, 0.0, 60).startswith("0.0 s of clips. About 45 more sentences")
    assert advise_on_length(1, 2.5, 59).startswith("2.5 s of clips. About 71 more sentences")
    assert "About 15 more sentences make 3 minutes" in advise_on_length(30, 120.0, 30)
    assert "about 240 more sentences make 30 minutes" in advise_on_length(60, 360.0, 0)
    assert advise_on_length(500, 2000.0, 0).endswith("enough for a good voice.")


@pytest.mark.parametrize(
    ("kept", "seconds", "left", "is_told"),
    [
        (1, 2.5, 59, True),
        (0, 0.0, 60, False),
        (30, 120.0, 15, False),
        (30, 120.0, 14, True),
        (60, 360.0, 0, True),
        (500, 2000.0, 0, False),
    ],
)
def test_a_set_with_too_few_sentences_left_says_how_to_go_on(kept, seconds, left, is_told):
    told = advise_on_length(kept, seconds, left)
    assert (f"{left} are left here: read a text of your own for more." in told) is is_told
