"""The card of a voice file, for hubs and for a person."""

from dataclasses import replace

import pytest

from tests.xtts.voices.files.made import MADE
from xtts.download.xtts_v2 import XTTS_V2
from xtts.model.config import CPML
from xtts.voices.files.manifest import Base, Consent, short_base, spdx_of
from xtts.voices.files.model_card import render

OF_XTTS = replace(
    MADE,
    base=Base("xtts_v2", XTTS_V2["model.pth"].sha256),
    licence=spdx_of(CPML),
    licence_text=CPML,
    languages=("en", "zh-cn", "pt"),
)


def front_matter(text: str) -> list[str]:
    first, *lines = text.splitlines()
    assert first == "---"
    return lines[: lines.index("---")]


def test_a_voice_of_xtts_v2_has_its_licence_base_and_library():
    assert front_matter(render(OF_XTTS, None)) == [
        "license: other",
        "license_name: coqui-public-model-license",
        "license_link: https://coqui.ai/cpml",
        "base_model: coqui/XTTS-v2",
        "library_name: coqui",
        "pipeline_tag: text-to-speech",
        "language:",
        "- en",
        "- zh",
        "- pt",
        "tags:",
        "- xtts",
        "- voice-cloning",
    ]


def test_another_base_is_not_called_xtts_v2():
    front = front_matter(render(MADE, None))
    assert front[0] == "license: mit" and "library_name: sotaque" in front
    assert not any(line.startswith("base_model") for line in front)
    other = replace(MADE, licence="LicenseRef-Ours", licence_text="Ours; all rights reserved")
    assert front_matter(render(other, None))[:2] == ["license: other", "license_name: LicenseRef-Ours"]


def test_figures_and_a_consent_are_told_and_never_as_verified():
    judges = {"voice": {"best": 0.91234, "base": 0.7}, "words": {"best": "<b>"}, "x": 3}
    made = replace(MADE, evaluation={"reason": "Nearer.", "judges": judges})
    text = render(made, Consent("Anna", "today", "any use"))
    assert "- voice: 0.912 (base 0.7)" in text and "Why these weights: Nearer." in text
    assert "- Who: Anna" in text and "nobody has verified it" in text
    assert "verified" not in text.replace("nobody has verified it", "")
    assert "Consent" not in render(made, None)


def test_a_strangers_name_begins_no_block_and_no_key():
    made = replace(MADE, name="x\n---\nlicense: mit\n# y <script>", languages=("en\nlicense: z",))
    text = render(made, None)
    assert front_matter(text).count("license: mit") == 1 and "<script>" not in text
    assert "\nlicense: z" not in text


@pytest.mark.parametrize(
    ("licence", "expected"),
    [
        ("MIT; learned from recordings", "MIT"),
        (CPML, "LicenseRef-CPML-1.0.0"),
        ("Apache-2.0", "Apache-2.0"),
        ("Our own licence, 2026", "LicenseRef-Our-own-licence-2026"),
        ("", "LicenseRef-unknown"),
        ("mit", "LicenseRef-mit"),
    ],
)
def test_a_licence_is_an_spdx_identifier_or_a_reference(licence, expected):
    assert spdx_of(licence) == expected


def test_a_base_is_named_without_the_folders_of_this_machine():
    names = ("demo", "xtts_v2", "train/xtts_v2", "/home/anna/bases/uk", "bases/uk/")
    assert [short_base(name) for name in names] == ["demo", "xtts_v2", "xtts_v2", "uk", "uk"]
