"""Joins the recordings of a voice into the one that models hear, and measures it.

The result switches between them (`xtts.joined_reference`). It runs in the service's own process,
which has no torch, on what the decoding child has made.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from api.errors import APIError
from api.voices.recordings import MOST_SECONDS, DecodedRecording
from api.voices.samples import GOOD_LEVEL_DB, measure, read_wav, remarks_of, resampled, wav_of
from xtts.joined_reference import joined, turn_seconds

Array = np.ndarray[Any, Any]

# Which models will hear a voice is not known when it is uploaded. 2 s are a whole part of the
# chunks that models take latents of (4 s in XTTS-v2's config, 6 s in Coqui's defaults, 2 s in the
# embedded voice's), so that a chunk holds whole turns. The embedded voice hears the first 10 s, the
# least of all known: of more than five recordings a turn is 1 s, so that each is heard there too.
CHUNK_SECONDS, HEARD_SECONDS = 2.0, 10.0
# Models hear 22,050 Hz. Ten minutes at this rate are 115 MB in memory.
_MOST_RATE = 48_000


def joined_recording(recordings: Sequence[bytes]) -> DecodedRecording:
    """Several WAV files, 16 bits and mono, as one of at most a minute, at the highest of their
    rates, or 48 kHz. Remarks name a recording by its number.

    Raises APIError (422) where what is heard is no speech.
    """
    read = [read_wav(one) for one in recordings]
    rate = min(max(one for _, one in read), _MOST_RATE)
    alike = [resampled(samples, of, rate) for samples, of in read]
    turn = turn_seconds(len(alike), CHUNK_SECONDS, HEARD_SECONDS)
    sound = joined(alike, rate, turn, MOST_SECONDS)
    try:
        measured = measure(sound, rate)
    except ValueError as error:
        raise APIError(422, "not_a_recording", f"Joined: {error}", param="file") from error
    return DecodedRecording(
        wav_of(sound, rate), len(sound) / rate, _with_remarks(measured, alike, rate)
    )


def _with_remarks(
    measured: dict[str, Any], recordings: Sequence[Array], rate: int
) -> dict[str, Any]:
    """The quality of the joined recording, with what is wrong with single ones. How long they are
    together counts, and not how long each is."""
    remarks = [
        f"Recording {number}: {remark}"
        for number, samples in enumerate(recordings, start=1)
        for remark in _remarks(samples, rate)
    ]
    if not remarks:
        return measured
    length = remarks_of(measured["speech_seconds"], math.inf, GOOD_LEVEL_DB, 0.0)
    word = "usable" if measured["word"] == "good" else measured["word"]
    return measured | {"word": word, "remarks": [*length, *remarks]}


def _remarks(samples: Array, rate: int) -> list[str]:
    try:
        found = measure(samples, rate)
    except ValueError as error:  # kept by a version that refused less
        return [str(error)]
    return remarks_of(math.inf, found["snr_db"], found["level_db"], found["clipped_share"])
