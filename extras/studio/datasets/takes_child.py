"""The child process that checks a take: decodes it and recognises its words.

Arguments: the maximum number of seconds, the language, the sentence, and the container format if
FFmpeg decodes it. stdout is the take without the silence around it as a WAV; the last line of
stderr has the findings as JSON. The exit codes are those of `api.voices.recordings_child`.
"""

import sys
from collections.abc import Callable

import numpy as np

from api.voices.recordings_child import import_all, run_limited
from xtts.evaluation.pocketsphinx_child import decoder_of_english, transcript
from xtts.evaluation.recogniser import pcm

# Enough to decode a minute and recognise the words of twelve seconds.
_MAX_CPU_SECONDS = 40
# The language that is recognised without an additional model.
_RECOGNISED_LANGUAGE = "en"


def main() -> int:
    """Reads a recording from stdin, checks it and writes the results."""
    max_seconds, language, text = float(sys.argv[1]), sys.argv[2], sys.argv[3]
    by_av = sys.argv[4:5]
    recognisers: list[Callable[[np.ndarray], str] | None] = []

    def prepare() -> None:
        import extras.studio.datasets.take_checks  # noqa: F401

        import_all(bool(by_av))
        recognisers.append(_open_recogniser(language))

    def make(data: bytes) -> tuple[bytes, dict[str, object]]:
        from api.voices.decoding import decode_mono
        from extras.studio.datasets.take_checks import check

        mono, rate = decode_mono(data, max_seconds, *by_av)
        return check(mono, rate, text, language, recognisers[0])

    return run_limited(prepare, make, _MAX_CPU_SECONDS)


def _open_recogniser(language: str) -> Callable[[np.ndarray], str] | None:
    """The recogniser of the language, or None if it is not installed."""
    if language.partition("-")[0] != _RECOGNISED_LANGUAGE:
        return None
    try:
        decoder = decoder_of_english()
    except ImportError:
        return None
    return lambda samples: transcript(decoder, pcm(samples))


if __name__ == "__main__":
    sys.exit(main())
