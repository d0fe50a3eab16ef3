"""Teachers of other languages for the codec and the vocoder, which a fine-tune's GPT leaves alone.

They read the same kind of sentences as well as their alphabets allow. With only three voices, even
shifted ones, codec and vocoder learn three vocal tracts and represent a user's voice badly. XTTS's
frozen parts were trained on thousands of people; these teachers add a dozen. The GPT, which should
speak English, never learns from them. Festival speaks them (packages in `PACKAGES`), in one process
per voice.
"""

import atexit
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import soundfile
import torch

from demo_voice.teachers import flite
from demo_voice.teachers.flite import RATE, SpeakingStyle, TeacherError
from xtts.audio import resample
from xtts.text.phonemes import to_phones

PACKAGES = (
    "festival festvox-kdlpc16k festvox-italp16k festvox-itapc16k festvox-suopuhe-lj "
    "festvox-suopuhe-mv festvox-czech-dita festvox-czech-machac festvox-czech-krb "
    "festvox-czech-ph festvox-ca-ona-hts festvox-ru"
)
# Festival's own names of the voices.
ACCENTS = tuple(
    SpeakingStyle(name, voice, Fraction(1))
    for name, voice in (
        ("ked", "ked_diphone"),
        ("lp", "lp_diphone"),
        ("pc", "pc_diphone"),
        ("lj", "suo_fi_lj_diphone"),
        ("mv", "hy_fi_mv_diphone"),
        ("dita", "czech_dita"),
        ("machac", "czech_machac"),
        ("krb", "czech_krb"),
        ("ph", "czech_ph"),
        ("ona", "upc_ca_ona_hts"),
        ("nsh", "msu_ru_nsh_clunits"),
    )
)
_ENGLISH, _RUSSIAN = "ked", "nsh"
# Phones (`xtts.text.phonemes`) spelled in letters with a similar sound in Italian, Finnish, Czech
# and Catalan.
_LETTERS = {
    "A": "a", "&": "e", "V": "a", "@": "e", "O": "o", "W": "au", "Y": "ai", "C": "ts", "D": "d",
    "E": "e", "R": "er", "e": "ei", "h": "h", "I": "i", "i": "i", "J": "ds", "N": "n", "o": "ou",
    "X": "oi", "S": "s", "T": "t", "U": "u", "u": "u", "w": "u", "j": "i", "z": "s", "Z": "s",
}  # fmt: skip
_CYRILLIC = str.maketrans("abdefghiklmnoprstuv", "абдефгхиклмнопрстув")
# Festival's phones of the other languages; a phone in neither list goes by its first letter.
_ENGLISH_PHONES = {
    "#": flite.SILENCE, "a": "aa", "e": "eh", "i": "iy", "o": "ow", "u": "uw", "j": "y",
    "h": "hh", "x": "hh", "q": "k", "c": "k", "E": "eh", "O": "ao", "ts": "t", "dz": "d",
    "ch~": "ch", "tS": "ch", "dZ": "jh", "S": "sh", "Z": "zh",
}  # fmt: skip


def spelled(text: str, manner: SpeakingStyle) -> str:
    """`text` respelled so that the voice reads it nearly as English; unchanged for an English
    voice."""
    if manner.name == _ENGLISH:
        return text
    letters = "".join(_LETTERS.get(phone, phone) for phone in to_phones(text))
    return letters.translate(_CYRILLIC) if manner.name == _RUSSIAN else letters


def speak(text: str, manner: SpeakingStyle) -> np.ndarray:
    """`text` as int16 samples [n] at 16 kHz; words that the voice has no sounds for are left out.

    Raises TeacherError.
    """
    voice, letters = _process(manner.voice), spelled(text, manner)
    sound = voice.speak(letters)
    if sound is None:
        parts = [part for word in letters.split() if (part := voice.speak(word)) is not None]
        if not parts:
            raise TeacherError(f"Festival's {manner.voice} did not speak {letters!r}.")
        sound = np.concatenate(parts)
    return (np.clip(sound, -1, 1) * 32767).astype(np.int16)


def phone_times(text: str, manner: SpeakingStyle) -> list[tuple[str, float]]:
    """The phones of a clip by the names of `flite.NAMES`, with their ends in seconds; empty if
    Festival had to leave words out. Raises TeacherError."""
    pairs = _process(manner.voice).phones(spelled(text, manner))
    return [(_english(phone), end) for phone, end in pairs]


def _english(phone: str) -> str:
    """The nearest English phone; an unknown one stays as it is."""
    plain = phone.rstrip("0123456789:")
    for name in (plain, _ENGLISH_PHONES.get(plain), plain[:1], _ENGLISH_PHONES.get(plain[:1])):
        if name in flite.NAMES:
            return str(name)
    return plain


def plan(sentences: Sequence[str]) -> list[tuple[str, SpeakingStyle]]:
    """Assigns the sentences to the voices in turn."""
    return [(text, ACCENTS[number % len(ACCENTS)]) for number, text in enumerate(sentences)]


class Festival:
    """A Festival process with one voice open; it ends when this process ends and its input
    closes."""

    def __init__(self, voice: str) -> None:
        try:
            self._process = subprocess.Popen(
                ["festival", "--pipe"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, encoding="utf-8",
            )  # fmt: skip
        except FileNotFoundError:
            raise TeacherError(
                "Festival is not installed; its voices teach the parts that are never fine-tuned. "
                f"Install it with: apt-get install {PACKAGES}"
            ) from None
        atexit.register(self.close)
        self._busy = threading.Lock()
        self._voice = voice
        self._ask(f"(voice_{voice})")

    def speak(self, text: str) -> np.ndarray | None:
        """The spoken text, float32 [n] at 16 kHz; None if it cannot be spoken."""
        quoted = text.replace("\\", "").replace('"', "")
        with tempfile.TemporaryDirectory() as folder, self._busy:
            path = Path(folder) / "spoken.wav"
            self._ask(f'(utt.save.wave (utt.synth (Utterance Text "{quoted}")) "{path}" \'riff)')
            if not path.is_file():
                return None
            samples, rate = soundfile.read(path, dtype="float32")
        return np.asarray(resample(torch.from_numpy(samples), rate, RATE))

    def phones(self, text: str) -> list[tuple[str, float]]:
        """The phones of the text by Festival's names, with their ends in seconds; empty if it
        cannot speak all of it."""
        quoted = text.replace("\\", "").replace('"', "")
        with self._busy:
            lines = self._ask(
                f'(mapcar (lambda (s) (format t "=%s %f\\n" (item.name s) (item.feat s "end")))'
                f' (utt.relation.items (utt.synth (Utterance Text "{quoted}")) \'Segment))'
            )
        entries = (line[1:].split() for line in lines if line.startswith("="))
        return [(phone, float(end)) for phone, end in entries]

    def close(self) -> None:
        """Closes its input, so that it ends."""
        self._process.communicate()

    def _ask(self, command: str) -> list[str]:
        given, answers = self._process.stdin, self._process.stdout
        assert given is not None and answers is not None
        given.write(f'(unwind-protect {command} nil)\n(format t "\\nready\\n")\n(fflush nil)\n')
        given.flush()
        lines: list[str] = []
        for line in answers:
            if line.strip() == "ready":
                return lines
            lines.append(line)
        raise TeacherError(
            f"Festival ended with {self._process.wait()} at {command}. Its voice may not be "
            f"installed: apt-get install {PACKAGES}"
        )


@cache
def _process(voice: str) -> Festival:
    return Festival(voice)
