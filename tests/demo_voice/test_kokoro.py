"""Kokoro's persons, and the phones of its British ones."""

import shutil

import pytest

from demo_voice.teachers import kokoro


def test_no_kept_style_teaches_and_a_mix_has_one_accent():
    persons = [kokoro.draw_mix(number) for number in range(kokoro.PERSONS)]
    styles = {style for person in persons for style in person.shares}
    assert styles == {*kokoro.AMERICAN, *kokoro.BRITISH}
    assert not styles & set(kokoro.KEPT_FROM_TRAINING)
    for number, person in enumerate(persons):
        assert len({style[0] for style in person.shares}) == 1
        assert sum(person.shares.values()) == pytest.approx(1.0)
        assert person == kokoro.draw_mix(number)


@pytest.mark.system
def test_british_phones_keep_punctuation_and_the_number_of_texts():
    assert shutil.which("espeak-ng"), "Install espeak-ng (Debian: apt install espeak-ng)."
    texts = ["The bath water was cold, and nobody asked about the car.", "Where? There!"]
    first, second = kokoro.british_phones(texts)
    assert first == "ðə bˈɑːθ wˈɔːtə wɒz kˈQld, ænd nˈQbɒdɪ ˈɑːskt əbˌWt ðə kˈɑː."
    assert (second.count("?"), second.count("!")) == (1, 1)
