"""Labels of voices, by which the other programs' protocols name them."""

from api.schemas import is_served
from api.voices.store import UploadedVoice, find_by_name
from extras.common.protocols import labels_of


def voice(identity: str, name: str) -> UploadedVoice:
    return UploadedVoice(identity, name, "2026-11-22T00:00:00+00:00", 3.0, "0" * 64)


ANNA = voice("aaaaaaaaaaaa", "Anna")


def test_every_label_finds_its_voice_again():
    """Names with another meaning, or shared by several voices, are listed by id."""
    odd = [
        voice(f"{number:012}", name)
        for number, name in enumerate(["Nova", "default", "Anna", "demo", "x.wav", "Bea"])
    ]
    found = labels_of([ANNA, *odd])
    assert next(iter(found.items())) == ("default", "default") and len(found) == 8
    by_id = {voice.id: voice for voice in [ANNA, *odd]}
    for label, identity in found.items():
        if label in by_id:
            assert label == identity
        elif is_served(label):
            assert identity == "default"
        else:
            assert find_by_name(label, "demo", [ANNA, *odd]) == by_id.get(identity)
    assert "Bea" in found and "Nova" not in found and "x.wav" not in found
