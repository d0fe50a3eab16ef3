"""Screenshots of the page for docs/images, in few colours."""

import io
import os
import re
from pathlib import Path
from typing import Any

from PIL import Image

_COLOURS = Path(__file__).parents[3] / "api/page/colours.css"
_MAX_BYTES = 300_000


def picture(page: Any, folder: Path, name: str, first: str = "", last: str = "") -> None:
    """Writes a screenshot of the screen, or from the section `first` down to the section `last`.

    SOTAQUE_PICTURES names another output folder.
    """
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    width = page.viewport_size["width"]
    ending = f"{'-phone' if width < 1280 else ''}{'-dark' if dark else ''}.png"
    path = Path(os.environ.get("SOTAQUE_PICTURES", folder)) / f"{name}{ending}"
    box = "document.getElementById('{}').getBoundingClientRect()"
    if first:
        # The player and the navigation of a phone would lie over the sections.
        shown = page.is_visible("#player")
        hide = "hidden => ['player', 'index'].forEach((id) => (document.getElementById(id).hidden = hidden))"
        page.evaluate(hide, True)
        foot = page.evaluate(f"{box.format(last or first)}.bottom + scrollY") + 4
        head = page.evaluate(f"{box.format(first)}.top + scrollY") - 16
        clip = {"x": 0, "y": head, "width": width, "height": foot - head}
        taken = page.screenshot(full_page=True, animations="disabled", clip=clip)
        page.evaluate(hide, False)
        page.evaluate(f"document.getElementById('player').hidden = {str(not shown).lower()}")
    else:
        taken = page.screenshot(animations="disabled")
    _few_colours(Image.open(io.BytesIO(taken)).convert("RGB")).save(path, optimize=True)
    assert path.stat().st_size < _MAX_BYTES


def _few_colours(picture: Image.Image) -> Image.Image:
    """Reduces a picture to 256 colours, a third of the size.

    All colours of the page stay, however few pixels have them.
    """
    style = _COLOURS.read_text(encoding="utf-8")
    channels = [byte for colour in re.findall("#([0-9a-f]{6})", style) for byte in bytes.fromhex(colour)]
    others = picture.quantize(256 - len(channels) // 3).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette((channels + others)[:768])
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)
