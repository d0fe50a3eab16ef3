"""Joins the recordings of a voice into one reference for the models, and measures it.

The reference switches between them (`xtts.joined_reference`). This runs in the service process,
without torch, on the WAV files of the decoding child.
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

# The model is not known at upload time. 2 s divide the conditioning chunks of all known models (4 s
# in XTTS-v2's config, 6 s in Coqui's defaults, 2 s in the demo voice's), so each chunk holds whole
# turns. The demo voice uses the first 10 s, less than the others: with more than five recordings a
# turn is 1 s, so that these 10 s include each of them.
CHUNK_SECONDS, HEARD_SECONDS = 2.0, 10.0
# Models use 22,050 Hz. Ten minutes at 48 kHz take 115 MB of memory.
_MOST_RATE = 48_000


def joined_recording(recordings: Sequence[bytes]) -> DecodedRecording:
    """Joins several 16-bit mono WAV files into one of at most a minute, at their highest rate up to
    48 kHz. Remarks name a recording by its number.

    Raises APIError (422) if the result contains no speech.
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
    """The quality of the joined recording, with remarks on single ones; only their total length
    counts."""
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
    except ValueError as error:  # stored by an earlier, less strict version
        return [str(error)]
    return remarks_of(math.inf, found["snr_db"], found["level_db"], found["clipped_share"])
