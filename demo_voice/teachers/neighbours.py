"""More English teachers: RHVoice's bdl and clb, and the two voices of SVOX Pico.

The GPT takes only those that a recogniser understands as well as the main teacher.

A codec trained on flite's three English speakers alone gave a new voice codes that lost half of its
phones. RHVoice's `alan` is left out: he is Scottish like ARCTIC's awb, who is held out, and perhaps
the same man. Neither program reports phones; pocketsphinx aligns them.
"""

import re
import tempfile
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from demo_voice.teachers import flite
from demo_voice.teachers.flite import RATE, SpeakingStyle, TeacherError
from xtts.text.phonemes import PHONES, to_phones

# In Debian's section non-free: the trained networks come without their training data.
PACKAGES = "rhvoice rhvoice-english libttspico-utils, of the section non-free"
NEIGHBOURS = (
    SpeakingStyle("bdl", "bdl", Fraction(1), (), 3.0),
    SpeakingStyle("bdl-small", "bdl", Fraction(9, 8), (), 1.0),
    SpeakingStyle("clb", "clb", Fraction(1), (), 3.0),
    SpeakingStyle("clb-low", "clb", Fraction(7, 8), (), 1.0),
    SpeakingStyle("pico-us", "en-US", Fraction(1), (), 1.0),
    SpeakingStyle("pico-gb", "en-GB", Fraction(1), (), 1.0),
)
_NAMES = {letter: name.lower() for name, letter in PHONES.items()}
_FRAMES_PER_SECOND = 100


def speak(text: str, manner: SpeakingStyle) -> np.ndarray:
    """`text` as int16 samples [n] at 16 kHz. Raises TeacherError."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spoken.wav"
        if manner.voice.startswith("en-"):
            flite.run(["pico2wave", "-l", manner.voice, "-w", str(path), text], text, PACKAGES)
        else:
            # Spoken more slowly first, because it is then played faster.
            rate = str(round(100 / manner.shift))
            command = ["RHVoice-test", "-p", manner.voice, "-r", rate, "-o", str(path)]
            flite.run(command, text, PACKAGES, given=text)
        if not path.is_file():
            raise TeacherError(f"{manner.voice} did not speak {text!r}.")
        return flite.played(path, manner.shift)


def phone_times(text: str, manner: SpeakingStyle) -> list[tuple[str, float]]:
    """The phones of a clip by the names of `flite.NAMES`, with their ends in seconds; empty if the
    recogniser does not know a word or cannot align the text. Raises TeacherError."""
    words = re.findall(r"[a-z']+", text.lower())
    decoder = _recogniser()
    sound = speak(text, manner).tobytes()
    try:
        decoder.set_align_text(" ".join(words))
        hear(decoder, sound)
        decoder.set_alignment()
        hear(decoder, sound)
        alignment = decoder.get_alignment()
    except RuntimeError:
        return []
    return [] if alignment is None else [pair for word in alignment for pair in _phones(word)]


def hear(decoder: Any, sound: bytes) -> None:
    """Recognises PCM16 at 16 kHz in a fresh state; otherwise the noise estimate of the clip before
    would be used."""
    decoder.reinit_feat()
    decoder.start_utt()
    decoder.process_raw(sound, full_utt=True)
    decoder.end_utt()


def _phones(word: Any) -> list[tuple[str, float]]:
    """The phones of a recognised word. The recogniser has one vowel for AH and AX; our dictionary
    says which it is, if it has as many phones for the word."""
    heard = list(word)
    ours = [_NAMES.get(letter, "") for letter in to_phones(re.sub(r"\(\d+\)$", "", word.name))]
    known = len(ours) == len(heard)
    pairs = []
    for place, phone in enumerate(heard):
        name = flite.SILENCE if phone.name == "SIL" else phone.name.lower()
        if name == "ah":
            name = ours[place] if known and ours[place] in ("ah", "ax") else ""
        pairs.append((name, (phone.start + phone.duration) / _FRAMES_PER_SECOND))
    return pairs


@cache
def _recogniser() -> Any:
    return open_recogniser()


def open_recogniser() -> Any:
    """A new pocketsphinx decoder with its English model. Raises TeacherError."""
    try:
        from pocketsphinx import Decoder
    except ImportError as error:
        raise TeacherError(
            "pocketsphinx is missing, which hears words and finds the phones of voices that do not "
            "tell them; it has wheels for Python 3.11 and 3.13. Install it with: "
            ".venv/bin/python -m pip install pocketsphinx"
        ) from error
    return Decoder(samprate=RATE, loglevel="FATAL")
