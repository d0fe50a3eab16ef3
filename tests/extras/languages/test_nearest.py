"""The language of a base that is most similar to a text's."""

import pytest

from extras.languages.nearest import nearest_language

XTTS = "en es fr de it pt pl tr ru nl cs ar zh-cn hu ko ja hi".split()


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("сьогодні чудова погода, і ми підемо гуляти до лісу разом із друзями", "ru"),
        ("dnes je pekné počasie a pôjdeme sa prejsť do lesa s našimi priateľmi", "cs"),
        (
            "avui fa molt bon temps i anirem a passejar amb els amics de la meva germana. la casa "
            "és gran i bonica, però el jardí és petit. què vols menjar aquest vespre?",
            "es",
        ),
    ],
)
def test_the_nearest_language_is_a_relative(text, nearest):
    assert nearest_language([text], XTTS) == nearest


def test_one_candidate_is_the_nearest():
    assert nearest_language(["γειά"], ["en"]) == "en"
