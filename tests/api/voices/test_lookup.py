"""A voice is found by id, by one of OpenAI's names, or by its name."""

import pytest

from api.errors import APIError
from api.schemas import is_served
from api.voices.store import UploadedVoice, find_by_name


def voice(identity: str, name: str) -> UploadedVoice:
    return UploadedVoice(identity, name, "2026-11-22T00:00:00+00:00", 3.0, "0" * 64)


ANNA, ELODIE = voice("aaaaaaaaaaaa", "Anna"), voice("bbbbbbbbbbbb", "Élodie du  Nord")
VOICES = [ANNA, ELODIE]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("Anna", ANNA),
        ("anna", ANNA),
        (" ANNA ", ANNA),
        ("anna.wav", ANNA),
        ("élodie du nord", ELODIE),
        ("ÉLODIE DU NORD", ELODIE),
        ("default", None),
        ("Default.wav", None),
        # Names that the served voice had before another epoch was served.
        ("epoch 2 at 30% (905c8a39)", None),
        ("Epoch 12 (905c8a39).wav", None),
        ("demo", None),
        ("base of the current run (905c8a39)", None),
        ("epoch 3", None),
        ("Epoch 3.wav", None),
        ("nova.wav", None),
        ("default.wav", None),
    ],
)
def test_a_voice_is_found_by_its_name(asked, expected):
    assert find_by_name(asked, "epoch 3", VOICES) == expected


def test_openais_names_are_the_served_voice():
    assert all(is_served(name) for name in ("alloy", "nova", "default"))
    assert not is_served("Anna") and not is_served("epoch 3")


@pytest.mark.parametrize(
    ("asked", "status", "code", "told"),
    [
        ("nobody", 404, "no_voice", ""),
        ("Anna (old)", 404, "no_voice", ""),
        ("Anna (30%)", 404, "no_voice", ""),
        # The refusal lists their ids.
        ("Anna", 409, "ambiguous_voice", "aaaaaaaaaaaa, cccccccccccc"),
        # remsky/Kokoro-FastAPI at 26eec068, api/src/routers/openai_compatible.py: names, weights
        ("af_bella+af_sky", 400, "unsupported", "a mixture of voices"),
        ("af_bella(2)+af_sky(1)", 400, "unsupported", "a mixture of voices"),
        ("af_bella(0.5)", 400, "unsupported", "a mixture of voices"),
    ],
)
def test_what_means_no_voice_several_or_a_mixture_is_refused(asked, status, code, told):
    with pytest.raises(APIError) as caught:
        find_by_name(asked, "demo", [*VOICES, voice("cccccccccccc", "anna")], "speaker_wav")
    assert (caught.value.status, caught.value.code) == (status, code)
    assert told in caught.value.detail and caught.value.param == "speaker_wav"


def test_a_voice_may_be_called_like_a_mixture():
    both = voice("dddddddddddd", "Anna + Bea")
    assert find_by_name("anna + bea", "demo", [both]) == both
