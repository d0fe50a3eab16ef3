"""A voice by id, by one of OpenAI's names, or by its own."""

import pytest

from api.errors import APIError
from api.voices.store import UploadedVoice, find_by_name, is_served, labels


def voice(identity: str, name: str) -> UploadedVoice:
    return UploadedVoice(identity, name, "2026-11-22T00:00:00+00:00", 3.0, "0" * 64)


ANNA, ELODIE = voice("aaaaaaaaaaaa", "Anna"), voice("bbbbbbbbbbbb", "Élodie du  Nord")
VOICES = [ANNA, ELODIE]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("Anna", ANNA), ("anna", ANNA), (" ANNA ", ANNA), ("anna.wav", ANNA),
        ("élodie du nord", ELODIE), ("ÉLODIE DU NORD", ELODIE),
        ("epoch 3", None), ("Epoch 3.wav", None), ("nova.wav", None), ("default.wav", None),
    ],
)  # fmt: skip
def test_a_voice_is_found_by_its_name(asked: str, found: UploadedVoice | None) -> None:
    assert find_by_name(asked, "epoch 3", VOICES) == found


def test_openais_names_are_the_served_voice() -> None:
    assert all(is_served(name) for name in ("alloy", "nova", "default"))
    assert not is_served("Anna") and not is_served("epoch 3")


def test_a_voice_that_is_not_there_is_refused() -> None:
    with pytest.raises(APIError) as caught:
        find_by_name("nobody", "demo", VOICES, "speaker_wav")
    told = caught.value
    assert (told.status, told.code, told.param) == (404, "no_voice", "speaker_wav")


def test_two_voices_of_one_name_are_told_apart_by_their_ids() -> None:
    twin = voice("cccccccccccc", "anna")
    with pytest.raises(APIError) as caught:
        find_by_name("Anna", "demo", [ANNA, twin])
    assert (caught.value.status, caught.value.code) == (409, "ambiguous_voice")
    assert "aaaaaaaaaaaa, cccccccccccc" in caught.value.detail


# remsky/Kokoro-FastAPI at 26eec068, api/src/routers/openai_compatible.py: name(weight)+name
@pytest.mark.parametrize("asked", ["af_bella+af_sky", "af_bella(2)+af_sky(1)", "af_bella(0.5)"])
def test_mixtures_are_refused_in_a_sentence(asked: str) -> None:
    with pytest.raises(APIError) as caught:
        find_by_name(asked, "demo", VOICES)
    assert (caught.value.status, caught.value.code) == (400, "unsupported")
    assert "a mixture of voices. XTTS speaks with one voice" in caught.value.detail


def test_a_voice_may_be_called_like_a_mixture() -> None:
    both = voice("dddddddddddd", "Anna + Bea")
    assert find_by_name("anna + bea", "demo", [both]) == both


def test_every_label_finds_its_voice_again() -> None:
    """Names that mean something else, or several voices, are listed by id."""
    odd = [voice(f"{number:012}", name) for number, name in
           enumerate(["Nova", "default", "Anna", "demo", "x.wav", "Bea"])]  # fmt: skip
    found = labels("demo", [ANNA, *odd])
    assert next(iter(found.values())) == "default" and len(found) == 8
    by_id = {one.id: one for one in [ANNA, *odd]}
    for label, identity in found.items():
        if label in by_id:
            assert label == identity
        elif is_served(label):
            assert identity == "default"
        else:
            assert find_by_name(label, "demo", [ANNA, *odd]) == by_id.get(identity)
    assert "Bea" in found and "Nova" not in found and "x.wav" not in found
