"""Text and edges of the page stand out from their ground in both themes (WCAG 2.1 AA), by
colours.css alone; tests of the system tier look at the page in a browser."""

import re

import pytest

from api.parts import PAGE, page_folders

GROUNDS = ("ground", "surface")
# (text or edge, ground, the least contrast)
PAIRS = [
    *(
        (text, ground, 4.5)
        for text in ("ink", "soft", "accent", "alarm", "slate")
        for ground in (*GROUNDS, "sheet")
    ),
    ("on-accent", "accent", 4.5),
    ("on-accent", "accent-hover", 4.5),
    ("surface", "slate", 4.5),
    ("ink", "accent-wash", 4.5),
    ("accent", "accent-wash", 4.5),
    ("ink", "alarm-wash", 4.5),
    ("alarm", "alarm-wash", 4.5),
    *(("edge", ground, 3.0) for ground in GROUNDS),
]


def themes() -> dict[str, dict[str, str]]:
    """The colours of each theme: name -> six hexadecimal digits."""
    text = (PAGE / "colours.css").read_text(encoding="utf-8")
    light, dark = text.split("@media (prefers-color-scheme: dark)")
    read = [dict(re.findall(r"--([\w-]+): #([0-9a-f]{6});", part)) for part in (light, dark)]
    return {"light": read[0], "dark": read[0] | read[1]}


def luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(colour: str, other: str) -> float:
    darker, lighter = sorted((luminance(colour), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("front", "ground", "least"), PAIRS)
def test_contrast(theme, front, ground, least):
    colours = themes()[theme]
    assert contrast(colours[front], colours[ground]) >= least


def test_every_colour_of_text_is_compared_and_both_themes_have_every_colour():
    styles = [path for folder in (PAGE, *page_folders().values()) for path in folder.glob("*.css")]
    used = {
        name
        for path in styles
        for name in re.findall(r"(?<![-\w])color: var\(--([\w-]+)\)", path.read_text("utf-8"))
    }
    assert used <= {front for front, _, least in PAIRS if least == 4.5}
    text = (PAGE / "colours.css").read_text(encoding="utf-8")
    names = [re.findall(r"--([\w-]+): #", part) for part in text.split("@media")]
    assert names[0] == names[1]


def test_the_contrast_is_that_of_the_standard():
    assert contrast("000000", "ffffff") == pytest.approx(21)
    assert contrast("777777", "ffffff") == pytest.approx(4.48, abs=0.01)
