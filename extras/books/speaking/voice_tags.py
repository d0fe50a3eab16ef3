"""Voices and pauses that the text of a book names in brackets."""

import re

from xtts.text.markup import PAUSE_TAG, STYLE_MARK, VOICE_TAG, voice_after

# A voice, a style or a pause.
ANY_TAG = re.compile(r"\[[^\[\]\n]{1,110}\]")


def voice_at_end(text: str, voice: str = "") -> str:
    """The voice at the end of a text that begins with `voice`."""
    for tag in VOICE_TAG.finditer(text) if "[" in text else ():
        voice = voice_after(tag, voice)
    return voice


def tag_of(voice: str) -> str:
    """The tag that changes to a voice, which is named as in `voice_after`; "" for ""."""
    if voice.startswith(STYLE_MARK):
        return f"[style:{voice[1:]}]"
    return f"[voice:{voice}]" if voice else ""


def with_brackets_as_words(text: str) -> str:
    """Prepares a text whose writer may not know the markup: pauses, voices and styles in brackets
    stay tags, other square brackets become round ones, and SSML is disabled."""
    if "<" in text:
        text = re.sub(r"<(?=[/A-Za-z!?])", " ", text)
    if "[" not in text and "]" not in text:
        return text
    tags = sorted([*PAUSE_TAG.finditer(text), *VOICE_TAG.finditer(text)], key=lambda tag: tag.start())
    parts, position = list[str](), 0
    for tag in tags:
        parts += [text[position : tag.start()].replace("[", "(").replace("]", ")"), tag[0]]
        position = tag.end()
    return "".join([*parts, text[position:].replace("[", "(").replace("]", ")")])
